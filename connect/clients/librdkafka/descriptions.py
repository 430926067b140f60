"""Descriptions of topics and their configs, and changes of configs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import confluent_kafka
from confluent_kafka.admin import AlterConfigOpType, ConfigSource

__all__ = [
    "ConfigChange",
    "ConfigEntry",
    "ConfigSource",
    "PartitionDescription",
    "TopicCreation",
    "TopicDescription",
    "config_entries",
    "incremental_entry",
    "topic_description",
]


@dataclass(frozen=True, slots=True)
class ConfigEntry:
    """One config of a topic as its cluster describes it. `value` None: sensitive, or not set."""

    name: str
    value: str | None
    source: ConfigSource
    read_only: bool
    sensitive: bool


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """A config to set. `value` None resets it to the cluster's default."""

    name: str
    value: str | None


@dataclass(frozen=True, slots=True)
class TopicCreation:
    """A topic to create. -1 for `partitions` and `replication_factor`: the broker's default."""

    name: str
    partitions: int
    replication_factor: int
    configs: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class PartitionDescription:
    """A partition of a topic. `leader` None: it has none at the moment."""

    partition: int
    leader: int | None
    replicas: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TopicDescription:
    name: str
    topic_id: str
    internal: bool
    partitions: tuple[PartitionDescription, ...]


def incremental_entry(change: ConfigChange) -> confluent_kafka.admin.ConfigEntry:
    """Return a change as confluent-kafka's type."""
    operation = AlterConfigOpType.DELETE if change.value is None else AlterConfigOpType.SET
    return confluent_kafka.admin.ConfigEntry(
        change.name, change.value, incremental_operation=operation
    )


def topic_description(result: Any) -> TopicDescription:
    """Return our description of a topic from confluent-kafka's."""
    return TopicDescription(
        name=result.name,
        topic_id=str(result.topic_id),
        internal=bool(result.is_internal),
        partitions=tuple(
            PartitionDescription(
                partition=info.id,
                leader=None if info.leader is None else info.leader.id,
                replicas=tuple(node.id for node in info.replicas),
            )
            for info in result.partitions
        ),
    )


def config_entries(result: Mapping[str, Any]) -> list[ConfigEntry]:
    """Return our descriptions of a topic's configs from confluent-kafka's."""
    return [
        ConfigEntry(
            name=entry.name,
            value=entry.value,
            source=ConfigSource(entry.source),
            read_only=entry.is_read_only,
            sensitive=entry.is_sensitive,
        )
        for entry in result.values()
    ]
