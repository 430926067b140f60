"""Computes what a flow still has to copy, from its stored offsets, and how long that takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from connect.clients.librdkafka.admin import Admin
from connect.protocol.messages import TopicPartition
from connectors.mirror.config.source import SourceConfig
from connectors.mirror.inspect.flow import DedicatedFlow
from connectors.mirror.inspect.stored_progress import stored_positions

__all__ = ["Backlog", "flow_backlog", "stored_offsets"]

FROM_END = "latest"
_TIMEOUT_S = 60.0


@dataclass(frozen=True, slots=True)
class Backlog:
    """Source offsets that are not copied yet. `new_records`: the offsets of partitions that were
    not copied at all. `rate`: records per second; None: not known."""

    partitions: int
    records: int
    new_partitions: int
    new_records: int
    rate: float | None = None

    @property
    def seconds(self) -> float | None:
        """Return how long the backlog takes at this rate; None if the rate is not known."""
        return self.records / self.rate if self.rate else None


def stored_offsets(
    flow: DedicatedFlow, target_topics: Mapping[str, int]
) -> dict[TopicPartition, int]:
    """Return the next source offsets that the flow has stored. `target_topics`: the topics of the
    target cluster. Raises one of `connect.errors`."""
    topic = flow.offsets_topic.name
    if topic not in target_topics:
        return {}
    return stored_positions(flow.config, topic, flow.client("check-offsets"))


def flow_backlog(
    flow: DedicatedFlow,
    copied: Mapping[str, int],
    source: Admin,
    stored: Mapping[TopicPartition, int],
    rate: float | None,
) -> Backlog:
    """Return the backlog of a flow. `copied`: partitions by source topic. `stored`: the flow's
    `stored_offsets`. Raises one of `connect.errors`."""
    keys = [(topic, number) for topic, count in copied.items() for number in range(count)]
    ends = source.end_offsets(keys, _TIMEOUT_S)
    new = [key for key in keys if key not in stored]
    starts = ends if _begins_at_end(flow.config) else source.beginning_offsets(new, _TIMEOUT_S)
    waiting = {
        key: max(0, ends[key] - (stored[key] if key in stored else starts[key]))
        for key in keys
        if key in ends and (key in stored or key in starts)
    }
    return Backlog(
        len(waiting),
        sum(waiting.values()),
        len(new),
        sum(waiting.get(key, 0) for key in new),
        rate,
    )


def _begins_at_end(config: SourceConfig) -> bool:
    from connectors.mirror.config.clients import source_consumer

    reset = source_consumer(config.originals).get("auto.offset.reset", "earliest")
    return reset.strip().lower() == FROM_END
