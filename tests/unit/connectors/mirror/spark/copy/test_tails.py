"""After a crash of the Spark engine: a partition waits until its target's end was compared."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from uuid import UUID, uuid4

import pytest

from connect.clients.cluster.list_offsets import OffsetResult
from connect.errors import BrokerUnavailable
from connect.protocol.messages import TopicPartition
from connectors.mirror.config.losses import Loss, LossKind, LossPolicy
from connectors.mirror.copy.positions.tail_checks import MOST_OFFSETS, FoundTail, TailQuestion
from connectors.mirror.metrics import PartitionMetrics
from connectors.mirror.offsets.log_identity import LogIdentity
from connectors.mirror.spark.copy.board import PartitionBoard
from connectors.mirror.spark.copy.partition import UNKNOWN, SparkPartition
from connectors.mirror.spark.copy.tails import BoardTails
from tests.support.fake_clock import FakeClock

KEY, TARGET = ("t", 0), ("A.t", 0)
FACTS = LogIdentity(50, 100, 910, None, None, (), ())
"""Of a commit at 100, where the target ended at 910."""

LOSS = Loss(LossKind.SOURCE_RECREATED, LossPolicy.REPORT, KEY, TARGET, 0, 100, 100, 0)


@dataclass(frozen=True)
class Found:
    position: int
    spans: Sequence[tuple[int, int, int]]
    epochs: tuple[tuple[int, int], ...] = ()


class Bench:
    """A board with one partition, whose log ends the test lists and compares. `stored`: its stored
    position; None: there is none."""

    def __init__(self, stored: int | None = 100, *, exactly_once: bool = False) -> None:
        self.clock = FakeClock()
        self.board = PartitionBoard(stores=not exactly_once)
        self.partition = SparkPartition(KEY, TARGET, PartitionMetrics("A", "B", "A.t", 0))
        self.partition.position = self.partition.stored = UNKNOWN if stored is None else stored
        self.partition.learns = stored is not None
        self.partition.start_unknown = stored is None
        self.board.add(self.partition)
        self.board.assign([KEY])
        self.board.ends({KEY: 500}, 0)
        self.listed: list[Future[Mapping[TopicPartition, OffsetResult]]] = []
        self.asked: list[tuple[TailQuestion, Future[FoundTail]]] = []
        self.ids: dict[str, UUID] = {}
        self.found: list[int] = []
        self.inbox: deque[Callable[[], None]] = deque()
        self.tails = BoardTails(
            self, self.clock, self.inbox.append, lambda _, found: self.found.append(found.position)
        )

    def target_ends(
        self, targets: Collection[TopicPartition]
    ) -> Future[Mapping[TopicPartition, OffsetResult]]:
        assert list(targets) == [TARGET]
        self.listed.append(Future())
        return self.listed[-1]

    @property
    def target_topic_ids(self) -> Mapping[str, UUID]:
        return self.ids

    def look(self, question: TailQuestion) -> Future[FoundTail]:
        self.asked.append((question, Future()))
        return self.asked[-1][1]

    def learn(self, facts: LogIdentity = FACTS) -> None:
        self.board.learn({KEY: facts})
        self.turn()

    def target_ends_at(self, end: OffsetResult) -> None:
        self.listed[-1].set_result({TARGET: end})
        self.turn()

    def turn(self) -> bool:
        """As the task's step. Returns whether partitions may continue."""
        self.tails.look(self.board.tails.take(self.clock.monotonic()))
        while self.inbox:
            self.inbox.popleft()()
        return self.tails.turn()

    @property
    def questions(self) -> list[TailQuestion]:
        return [question for question, _ in self.asked]

    def planned(self) -> bool:
        return self.board.take_shard(2, self.clock.monotonic()) is not None


def test_a_partition_is_given_to_no_shard_before_its_end_was_compared() -> None:
    bench = Bench()
    bench.learn()
    assert not bench.planned()
    bench.target_ends_at(950)
    assert bench.questions == [TailQuestion(KEY, TARGET, 100, 910, 950)]
    assert not bench.planned()
    bench.asked[0][1].set_result(Found(140, [(100, 910, 40)]))
    assert bench.turn()
    assert bench.found == [140]
    assert bench.planned()


