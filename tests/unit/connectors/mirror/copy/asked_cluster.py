"""A cluster that is asked for offsets, whose answers a test gives, and the loop that hears them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from dataclasses import replace
from types import MappingProxyType
from typing import Any
from uuid import UUID

from connect.clients.cluster.list_offsets import OffsetResult
from connect.clients.cluster.metadata import ClusterSnapshot
from connect.clients.wire.selector_loop import SelectorLoop
from connect.protocol.messages import TopicPartition
from connectors.mirror.copy.partition.partition import PartitionCopy
from connectors.mirror.metrics import PartitionMetrics
from tests.support.fake_clock import FakeClock
from tests.unit.connectors.mirror.copy.contexts import context

__all__ = ["AskedCluster", "SteppedLoop"]

Listed = Mapping[TopicPartition, OffsetResult]


class AskedCluster:
    """`asked`: partitions and the timestamp, question by question; `answers`: to be completed."""

    def __init__(self) -> None:
        self.asked: list[tuple[set[TopicPartition], int]] = []
        self.answers: list[Future[Listed]] = []
        self.snapshot = ClusterSnapshot(version=1)
        self.refreshes = 0
        self.asked_epochs: list[dict[TopicPartition, int]] = []

    def leads(self, *keys: TopicPartition, epoch: int = 0) -> None:
        """These partitions have a leader, too, of this leader epoch."""
        leaders = MappingProxyType({**self.snapshot.leaders, **dict.fromkeys(keys, (1, epoch))})
        self.snapshot = replace(self.snapshot, version=self.snapshot.version + 1, leaders=leaders)

    def names(self, topic: str, topic_id: UUID) -> None:
        """New metadata says that this topic has this id."""
        self.snapshot = replace(
            self.snapshot,
            version=self.snapshot.version + 1,
            topic_ids=MappingProxyType({topic: topic_id}),
        )

    def request_refresh(self, topics: Iterable[str]) -> None:
        self.refreshes += 1

    def list_offsets(
        self, partitions: Iterable[TopicPartition], timestamp: int, isolation: int, limit: float
    ) -> Future[Listed]:
        self.asked.append((set(partitions), timestamp))
        self.answers.append(Future())
        return self.answers[-1]

    def epoch_ends(self, epochs: Mapping[TopicPartition, int], limit: float) -> Future[Listed]:
        """Its answers are among the others."""
        self.asked_epochs.append(dict(epochs))
        self.answers.append(Future())
        return self.answers[-1]


class SteppedLoop:
    """A loop by a clock that the test moves, and a context between two clusters that are asked.
    `settings`: those of the engine."""

    def __init__(self, **settings: Any) -> None:
        self.clock = FakeClock()
        self.loop = SelectorLoop(self.clock)
        self.source, self.target = AskedCluster(), AskedCluster()
        self.context = context(self.loop, self.clock, self.source, self.target, **settings)

    def partition(self, number: int, position: int = -1) -> PartitionCopy:
        """Of `topic`, which goes to `copy`."""
        metrics = PartitionMetrics("s", "t", "copy", number, clock=self.clock)
        made = PartitionCopy(("topic", number), ("copy", number), metrics)
        made.acked_position = position
        return made

    def turn(self, seconds: float = 0.0) -> None:
        self.clock.advance(seconds)
        for _ in range(3):
            self.loop.turn(0.0)
