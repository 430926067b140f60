"""What is stored of the logs under exactly-once holds for the stored position."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from typing import cast
from uuid import uuid4

import pytest

from connect.clock import SYSTEM_CLOCK
from connect.plugin import StoredOffset
from connectors.mirror.config.losses import LossKind, LossPolicies, LossPolicy
from connectors.mirror.history.recorder import TaskHistory
from connectors.mirror.metrics import PartitionMetrics
from connectors.mirror.offsets.log_identity import LogIdentity
from connectors.mirror.offsets.offset_sync_writer import OffsetSyncWriter
from connectors.mirror.offsets.source_offsets import Reached
from connectors.mirror.spark.copy.board import PartitionBoard
from connectors.mirror.spark.copy.exactly_once import ExactlyOnceBookkeeping
from connectors.mirror.spark.copy.partition import SparkPartition

KEY, TARGET = ("t", 0), ("A.t", 0)
OLD, NEW = uuid4(), uuid4()


class _Written:
    """The writer of pages and facts, and the history."""

    def __init__(self) -> None:
        self.facts: list[LogIdentity | None] = []

    def prepare(self, reached: Sequence[Reached]) -> Future[list[StoredOffset]]:
        self.facts += [each.facts for each in reached]
        return Future()

    def reached(self, moved: object) -> None:
        """Not looked at here."""


class _Bench:
    """A partition of which 100 offsets are copied and stored, and that then lost a log."""

    def __init__(self) -> None:
        policies = LossPolicies(kinds={LossKind.TARGET_RECREATED: LossPolicy.REPORT})
        self.board = PartitionBoard(
            policies, lambda partition, _: self.once.store_facts(partition.source), stores=False
        )
        self.written = _Written()
        self.once = ExactlyOnceBookkeeping(
            self.board,
            cast(OffsetSyncWriter, self.written),
            cast(TaskHistory, self.written),
            lambda _: None,
            SYSTEM_CLOCK,
        )
        self.partition = SparkPartition(KEY, TARGET, PartitionMetrics("A", "B", *TARGET))
        self.partition.position = self.partition.stored = 100
        self.partition.topic_id = self.partition.target_topic_id = OLD
        self.board.add(self.partition)


@pytest.fixture
def bench() -> _Bench:
    return _Bench()


def test_the_id_of_a_new_target_is_stored_though_nothing_is_copied(bench: _Bench) -> None:
    bench.board.losses.target_created_again(bench.partition, NEW)
    bench.once.write_pages()
    (facts,) = bench.written.facts
    assert facts is not None
    assert (facts.position, facts.target_topic_id) == (100, NEW)


def test_the_id_of_a_new_source_is_not_stored_beside_a_position_of_the_old_one(
    bench: _Bench,
) -> None:
    """After a crash the next start would go on there, and take it for the same topic."""
    bench.board.topic_ids({KEY[0]: NEW})
    bench.board.place(bench.partition, 0)
    assert (bench.partition.position, bench.partition.stored) == (0, 100)
    bench.once.write_pages()
    assert bench.written.facts == [None]