def test_a_partition_that_died_before_its_first_commit_is_compared_from_where_it_began() -> None:
    bench = Bench(stored=None)
    bench.board.begin(KEY, 20, None)
    bench.turn()
    bench.board.let_copy([KEY])
    assert not bench.planned()
    bench.target_ends_at(40)
    assert bench.questions == [TailQuestion(KEY, TARGET, 20, 0, 40)]
    bench.asked[0][1].set_result(Found(60, [(20, 0, 40)]))
    bench.turn()
    assert bench.found == [60]
    assert bench.planned()


def test_facts_stored_before_the_first_result_compare_from_where_it_began() -> None:
    """A commit of the start position alone: the next crash may have left everything since."""
    bench = Bench(stored=None)
    bench.board.begin(KEY, 20, None)
    bench.partition.committing()
    assert bench.partition.facts(20).reached(20) == (20, 0)


def test_what_a_lost_shard_left_is_found_when_no_executor_copies_any_more() -> None:
    bench = Bench()
    bench.learn()
    bench.target_ends_at(910)
    assert bench.planned()
    now = bench.clock.monotonic()
    bench.board.abandon([KEY], "its executor was lost", now, now + 30.0)
    bench.turn()
    assert len(bench.listed) == 1
    bench.clock.advance(30.0)
    assert not bench.planned()
    bench.turn()
    bench.target_ends_at(950)
    assert bench.questions == [TailQuestion(KEY, TARGET, 100, 910, 950)]
    bench.asked[0][1].set_result(Found(140, [(100, 910, 40)]))
    bench.turn()
    assert bench.found == [140]
    assert bench.planned()


def new(bench: Bench) -> None:
    bench.board.begin(KEY, None, None)
    bench.board.place(bench.partition, 20)


def without_facts(bench: Bench) -> None:
    bench.board.learn({})


def without_facts_in_time(bench: Bench) -> None:
    bench.board.begin_without_facts()


def with_an_unknown_end(bench: Bench) -> None:
    bench.board.learn({KEY: replace(FACTS, target_end=UNKNOWN)})


@pytest.mark.parametrize(
    ("begins", "stored"),
    [
        (new, None),
        (without_facts, 100),
        (without_facts_in_time, 100),
        (with_an_unknown_end, 100),
    ],
)
def test_where_the_end_is_not_known_it_is_listed_before_the_first_shard(
    begins: Callable[[Bench], None], stored: int | None
) -> None:
    """Nothing is compared, but what that shard leaves is known, should it be lost."""
    bench = Bench(stored=stored)
    begins(bench)
    bench.turn()
    assert not bench.planned()
    bench.target_ends_at(700)
    assert bench.asked == []
    assert bench.planned()
    bench.board.abandon([KEY], "its executor was lost", 0.0, 0.0)
    bench.clock.advance(1.0)
    bench.turn()
    bench.target_ends_at(710)
    position = 20 if stored is None else stored
    assert bench.questions == [TailQuestion(KEY, TARGET, position, 700, 710)]


def test_a_lost_shard_of_a_target_whose_end_could_not_be_listed_is_copied_again() -> None:
    bench = Bench()
    bench.board.learn({})
    bench.turn()
    bench.target_ends_at(BrokerUnavailable("no leader"))
    assert bench.planned()
    bench.board.abandon([KEY], "its executor was lost", 0.0, 0.0)
    bench.clock.advance(1.0)
    bench.turn()
    assert len(bench.listed) == 1
    assert bench.planned()


def test_after_a_loss_a_lost_shard_is_compared_from_where_it_went_on() -> None:
    bench = Bench()
    bench.learn()
    bench.target_ends_at(910)
    bench.board.lost(replace(LOSS, kind=LossKind.RETENTION, resume=120))
    bench.partition.position = 120
    assert bench.planned()
    bench.board.abandon([KEY], "its executor was lost", 0.0, 0.0)
    bench.clock.advance(1.0)
    bench.turn()
    bench.target_ends_at(950)
    assert bench.questions == [TailQuestion(KEY, TARGET, 120, 910, 950)]
    bench.asked[0][1].set_result(Found(160, [(120, 910, 40)]))
    bench.turn()
    assert bench.found == [160]


def test_a_new_target_s_end_is_listed() -> None:
    bench = Bench()
    bench.learn()
    bench.target_ends_at(910)
    bench.board.losses.target_created_again(bench.partition, uuid4())
    bench.turn()
    assert not bench.planned()
    bench.target_ends_at(3)
    assert bench.partition.target_end == 3
    assert bench.planned()


