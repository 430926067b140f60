"""After a crash of the Spark engine: a partition waits until its target's end was compared."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass

from connect.errors import BrokerUnavailable
from connectors.mirror.copy.positions.tail_checks import FoundTail, TailQuestion
from connectors.mirror.metrics import PartitionMetrics
from connectors.mirror.offsets.log_identity import LogIdentity
from connectors.mirror.spark.copy.board import PartitionBoard
from connectors.mirror.spark.copy.partition import SparkPartition
from connectors.mirror.spark.copy.tails import BoardTails
from tests.support.fake_clock import FakeClock

KEY = ("t", 0)


@dataclass(frozen=True)
class Found:
    position: int
    spans: Sequence[tuple[int, int, int]]
    epochs: tuple[tuple[int, int], ...] = ()


class Bench:
    def __init__(self) -> None:
        self.clock = FakeClock()
        self.board = PartitionBoard()
        self.partition = SparkPartition(KEY, ("A.t", 0), PartitionMetrics("A", "B", "A.t", 0))
        self.partition.position = self.partition.stored = 100
        self.partition.learns = True
        self.board.add(self.partition)
        self.board.assign([KEY])
        self.board.ends({KEY: 500}, 0)
        self.asked: list[tuple[TailQuestion, Future[FoundTail]]] = []
        self.found: list[int] = []
        self.inbox: deque[Callable[[], None]] = deque()
        self.tails = BoardTails(
            self, self.clock, self.inbox.append, lambda _, found: self.found.append(found.position)
        )

    def look(self, question: TailQuestion) -> Future[FoundTail]:
        self.asked.append((question, Future()))
        return self.asked[-1][1]

    def begin(self, facts: LogIdentity) -> None:
        self.board.learn({KEY: facts})
        self.tails.look(self.board)

    def turn(self) -> None:
        while self.inbox:
            self.inbox.popleft()()
        self.tails.turn()

    def planned(self) -> bool:
        return self.board.take_shard(2, 0.0) is not None


def test_a_partition_is_given_to_no_shard_before_its_end_was_compared() -> None:
    bench = Bench()
    bench.begin(LogIdentity(50, 100, 910, None, None, (), ()))
    assert [asked for asked, _ in bench.asked] == [TailQuestion(KEY, ("A.t", 0), 100, 910, None)]
    assert not bench.planned()
    bench.asked[0][1].set_result(Found(140, [(100, 910, 40)]))
    bench.turn()
    assert bench.found == [140]
    assert bench.planned()


def test_facts_of_a_commit_that_failed_begin_at_the_one_before() -> None:
    bench = Bench()
    bench.partition.target_end = 910
    bench.partition.committing()
    anchors = bench.partition.anchors
    bench.begin(LogIdentity(100, 150, 960, None, None, (), anchors))
    assert bench.asked[0][0] == TailQuestion(KEY, ("A.t", 0), 100, 910, None)


def test_a_lookup_that_fails_or_takes_too_long_is_given_up() -> None:
    for late in (False, True):
        bench = Bench()
        bench.begin(LogIdentity(50, 100, 910, None, None, (), ()))
        if late:
            bench.clock.advance(31.0)
        else:
            bench.asked[0][1].set_exception(BrokerUnavailable("gone"))
        bench.turn()
        assert bench.planned()
        assert bench.found == []


def test_without_facts_nothing_is_asked() -> None:
    bench = Bench()
    bench.board.learn({})
    bench.tails.look(bench.board)
    assert bench.asked == []
    assert bench.planned()
