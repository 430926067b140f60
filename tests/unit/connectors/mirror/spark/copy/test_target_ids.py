"""A target topic that was deleted and re-created: noticed by its ID, and its policy obeyed."""

from __future__ import annotations

from dataclasses import dataclass, field
from uuid import UUID, uuid4

import pytest

from connectors.mirror.config.losses import Loss, LossKind, LossPolicies, LossPolicy
from connectors.mirror.copy.known_logs import KnownLogs
from connectors.mirror.copy.range_copier import RangeProgress, SourceRange
from connectors.mirror.metrics import PartitionMetrics
from connectors.mirror.offsets.log_identity import LogIdentity
from connectors.mirror.spark.copy.board import PartitionBoard
from connectors.mirror.spark.copy.partition import UNKNOWN, SparkPartition
from connectors.mirror.spark.copy.target_ids import RenewedTargets

KEY, TARGET = ("t", 0), ("A.t", 0)
OLD, NEW = uuid4(), uuid4()
COPIED, ENDS = 100, 90
"""The source's records before `COPIED` are the target's before `ENDS`."""


@dataclass
class Bench:
    """A caught-up partition whose target has the ID `OLD`."""

    policy: LossPolicy = LossPolicy.REPORT
    losses: list[Loss] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.board = PartitionBoard(
            policies=LossPolicies(self.policy), on_loss=lambda _, loss: self.losses.append(loss)
        )
        self.partition = SparkPartition(KEY, TARGET, PartitionMetrics("A", "B", *TARGET))
        self.partition.position = self.partition.stored = COPIED
        self.partition.target_end = ENDS
        self.board.add(self.partition)
        self.board.assign([KEY])
        self.board.ends({KEY: COPIED}, 0)
        self.targets = RenewedTargets(self.board)
        self.sees(OLD)

    def sees(self, topic_id: UUID) -> None:
        self.ends_are_listed()
        self.targets.seen({TARGET[0]: topic_id})
        self.targets.turn()

    def ends_are_listed(self) -> None:
        """As a partition waits for the end of a target that is not known."""
        for partition in self.board.tails.take(0.0):
            partition.tail_start = None

    def starts_at(self) -> int | None:
        """The source offset of the next shard, while the source's log ends at 200."""
        self.ends_are_listed()
        self.board.ends({KEY: 200}, 0)
        shard = self.board.take_shard(1, 0.0)
        return None if shard is None else shard.ranges[0].start


def test_the_first_id_is_kept_and_its_deletion_alone_says_nothing() -> None:
    bench = Bench()
    assert bench.partition.facts(COPIED).target_topic_id == OLD
    bench.targets.seen({})
    bench.targets.turn()
    bench.sees(OLD)
    assert bench.losses == []


def test_report_tells_of_it_and_goes_on_with_the_next_record() -> None:
    bench = Bench()
    bench.sees(NEW)
    loss = Loss(LossKind.TARGET_RECREATED, LossPolicy.REPORT, KEY, TARGET, 0, ENDS, COPIED, COPIED)
    assert bench.losses == [loss]
    assert bench.partition.metrics.read()["loss-count"] == 1
    assert bench.partition.error is None
    facts = bench.partition.facts(COPIED)
    assert (facts.target_topic_id, facts.former_target_ids) == (NEW, (OLD,))
    assert facts.target_end == UNKNOWN
    assert bench.starts_at() == COPIED
    # A broker with old metadata returns the deleted topic.
    for topic_id in (OLD, NEW, OLD):
        bench.sees(topic_id)
    assert bench.losses == [loss]


def test_the_id_of_the_new_topic_is_stored_though_nothing_is_copied() -> None:
    """The next start would report the loss again."""
    bench = Bench()
    assert bench.board.moved() == []
    bench.sees(NEW)
    assert bench.board.moved() == [bench.partition]
    bench.partition.committing()
    bench.sees(uuid4())
    bench.partition.committed(COPIED)
    assert bench.board.moved() == [bench.partition], "that of the second loss is not stored"
    bench.partition.committing()
    bench.partition.committed(COPIED)
    assert bench.board.moved() == []


def test_fail_stops_it_and_the_next_start_still_knows_the_deleted_topic() -> None:
    bench = Bench(LossPolicy.FAIL)
    bench.sees(NEW)
    bench.sees(NEW)
    (loss,) = bench.losses
    assert loss.resume is None
    assert bench.partition.error is not None
    assert "mirror.loss.policy.target.recreated=fail" in bench.partition.error
    assert bench.starts_at() is None
    assert bench.partition.facts(COPIED).target_topic_id == OLD


@pytest.mark.parametrize(("log_start", "resumes"), [(7, 7), (150, COPIED)])
def test_copy_begins_at_the_sources_first_record_again(log_start: int, resumes: int) -> None:
    """Or at the next one: a shard finds there what the source deleted meanwhile."""
    bench = Bench(LossPolicy.COPY)
    bench.sees(NEW)
    assert bench.losses == []
    assert bench.starts_at() is None
    assert bench.board.unplaced() == [bench.partition]
    bench.board.place(bench.partition, log_start)
    (loss,) = bench.losses
    assert (loss.first, loss.end, loss.position, loss.resume) == (0, ENDS, COPIED, resumes)
    bench.sees(NEW)
    assert bench.losses == [loss]
    # What goes back is copied once that is stored.
    bench.partition.stored = resumes
    assert bench.starts_at() == resumes


def test_twice_is_two_losses_though_nothing_was_copied_in_between() -> None:
    bench = Bench()
    bench.partition.target_end = 0
    for topic_id in (NEW, uuid4()):
        bench.sees(topic_id)
    assert len(bench.losses) == 2


