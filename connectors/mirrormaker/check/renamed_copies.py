"""Finds topics of which the flow has stored offsets, but whose copies are not on the target: since
then the replication policy was changed, or the copies were deleted. The mirror continues at the
stored offsets, so that new copies would lack the history. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from connect.protocol.messages import TopicPartition
from connectors.mirror.config.losses import LossKind, LossPolicy
from connectors.mirror.config.source import SourceConfig
from connectors.mirror.replication_policy import offset_topics
from connectors.mirrormaker.check.report import CREATE, Finding, FlowReport, Level, TopicReport

__all__ = ["renamed_copies"]

_SEPARATORS = ".", "-", "_"
_NAMED = 5
_KEY = f"mirror.loss.policy.{LossKind.TARGET_RECREATED.value}"


def renamed_copies(
    flow: FlowReport,
    config: SourceConfig,
    stored: Mapping[TopicPartition, int],
    target_topics: Mapping[str, int],
    map_topics: Mapping[str, int],
) -> list[Finding]:
    """Return a finding about the flow's topics whose copies would be created though records of
    them were copied before; none if there are none. `stored`: the next source offsets.
    `map_topics`: the topics of the cluster that holds the offset map."""
    partitions: dict[str, int] = {}
    for (topic, _), position in stored.items():
        if position > 0:
            partitions[topic] = partitions.get(topic, 0) + 1
    new = [each for each in flow.topics if each.action == CREATE and each.topic in partitions]
    if not new:
        return []
    former = {
        each.topic: next((n for n in _other_names(flow, each) if n in target_topics), None)
        for each in new
    }
    named = ", ".join(_pair(each, former[each.topic]) for each in new[:_NAMED])
    more = f" and {len(new) - _NAMED} more" if len(new) > _NAMED else ""
    count = sum(partitions[each.topic] for each in new)
    text = (
        f"offsets of {count} partitions are stored, but the target lacks the copies: "
        f"{named}{more}. "
        f"{_cause(former.values())}. {_outcome(config, map_topics)}"
    )
    level = Level.ERROR if _policy(config) is LossPolicy.FAIL else Level.WARNING
    return [Finding(level, flow.name, text)]


def _other_names(flow: FlowReport, topic: TopicReport) -> Iterator[str]:
    """Yield the names that other replication policies give the copy."""
    names = [f"{flow.source}{separator}{topic.topic}" for separator in _SEPARATORS]
    yield from (name for name in [*names, topic.topic] if name != topic.remote)


def _pair(topic: TopicReport, former: str | None) -> str:
    seen = "" if former is None else f"; {former} exists"
    return f"{topic.remote} (of {topic.topic}{seen})"


def _cause(former: Iterable[str | None]) -> str:
    if any(former):
        return (
            "Probably replication.policy.* or a transformation that renames topics was "
            "changed; the earlier copies keep their names, and get no more records"
        )
    return (
        "The copies were deleted, or replication.policy.* or a transformation that renames topics "
        "was changed"
    )


def _policy(config: SourceConfig) -> LossPolicy:
    return config.losses.of(LossKind.TARGET_RECREATED)


def _outcome(config: SourceConfig, map_topics: Mapping[str, int]) -> str:
    """Return what the mirror would do, and how to change that."""
    if offset_topics(config.originals).map not in map_topics:
        return (
            "The mirror continues at the stored offsets, without the earlier records; to copy "
            "them too, store the first offsets with connect-mirror-client start --timestamp 0 "
            "--commit"
        )
    policy = _policy(config)
    if policy is LossPolicy.COPY:
        return f"With {_KEY}=copy the mirror copies again everything that the source still has"
    if policy is LossPolicy.FAIL:
        return (
            f"With {_KEY}=fail these partitions would stop; set copy to copy again everything "
            "that the source still has, or report to continue at the stored offsets without it"
        )
    return (
        "The mirror continues at the stored offsets, without the earlier records; to copy "
        f"them too, set {_KEY}=copy for the first run"
    )
