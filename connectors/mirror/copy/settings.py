"""The copier's settings, and how they follow from a flow's config and Java properties. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from connect.clients.config.properties import fetch_settings, produce_settings, wire_settings
from connect.clients.config.settings import FetchSettings, ProduceSettings, WireSettings
from connect.plugin import SourcePartition, TransferTransactions
from connect.protocol.messages import TopicPartition
from connectors.mirror.config.losses import LossPolicies
from connectors.mirror.config.source import DEFAULT_COPY_BUFFER_BYTES, SourceConfig
from connectors.mirror.copy.batches.choice import CopyOptions

__all__ = ["EngineSettings", "TransactionPlan", "engine_settings"]

_CODEC_NUMBERS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}


class TransactionPlan(NamedTuple):
    """The task's transactions, and how a source partition is named in its stored offset."""

    control: TransferTransactions
    source_partition: Callable[[TopicPartition], SourcePartition]


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """The flow's copy settings. `buffer_bytes` limits fetched but not yet acknowledged bytes;
    `far_buffer_bytes` is the limit if the round trip to the source is long."""

    source: WireSettings
    target: WireSettings
    fetch: FetchSettings = field(default_factory=FetchSettings)
    produce: ProduceSettings = field(default_factory=ProduceSettings)
    options: CopyOptions = field(default_factory=CopyOptions)
    buffer_bytes: int = DEFAULT_COPY_BUFFER_BYTES
    far_buffer_bytes: int | None = None
    losses: LossPolicies = field(default_factory=LossPolicies)


def engine_settings(
    config: SourceConfig, consumer: Mapping[str, str], producer: Mapping[str, str]
) -> EngineSettings:
    """Return the copier's settings from a flow's config and its clients' Java properties."""
    fetch = fetch_settings(consumer)
    produce = produce_settings(producer)
    compression = produce.compression
    return EngineSettings(
        source=wire_settings(consumer),
        target=wire_settings(producer),
        fetch=fetch,
        produce=produce,
        options=CopyOptions(
            read_committed=fetch.isolation_level == 1,
            codec=None if compression is None else _CODEC_NUMBERS[compression.codec],
            level=None if compression is None else compression.level,
            merge_bytes=config.mirror_copy_merge_batch_bytes,
            check_crcs=consumer.get("check.crcs", "true").strip().lower() != "false",
        ),
        buffer_bytes=config.mirror_copy_buffer_bytes,
        far_buffer_bytes=config.far_buffer_bytes,
        losses=config.losses,
    )
