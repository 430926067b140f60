"""A snapshot of a cluster's metadata: nodes, leaders, topics. Immutable; pure functions.

`ClusterLink` makes each snapshot from the previous one and a Metadata response.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from connect.protocol.messages import TopicPartition

__all__ = ["EMPTY_SNAPSHOT", "ClusterSnapshot", "TopicPartition", "advance"]

NO_TOPIC_ID = uuid.UUID(int=0)
NO_NODE = -1
NO_EPOCH = -1


def _empty() -> Mapping[Any, Any]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True)
class ClusterSnapshot:
    """The watched topics of a cluster. Safe to share between threads.

    Error codes are those of the Kafka protocol. The error maps contain only topics and partitions
    with an error.
    """

    version: int = 0
    """Increases by one with every snapshot of a link; 0 before the first response."""
    cluster_id: str | None = None
    controller_id: int | None = None
    nodes: Mapping[int, tuple[str, int]] = field(default_factory=_empty)
    """Node id -> (host, port) as advertised by the cluster."""
    leaders: Mapping[TopicPartition, tuple[int, int]] = field(default_factory=_empty)
    """Partition -> (node id, leader epoch); epoch -1 if the broker does not report it. A partition
    without a leader is absent.
    """
    partition_counts: Mapping[str, int] = field(default_factory=_empty)
    """Topic -> number of partitions, for every watched topic that exists."""
    topic_ids: Mapping[str, uuid.UUID] = field(default_factory=_empty)
    errors: Mapping[str, int] = field(default_factory=_empty)
    """Topic -> error code."""
    partition_errors: Mapping[TopicPartition, int] = field(default_factory=_empty)


EMPTY_SNAPSHOT = ClusterSnapshot()


class _Topics:
    """The per-topic maps of a snapshot under construction."""

    def __init__(self, previous: ClusterSnapshot) -> None:
        self.previous = previous
        self.leaders: dict[TopicPartition, tuple[int, int]] = {}
        self.partition_counts: dict[str, int] = {}
        self.topic_ids: dict[str, uuid.UUID] = {}
        self.errors: dict[str, int] = {}
        self.partition_errors: dict[TopicPartition, int] = {}

    def keep(self, names: frozenset[str]) -> None:
        """Copy these topics from the previous snapshot."""
        old = self.previous
        self.partition_counts = {n: c for n, c in old.partition_counts.items() if n in names}
        self.topic_ids = {n: i for n, i in old.topic_ids.items() if n in names}
        self.errors = {n: c for n, c in old.errors.items() if n in names}
        self.leaders = {tp: leader for tp, leader in old.leaders.items() if tp[0] in names}
        self.partition_errors = {tp: c for tp, c in old.partition_errors.items() if tp[0] in names}

    def add(self, topic: Any) -> None:
        name = topic.name
        if topic.error_code:
            self.errors[name] = topic.error_code
            return
        self.partition_counts[name] = len(topic.partitions)
        if topic.topic_id and topic.topic_id != NO_TOPIC_ID:
            self.topic_ids[name] = topic.topic_id
        known = self.previous.leaders
        same_topic = self.previous.topic_ids.get(name) == self.topic_ids.get(name)
        for partition in topic.partitions:
            key = (name, partition.partition_index)
            old = known.get(key) if same_topic else None
            if old is not None and NO_EPOCH < partition.leader_epoch < old[1]:
                # A broker that lags behind may return a leader that was already replaced.
                self.leaders[key] = old
                continue
            if partition.leader_id != NO_NODE:
                self.leaders[key] = (partition.leader_id, partition.leader_epoch)
            if partition.error_code:
                self.partition_errors[key] = partition.error_code


def advance(
    previous: ClusterSnapshot, response: Any, watched: frozenset[str], asked: frozenset[str]
) -> ClusterSnapshot:
    """Return the snapshot after a MetadataResponse about the topics `asked`.

    Topics in `watched` that were not queried stay as they were; others are dropped. A leader with
    an older epoch than the known one is ignored, unless the topic was re-created.
    """
    topics = _Topics(previous)
    topics.keep(watched - asked)
    for topic in response.topics:
        if topic.name in watched:
            topics.add(topic)
    controller = response.controller_id
    return ClusterSnapshot(
        version=previous.version + 1,
        cluster_id=response.cluster_id or previous.cluster_id,
        controller_id=None if controller == NO_NODE else controller,
        nodes=MappingProxyType({b.node_id: (b.host, b.port) for b in response.brokers}),
        leaders=MappingProxyType(topics.leaders),
        partition_counts=MappingProxyType(topics.partition_counts),
        topic_ids=MappingProxyType(topics.topic_ids),
        errors=MappingProxyType(topics.errors),
        partition_errors=MappingProxyType(topics.partition_errors),
    )
