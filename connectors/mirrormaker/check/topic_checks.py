"""What may go wrong with the topics of a flow, found before it runs.

Pure functions over what the clusters said of themselves; `check.py` asks them.
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
    """The effective configs of a topic on the source and, as they are or would be, of its copy."""

    topic: str
    remote: str
    source: Mapping[str, str]
    target: Mapping[str, str]


def effective_configs(entries: Iterable[ConfigEntry]) -> dict[str, str]:
    """All configs of a topic, whoever set them."""
    return {entry.name: entry.value for entry in entries if entry.value is not None}


def topic_defaults(described: Mapping[str, Iterable[ConfigEntry]]) -> dict[str, str]:
    """What a new topic of a cluster gets without being told, learned from topics that exist."""
    defaults: dict[str, str] = {}
    for entries in described.values():
        for entry in entries:
            if entry.source is not ConfigSource.DYNAMIC_TOPIC_CONFIG and entry.value is not None:
                defaults.setdefault(entry.name, entry.value)
    return defaults


def replication_findings(flow: str, wanted: Iterable[tuple[str, str, int, int]]) -> list[Finding]:
    """Topics to create with more replicas than there are brokers: (key of the factor, topic,
    factor, brokers). One finding for each key."""
    worst: dict[str, list[str]] = {}
    texts: dict[str, str] = {}
    for key, topic, factor, brokers in wanted:
        if factor > brokers:
            worst.setdefault(key, []).append(topic)
            texts[key] = (
                f"{factor} replicas need as many brokers, and there "
                f"{'is 1' if brokers == 1 else f'are {brokers}'}; set {key} to {brokers} or less"
            )
    return [
        Finding(Level.ERROR, flow, f"{_named(topics)} cannot be created: {texts[key]}")
        for key, topics in worst.items()
    ]


def config_findings(copy: CopyConfigs, replication_factor: int | None) -> list[Finding]:
    """Configs of a copy that would keep records out. `replication_factor`: of a copy that is to be
    created; None for one that exists."""
    findings = []
    source_max = _number(copy.source, "max.message.bytes")
    target_max = _number(copy.target, "max.message.bytes")
    if source_max is not None and target_max is not None and target_max < source_max:
        findings.append(
            Finding(
                Level.WARNING,
                copy.remote,
                f"takes batches of {target_max} bytes at most, its source {source_max}: larger "
                f"records are refused; raise max.message.bytes of {copy.remote}",
            )
        )
    in_sync = _number(copy.target, "min.insync.replicas")
    if replication_factor is not None and in_sync is not None and 0 < replication_factor < in_sync:
        findings.append(
            Finding(
                Level.ERROR,
                copy.remote,
                f"would have {replication_factor} replicas, and the target's "
                f"min.insync.replicas={in_sync} refuses every record then; raise "
                "replication.factor",
            )
        )
    return findings


def time_limits(copy: CopyConfigs) -> dict[str, int]:
    """Ages in ms beyond which the target deletes (`retention.ms`) or refuses
    (`message.timestamp.before.max.ms`) records, where the source keeps them longer."""
    limits: dict[str, int] = {}
    retention = _number(copy.target, RETENTION)
    deletes = "delete" in copy.target.get("cleanup.policy", "delete")
    if retention is not None and retention >= 0 and deletes:
        kept = _number(copy.source, RETENTION)
        source_deletes = "delete" in copy.source.get("cleanup.policy", "delete")
        if not source_deletes or kept is None or kept < 0 or kept > retention:
            limits[RETENTION] = retention
    before = _number(copy.target, BEFORE)
    # A century and more means no limit; Java's default is the largest 64-bit number.
    if before is not None and 0 <= before < 100 * 365 * 86_400_000:
        limits[BEFORE] = before
    return limits


def older_records(
    beginning: Mapping[TopicPartition, int],
    end: Mapping[TopicPartition, int],
    first_young: Mapping[TopicPartition, int],
) -> int:
    """How many offsets lie before the first record that is young enough (-1: none is)."""
    older = 0
    for partition, start in beginning.items():
        young = first_young.get(partition, start)
        older += max(0, (end.get(partition, start) if young < 0 else young) - start)
    return older


def age_finding(copy: CopyConfigs, key: str, limit_ms: int, records: int) -> Finding:
    """Tell that so many records are older than the target's limit."""
    days = f"{limit_ms / 86_400_000:.1f} days"
    what = (
        "the target deletes them soon after they are copied"
        if key == RETENTION
        else "the target refuses them"
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
