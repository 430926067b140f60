"""Typed settings of raw connections, fetches and produces.

`connect.clients.config.properties` reads them from Java property names. They are immutable and may
be shared between threads.
"""

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

# Java fetches 1 MiB of each partition by default, which limits a mirror over a high-latency link to
# 1 MiB per partition and round trip. Our default is larger: memory is bounded per task, not per
# partition.
DEFAULT_MAX_PARTITION_FETCH_BYTES = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class WireSettings:
    """Settings of an authenticated connection to a broker of one cluster. Times in ms."""

    bootstrap: tuple[tuple[str, int], ...]
    client_id: str = ""
    security_protocol: str = "PLAINTEXT"
    """PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL."""
    ssl_context: ssl.SSLContext | None = field(default=None, repr=False, compare=False)
    """Set only if the protocol is SSL or SASL_SSL."""
    ssl_check_hostname: bool = True
    """Whether the certificate must match the host name: false if the user set
    `ssl.endpoint.identification.algorithm` to the empty string. Already set on `ssl_context`.
    """
    sasl_mechanism: str | None = None
    sasl: Mapping[str, object] = field(default_factory=dict, repr=False)
    """Keyword arguments of a `kafka.net.sasl` mechanism, with kafka-python's names. They contain
    secrets, so they are never printed.
    """
    request_timeout_ms: int = 30_000
    socket_connection_setup_timeout_ms: int = 10_000
    send_buffer_bytes: int = -1
    """SO_SNDBUF; -1 lets the operating system grow the buffer with the connection. Java's default
    of 128 KiB (64 KiB for receiving) prevents that and costs four times the CPU.
    """
    receive_buffer_bytes: int = -1
    """SO_RCVBUF; -1 as for `send_buffer_bytes`."""
    reconnect_backoff_ms: int = 50
    reconnect_backoff_max_ms: int = 1_000
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000
    metadata_max_age_ms: int = 300_000

    def reconnect_backoff_s(self, earlier: int) -> float:
        """Return the seconds to wait before a reconnect, as `backoff_s` does."""
        return backoff_s(
            self.reconnect_backoff_ms / 1000, self.reconnect_backoff_max_ms / 1000, earlier
        )

    def retry_backoff_s(self, earlier: int) -> float:
        """Return the seconds to wait before a retry, as `backoff_s` does."""
        return backoff_s(self.retry_backoff_ms / 1000, self.retry_backoff_max_ms / 1000, earlier)


@dataclass(frozen=True, slots=True)
class FetchSettings:
    """Fetch settings: Java's consumer properties with their defaults."""

    isolation_level: Literal[0, 1] = 0
    """As in the protocol: 0 read_uncommitted, 1 read_committed."""
    fetch_min_bytes: int = 1
    fetch_max_bytes: int = 52_428_800
    max_partition_fetch_bytes: int = DEFAULT_MAX_PARTITION_FETCH_BYTES
    """4 MiB unless `max.partition.fetch.bytes` is set; Java's default is 1 MiB."""
    fetch_max_wait_ms: int = 500
    client_rack: str = ""
    auto_offset_reset: AutoOffsetReset = "earliest"
    """The start position if no offset is stored. MirrorMaker 2's default is `earliest`."""


@dataclass(frozen=True, slots=True)
class Compression:
    """A codec set with `compression.type`, and its level (None for the codec's default)."""

    codec: CompressionCodec
    level: int | None = None


@dataclass(frozen=True, slots=True)
class ProduceSettings:
    """Produce settings: Java's producer properties with their defaults."""

    compression: Compression | None = None
    """None if `compression.type` is not set: batches keep their codec."""
    max_request_size: int = 1_048_576
    """The target size of a Produce request in bytes. Batches are not split, so one may exceed
    it.
    """
    request_timeout_ms: int = 30_000
    delivery_timeout_ms: int = 2_147_483_647
    """How long one batch is retried. No limit by default, as in Connect."""
    max_in_flight: int = 5
    """Produce requests in flight per connection; idempotence allows at most 5."""
    transaction_timeout_ms: int = 60_000
    """The time after which a broker aborts an open transaction."""