@pytest.mark.parametrize("told", [False, True], ids=["not told", "told"])
def test_a_partition_in_a_shard_is_judged_when_it_is_back(told: bool) -> None:
    """Its executor may have noticed the new topic, and told of it."""
    bench = Bench()
    assert bench.starts_at() == COPIED
    bench.sees(NEW)
    assert bench.losses == []
    position = 120
    if told:
        bench.board.lost(
            Loss(
                LossKind.TARGET_RECREATED,
                LossPolicy.REPORT,
                KEY,
                TARGET,
                0,
                ENDS,
                COPIED,
                COPIED,
            )
        )
    bench.board.reached(progress_to(position), 1.0, 0)
    bench.targets.turn()
    (loss,) = bench.losses
    assert loss.position == (COPIED if told else position)
    assert bench.partition.position == position
    bench.sees(NEW)
    assert bench.losses == [loss]
    assert bench.partition.facts(position).target_topic_id == NEW


def told_by_a_shard(kind: LossKind, end: int, resume: int | None) -> Loss:
    policy = LossPolicy.FAIL if resume is None else LossPolicy.COPY
    return Loss(kind, policy, KEY, TARGET, 0, end, COPIED, resume)


def test_a_shard_that_noticed_it_does_not_know_how_much_was_lost() -> None:
    bench = Bench(LossPolicy.COPY)
    assert bench.starts_at() == COPIED
    bench.board.lost(told_by_a_shard(LossKind.TARGET_RECREATED, 0, 0))
    assert [(loss.first, loss.end) for loss in bench.losses] == [(0, ENDS)]


def told(bench: Bench) -> KnownLogs:
    """What the next shard is told of the logs. It is in flight from then on."""
    bench.ends_are_listed()
    bench.board.ends({KEY: 200}, 0)
    shard = bench.board.take_shard(1, 0.0)
    assert shard is not None
    return KnownLogs.of_text(shard.ranges[0].known)


def test_a_shard_is_told_the_ids_of_both_topics() -> None:
    bench = Bench()
    source_id = uuid4()
    bench.board.topic_ids({KEY[0]: source_id})
    bench.sees(NEW)
    facts = told(bench).facts
    assert (facts.source_topic_id, facts.former_source_ids) == (source_id, ())
    assert (facts.target_topic_id, facts.former_target_ids) == (NEW, (OLD,))


def test_a_source_topic_that_a_shard_saw_created_again_is_reported_once() -> None:
    bench = Bench(LossPolicy.COPY)
    first, second = uuid4(), uuid4()
    bench.board.topic_ids({KEY[0]: first})
    assert bench.starts_at() == COPIED
    loss = told_by_a_shard(LossKind.SOURCE_RECREATED, COPIED, 0)
    bench.board.lost(loss)
    bench.board.reached(progress_to(0), 1.0, 0)
    # Old metadata, then new.
    for topic_id in (first, second, first):
        bench.board.topic_ids({KEY[0]: topic_id})
    assert bench.losses == [loss]
    assert bench.partition.begin_again is None
    assert bench.partition.facts(0).source_topic_id == second


def test_what_a_shard_notices_too_late_is_reported_with_its_new_position() -> None:
    bench = Bench(LossPolicy.COPY)
    bench.board.topic_ids({KEY[0]: uuid4()})
    assert bench.starts_at() == COPIED
    second = uuid4()
    bench.board.topic_ids({KEY[0]: second})
    bench.board.lost(told_by_a_shard(LossKind.SOURCE_RECREATED, COPIED, 0))
    assert bench.losses == []
    bench.board.reached(progress_to(COPIED), 1.0, 0)
    bench.board.place(bench.partition, 0)
    assert [(loss.kind, loss.resume) for loss in bench.losses] == [(LossKind.SOURCE_RECREATED, 0)]
    assert bench.partition.facts(0).source_topic_id == second


def test_fail_keeps_the_id_of_the_deleted_source_topic() -> None:
    """The next start must notice it again."""
    bench = Bench(LossPolicy.FAIL)
    first = uuid4()
    bench.board.topic_ids({KEY[0]: first})
    bench.board.lost(told_by_a_shard(LossKind.SOURCE_RECREATED, COPIED, None))
    assert bench.partition.facts(COPIED).source_topic_id == first


def test_a_topic_re_created_while_nobody_ran_is_noticed_by_what_was_stored() -> None:
    bench = Bench()
    another = uuid4()
    bench.partition.learns, bench.partition.target_topic_id = True, None
    bench.board.add(bench.partition)
    bench.sees(NEW)
    assert bench.losses == []
    assert bench.partition.target_topic_id is None
    bench.board.learn({KEY: LogIdentity(0, COPIED, UNKNOWN, None, another, (), ())})
    bench.sees(NEW)
    (loss,) = bench.losses
    assert loss.kind is LossKind.TARGET_RECREATED


def test_both_topics_re_created_are_two_losses() -> None:
    bench = Bench(LossPolicy.COPY)
    for topic_id in (uuid4(), uuid4()):
        bench.board.topic_ids({KEY[0]: topic_id})
    bench.sees(NEW)
    bench.board.place(bench.partition, 0)
    bench.targets.turn()
    bench.board.place(bench.partition, 0)
    assert [loss.kind for loss in bench.losses] == [
        LossKind.SOURCE_RECREATED,
        LossKind.TARGET_RECREATED,
    ]


def progress_to(position: int, known: KnownLogs | None = None) -> RangeProgress:
    records = position - COPIED
    wanted = SourceRange(KEY, TARGET, COPIED, 200)
    text = "" if known is None else known.to_text()
    return RangeProgress(wanted, position, records, 0, None, records, known=text)