def test_under_exactly_once_nothing_is_compared() -> None:
    begun = Bench(stored=None, exactly_once=True)
    begun.board.begin(KEY, 20, None)
    begun.board.let_copy([KEY])
    learned = Bench(exactly_once=True)
    learned.learn()
    for bench in (begun, learned):
        bench.turn()
        assert bench.listed == []
        assert bench.planned()


def test_facts_of_a_commit_that_failed_begin_at_the_one_before() -> None:
    bench = Bench()
    bench.partition.target_end = 910
    bench.partition.committing()
    anchors = bench.partition.anchors
    bench.learn(LogIdentity(100, 150, 960, None, None, (), anchors))
    bench.target_ends_at(970)
    assert bench.questions == [TailQuestion(KEY, TARGET, 100, 910, 970)]


@pytest.mark.parametrize("end", [910, 900, 911 + MOST_OFFSETS])
def test_where_a_crash_can_have_left_nothing_no_log_is_read(end: int) -> None:
    """Nothing beyond the known end, or more than a crash can leave."""
    bench = Bench()
    bench.learn()
    bench.target_ends_at(end)
    assert bench.asked == []
    assert bench.planned()


def test_a_target_whose_end_is_not_known_is_compared_up_to_its_end() -> None:
    """The comparison lists the end again, and tells why that fails."""
    for whole in (False, True):
        bench = Bench()
        bench.learn()
        if whole:
            bench.listed[0].set_exception(BrokerUnavailable("gone"))
            bench.turn()
        else:
            bench.target_ends_at(BrokerUnavailable("no leader"))
        assert bench.questions == [TailQuestion(KEY, TARGET, 100, 910, None)]


@pytest.mark.parametrize("how", ["late listing", "late comparison", "failed"])
def test_a_lookup_that_fails_or_takes_too_long_is_given_up(how: str) -> None:
    bench = Bench()
    bench.learn()
    if how != "late listing":
        bench.target_ends_at(950)
    if how == "failed":
        bench.asked[0][1].set_exception(BrokerUnavailable("gone"))
    else:
        bench.clock.advance(31.0)
    assert bench.turn()
    assert bench.planned()
    assert bench.found == []
    assert all(answer.done() for _, answer in bench.asked), "it is cancelled"


def test_an_answer_that_comes_after_all_changes_nothing() -> None:
    bench = Bench()
    bench.learn()
    bench.clock.advance(31.0)
    bench.turn()
    bench.target_ends_at(950)
    assert (bench.asked, bench.found) == ([], [])


def test_records_of_a_topic_that_was_re_created_meanwhile_are_copied() -> None:
    """The comparison was of the deleted topic: its records say nothing about the new ones."""
    bench = Bench()
    bench.learn(replace(FACTS, source_topic_id=uuid4()))
    bench.target_ends_at(950)
    bench.board.topic_ids({"t": uuid4()})
    bench.board.place(bench.partition, 0)
    bench.asked[0][1].set_result(Found(140, [(100, 910, 40)]))
    bench.turn()
    assert bench.found == []
    assert bench.partition.position == 0


def test_a_target_that_was_re_created_is_not_compared() -> None:
    """Its records beyond the known end are not those that follow the stored position."""
    old, new = uuid4(), uuid4()
    for found, compared in ((old, True), (new, False)):
        bench = Bench()
        bench.ids = {"A.t": found}
        bench.learn(replace(FACTS, target_topic_id=old))
        bench.target_ends_at(950)
        assert bool(bench.asked) is compared
        assert bench.planned() is not compared


def test_the_id_of_a_target_is_kept_for_the_next_start() -> None:
    bench = Bench(stored=None)
    bench.ids = {"A.t": uuid4()}
    bench.board.begin(KEY, 20, None)
    bench.turn()
    bench.target_ends_at(0)
    assert bench.partition.facts(20).target_topic_id == bench.ids["A.t"]


def test_a_partition_that_left_meanwhile_takes_nothing_over() -> None:
    bench = Bench()
    bench.learn()
    bench.target_ends_at(950)
    bench.board.assign([])
    bench.asked[0][1].set_result(Found(140, [(100, 910, 40)]))
    bench.turn()
    assert bench.found == []


def test_a_loss_before_the_comparison_leaves_it_out() -> None:
    bench = Bench()
    bench.board.lost(LOSS)
    bench.learn()
    assert bench.listed == []
