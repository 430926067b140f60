"""Typed settings of a cluster connection, a fetch and a produce: what raw clients are made from.

These are only the shapes. `connect.clients.config.properties` reads them from Java property names.
They are immutable and may be shared between threads."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from connect.loop import backoff_s

__all__ = [
    "AutoOffsetReset",
    "Compression",
    "CompressionCodec",
    "FetchSettings",
    "ProduceSettings",
    "WireSettings",
]

AutoOffsetReset = Literal["earliest", "latest", "none"]
CompressionCodec = Literal["none", "gzip", "snappy", "lz4", "zstd"]

# Java asks for 1 MiB of each partition by default, which bounds a mirror on a long link to 1 MiB
# per partition and round trip. Ours is larger: memory is bounded per task, not per partition.
DEFAULT_MAX_PARTITION_FETCH_BYTES = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class WireSettings:
    """How to open an authenticated connection to a broker of one cluster. Times in ms."""

    bootstrap: tuple[tuple[str, int], ...]
    client_id: str = ""
    security_protocol: str = "PLAINTEXT"
    """PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL."""
    ssl_context: ssl.SSLContext | None = field(default=None, repr=False, compare=False)
    """Set exactly where the protocol is SSL or SASL_SSL."""
    ssl_check_hostname: bool = True
    """Whether the certificate must name the host: false where the user set
    `ssl.endpoint.identification.algorithm` to the empty string. Already set on `ssl_context`."""
    sasl_mechanism: str | None = None
    sasl: Mapping[str, object] = field(default_factory=dict, repr=False)
    """The keyword arguments of a `kafka.net.sasl` mechanism, under kafka-python's names. Holds
    secrets, so it is never printed."""
    request_timeout_ms: int = 30_000
    socket_connection_setup_timeout_ms: int = 10_000
    send_buffer_bytes: int = -1
    """SO_SNDBUF; -1 leaves it to the operating system, which grows it with the connection. Java's
    default of 128 KiB (64 KiB for receiving) stops that, and costs four times the CPU."""
    receive_buffer_bytes: int = -1
    """SO_RCVBUF; -1 as above."""
    reconnect_backoff_ms: int = 50
    reconnect_backoff_max_ms: int = 1_000
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000
    metadata_max_age_ms: int = 300_000

    def reconnect_backoff_s(self, earlier: int) -> float:
        """See `backoff_s`."""
        return backoff_s(
            self.reconnect_backoff_ms / 1000, self.reconnect_backoff_max_ms / 1000, earlier
        )

    def retry_backoff_s(self, earlier: int) -> float:
        """See `backoff_s`."""
        return backoff_s(self.retry_backoff_ms / 1000, self.retry_backoff_max_ms / 1000, earlier)


@dataclass(frozen=True, slots=True)
class FetchSettings:
    """What a raw fetcher asks a broker for: Java's consumer properties with their defaults."""

    isolation_level: Literal[0, 1] = 0
    """As on the wire: 0 read_uncommitted, 1 read_committed."""
    fetch_min_bytes: int = 1
    fetch_max_bytes: int = 52_428_800
    max_partition_fetch_bytes: int = DEFAULT_MAX_PARTITION_FETCH_BYTES
    """Ours is 4 MiB unless `max.partition.fetch.bytes` is set; Java's default is 1 MiB."""
    fetch_max_wait_ms: int = 500
    client_rack: str = ""
    auto_offset_reset: AutoOffsetReset = "earliest"
    """Where to begin without a stored offset. MirrorMaker 2 begins at `earliest` unless told."""


@dataclass(frozen=True, slots=True)
class Compression:
    """A codec asked for by `compression.type`, with its level (None: the codec's own default)."""

    codec: CompressionCodec
    level: int | None = None


@dataclass(frozen=True, slots=True)
class ProduceSettings:
    """How a raw producer writes: Java's producer properties with their defaults."""

    compression: Compression | None = None
    """None where `compression.type` is not set: batches keep the compression they came with."""
    max_request_size: int = 1_048_576
    """Bound of one Produce request, in bytes, as far as batches allow: a batch is never cut."""
    request_timeout_ms: int = 30_000
    delivery_timeout_ms: int = 2_147_483_647
    """How long one batch is tried. As in Connect, without end unless set."""
    max_in_flight: int = 5
    """Produce requests in flight on a connection; idempotence allows at most 5."""
    transaction_timeout_ms: int = 60_000
    """After which a broker aborts a transaction that its producer did not end."""
