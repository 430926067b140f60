"""Finds problems with a flow's topics before it runs.

Pure functions over facts that `check.py` has read from the clusters.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from connect.clients.librdkafka.descriptions import ConfigEntry, ConfigSource
from connectors.mirror.topics.selection import TopicPartition
from connectors.mirrormaker.check.report import Finding, Level

__all__ = [
    "CopyConfigs",
    "age_finding",
    "config_findings",
    "effective_configs",
    "older_records",
    "replication_findings",
    "time_limits",
    "topic_defaults",
]

RETENTION, BEFORE = "retention.ms", "message.timestamp.before.max.ms"


@dataclass(frozen=True, slots=True)
class CopyConfigs:
    """The effective configs of a topic and of its existing or future copy."""

    topic: str
    remote: str
    source: Mapping[str, str]
    target: Mapping[str, str]


def effective_configs(entries: Iterable[ConfigEntry]) -> dict[str, str]:
    """Return all configs of a topic, from every config source."""
    return {entry.name: entry.value for entry in entries if entry.value is not None}


def topic_defaults(described: Mapping[str, Iterable[ConfigEntry]]) -> dict[str, str]:
    """Return a cluster's defaults for a new topic, as its existing topics show them."""
    defaults: dict[str, str] = {}
    for entries in described.values():
        for entry in entries:
            if entry.source is not ConfigSource.DYNAMIC_TOPIC_CONFIG and entry.value is not None:
                defaults.setdefault(entry.name, entry.value)
    return defaults


def replication_findings(flow: str, wanted: Iterable[tuple[str, str, int, int]]) -> list[Finding]:
    """Report topics whose replication factor exceeds the number of brokers, one finding per key.
    `wanted`: (key of the factor, topic, factor, brokers)."""
    worst: dict[str, list[str]] = {}
    texts: dict[str, str] = {}
    for key, topic, factor, brokers in wanted:
        if factor > brokers:
            worst.setdefault(key, []).append(topic)
            texts[key] = (
                f"replication factor {factor} needs {factor} brokers, but the cluster has "
                f"{brokers}; set {key} to {brokers} or less"
            )
    return [
        Finding(Level.ERROR, flow, f"{_named(topics)} cannot be created: {texts[key]}")
        for key, topics in worst.items()
    ]


def config_findings(copy: CopyConfigs, replication_factor: int | None) -> list[Finding]:
    """Report configs that would make the copy reject records. `replication_factor`: that of a copy
    to create; None if the copy exists."""
    findings = []
    source_max = _number(copy.source, "max.message.bytes")
    target_max = _number(copy.target, "max.message.bytes")
    if source_max is not None and target_max is not None and target_max < source_max:
        findings.append(
            Finding(
                Level.WARNING,
                copy.remote,
                f"accepts batches up to {target_max} bytes, its source up to {source_max}: the "
                f"target rejects larger ones; raise max.message.bytes of {copy.remote}",
            )
        )
    in_sync = _number(copy.target, "min.insync.replicas")
    if replication_factor is not None and in_sync is not None and 0 < replication_factor < in_sync:
        findings.append(
            Finding(
                Level.ERROR,
                copy.remote,
                f"would have {replication_factor} replicas, and the target's "
                f"min.insync.replicas={in_sync} would then reject every record; raise "
                "replication.factor",
            )
        )
    return findings


def time_limits(copy: CopyConfigs) -> dict[str, int]:
    """Return the age limits in ms of the target that are stricter than the source's retention.
    Older records are deleted (`retention.ms`) or rejected (`message.timestamp.before.max.ms`)."""
    limits: dict[str, int] = {}
    retention = _number(copy.target, RETENTION)
    deletes = "delete" in copy.target.get("cleanup.policy", "delete")
    if retention is not None and retention >= 0 and deletes:
        kept = _number(copy.source, RETENTION)
        source_deletes = "delete" in copy.source.get("cleanup.policy", "delete")
        if not source_deletes or kept is None or kept < 0 or kept > retention:
            limits[RETENTION] = retention
    before = _number(copy.target, BEFORE)
    # A century or more counts as no limit; Java's default is the largest 64-bit number.
    if before is not None and 0 <= before < 100 * 365 * 86_400_000:
        limits[BEFORE] = before
    return limits


def older_records(
    beginning: Mapping[TopicPartition, int],
    end: Mapping[TopicPartition, int],
    first_young: Mapping[TopicPartition, int],
) -> int:
    """Return how many offsets precede the first record that is young enough. `first_young` -1:
    there is none."""
    older = 0
    for partition, start in beginning.items():
        young = first_young.get(partition, start)
        older += max(0, (end.get(partition, start) if young < 0 else young) - start)
    return older


def age_finding(copy: CopyConfigs, key: str, limit_ms: int, records: int) -> Finding:
    """Return a warning that `records` records are older than the target's limit."""
    days = f"{limit_ms / 86_400_000:.1f} days"
    what = (
        "the target deletes them soon after they are copied"
        if key == RETENTION
        else "the target rejects them"
    )
    return Finding(
        Level.WARNING,
        copy.remote,
        f"about {records} records of {copy.topic} are older than {key}={limit_ms} ({days}): "
        f"{what}; raise it for {copy.remote}",
    )


def _named(topics: list[str]) -> str:
    shown = ", ".join(topics[:3])
    return shown if len(topics) <= 3 else f"{shown} and {len(topics) - 3} more"


def _number(configs: Mapping[str, str], name: str) -> int | None:
    try:
        return int(configs[name])
    except (KeyError, ValueError):
        return None
