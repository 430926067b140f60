"""What the engine decides from what it is told: ends, ledgers, silence."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from uuid import uuid4

import pytest

from connect.protocol.messages import TopicPartition
from connectors.mirror.config.losses import Loss, LossKind, LossPolicies, LossPolicy
from connectors.mirror.copy.range_copier import RangeProgress, SourceRange
from connectors.mirror.metrics import PartitionMetrics
from connectors.mirror.offsets.log_identity import LogIdentity
from connectors.mirror.spark.copy.board import PartitionBoard
from connectors.mirror.spark.copy.partition import UNKNOWN, SparkPartition

KEY = ("t", 0)
NOW_MS = 1_000_000


def board(position: int = 0, end: int = 100, *, more: int = 0) -> PartitionBoard:
    made = PartitionBoard()
    for number in range(more + 1):
        partition = SparkPartition(
            ("t", number), ("A.t", number), PartitionMetrics("A", "B", "A.t", number)
        )
        partition.position = partition.stored = position
        made.add(partition)
    made.assign([("t", number) for number in range(more + 1)])
    made.ends({("t", number): end for number in range(more + 1)}, NOW_MS)
    return made


def shards(
    made: PartitionBoard, now: float = 0.0, held_by: Callable[[str], str | None] = lambda _: None
) -> list[list[SourceRange]]:
    """All that can be taken now, once the ends of targets were listed."""
    for partition in made.tails.take(now):
        partition.tail_start = None
    taken = []
    while (shard := made.take_shard(2, now, held_by)) is not None:
        taken.append(list(shard.ranges))
    return taken


def planned(made: PartitionBoard, now: float = 0.0) -> list[SourceRange]:
    return [each for shard in shards(made, now) for each in shard]


def let_go(made: PartitionBoard, *keys: TopicPartition) -> None:
    """Their shard came back as it went out."""
    made.abandon(keys, "not copied", 0.0, 0.0)
    for key in keys:
        found = made.get(key)
        assert found is not None
        found.failures, found.retry_at = 0, 0.0
        made.moved_to(found)


def back(
    wanted: SourceRange, position: int, *, error: str | None = None, lost: int = 0
) -> RangeProgress:
    records = max(0, position - wanted.start)
    return RangeProgress(wanted, position, 10 * records, lost, error, records, records, 1, 0, 100)


def the(made: PartitionBoard) -> SparkPartition:
    found = made.get(KEY)
    assert found is not None
    return found


def test_a_partition_is_out_once_until_its_ledger_is_back() -> None:
    made = board()
    (wanted,) = planned(made)
    assert (wanted.start, wanted.end) == (0, 100)
    assert planned(made) == []
    made.reached(back(wanted, 60), 1.0, NOW_MS)
    assert the(made).lag == 40
    assert [each.position for each in made.moved()] == [60]
    (further,) = planned(made)
    assert (further.start, further.end) == (60, 100)
    made.reached(back(further, 100), 2.0, NOW_MS)
    assert planned(made) == []
    assert the(made).metrics.read()["record-count"] == 100
    assert the(made).weight(100) < 100 * 1024


def test_an_end_from_before_a_result_is_not_believed() -> None:
    """A shard follows its partitions beyond the ends that it was given."""
    made = board()
    (wanted,) = planned(made)
    made.reached(back(wanted, 150), 5.0, NOW_MS)
    assert the(made).lag == 0
    made.ends({KEY: 120}, NOW_MS, 4.9)
    assert planned(made, 5.1) == []
    made.ends({KEY: 160}, NOW_MS, 5.1)
    assert [(each.start, each.end) for each in planned(made, 5.2)] == [(150, 160)]


def test_what_a_limit_holds_waits_and_says_so() -> None:
    made = board()
    (wanted,) = planned(made)
    throttled = replace(back(wanted, 60), throttled_ms=700, limited_by="a limit")
    made.reached(throttled, 1.0, NOW_MS)
    (health,) = made.health(NOW_MS, None)
    assert health.details["limited_by"] == "a limit"
    assert health.error is None
    assert shards(made, 2.0, lambda topic: "another") == []
    assert the(made).limited_by == "another"
    (rest,) = planned(made, 5.0)
    assert the(made).metrics.read()["throttle-time-ms"] == 3700
    made.reached(back(rest, 100), 6.0, NOW_MS)
    assert the(made).limited_by is None


def test_a_partition_that_does_not_move_waits_ever_longer_and_goes_apart() -> None:
    made = board(more=1)
    now, waits = 0.0, []
    for _ in range(4):
        first, *_ = (each for each in planned(made, now) if each.source == KEY)
        made.reached(back(first, 0, error="no leader"), now, NOW_MS)
        assert [health.error for health in made.health(NOW_MS, None)] == ["no leader", None]
        waits.append(the(made).retry_at - now)
        now = the(made).retry_at
    assert waits == [pytest.approx(each, rel=0.2) for each in (0.5, 1.0, 2.0, 4.0)]
    let_go(made, ("t", 1))
    assert [[each.source for each in shard] for shard in shards(made, now)] == [[KEY], [("t", 1)]]


def test_a_partition_that_had_too_little_time_has_not_failed() -> None:
    made = board()
    (wanted,) = planned(made)
    made.reached(back(wanted, 0), 1.0, NOW_MS, patient=False)
    (again,) = planned(made, 1.0)
    made.reached(back(again, 0, error="no leader"), 1.0, NOW_MS, patient=False)
    assert planned(made, 1.0) == []


def test_what_nothing_came_back_of_is_left_alone_while_somebody_may_copy_it() -> None:
    made = board()
    (wanted,) = planned(made)
    made.abandon([wanted.source], "an executor was lost", 10.0, 24.0)
    assert planned(made, 23.9) == []
    (again,) = planned(made, 24.0)
    assert again == wanted


def test_a_source_that_seems_to_end_early_is_asked_for_the_record() -> None:
    made = board(position=50, end=20)
    (probe,) = planned(made)
    assert (probe.start, probe.end) == (50, 51)
    # The copier began again, as the broker said that there is no such offset.
    made.reached(back(probe, 20), 1.0, NOW_MS)
    assert the(made).position == 20
    assert [each.position for each in made.moved()] == [20]


def test_a_topic_created_again_begins_again() -> None:
    made = board()
    (wanted,) = planned(made)
    made.topic_ids({"t": uuid4()})
    assert not the(made).begin_again
    made.topic_ids({"t": uuid4()})
    assert the(made).begin_again
    assert made.unplaced() == []
    made.reached(back(wanted, 100), 1.0, NOW_MS)
    assert planned(made) == []
    (waiting,) = made.unplaced()
    made.place(waiting, 0)
    assert planned(made)[0].start == 0


def test_a_commit_before_it_begins_again_names_the_deleted_topic() -> None:
    """After a crash the next start would go on in the new topic, and leave out its records."""
    made = board()
    (wanted,) = planned(made)
    old, new = uuid4(), uuid4()
    made.topic_ids({"t": old})
    made.reached(back(wanted, 60), 1.0, NOW_MS)
    made.topic_ids({"t": new})
    assert made.moved() == made.unplaced() == [the(made)]
    assert the(made).facts(60).source_topic_id == old
    made.place(the(made), 0)
    assert the(made).facts(0).source_topic_id == new


def test_a_broker_with_old_metadata_does_not_make_a_topic_new_again() -> None:
    told: list[LossKind] = []
    made = PartitionBoard(on_loss=lambda _, loss: told.append(loss.kind))
    partition = SparkPartition(KEY, ("A.t", 0), PartitionMetrics("A", "B", "A.t", 0))
    partition.position = partition.stored = 100
    made.add(partition)
    made.assign([KEY])
    old, new = uuid4(), uuid4()
    for known in (old, new):
        made.topic_ids({"t": known})
    made.place(partition, 0)
    assert told == [LossKind.SOURCE_RECREATED]
    partition.position = 50
    for known in (old, new, old):
        made.topic_ids({"t": known})
        assert not partition.begin_again
    # But a third life is one.
    made.topic_ids({"t": uuid4()})
    assert partition.begin_again


def test_what_left_stays_until_it_is_stored_and_may_come_back() -> None:
    made = board()
    (wanted,) = planned(made)
    assert made.assign([]) == []
    assert made.take_gone() == []
    made.reached(back(wanted, 70), 1.0, NOW_MS)
    assert made.take_gone() == []
    assert made.health(NOW_MS, None) == []
    assert made.assign([KEY]) == []
    assert planned(made)[0].start == 70
    made.assign([])
    let_go(made, KEY)
    the(made).stored = 70
    assert [each.source for each in made.take_gone()] == [KEY]
    assert made.assign([KEY]) == [KEY]


def test_where_a_shard_did_not_end_well_what_is_stored_says_how_far_it_is() -> None:
    made = board(position=10, more=1)
    assert len(planned(made)) == 2
    made.doubt(KEY, "its executor was lost", 1.0)
    made.doubt(("t", 1), None, 1.0)
    assert sorted(made.unsure()) == [KEY, ("t", 1)]
    assert planned(made, 100.0) == []
    made.settle({KEY: 60, ("t", 1): None})
    assert made.unsure() == []
    # The one that failed itself waits, the other does not.
    assert [(each.source, each.start) for each in planned(made, 1.1)] == [(("t", 1), 10)]
    assert [(each.source, each.start) for each in planned(made, 60.0)] == [(KEY, 60)]
    assert the(made).stored == 60


def test_a_topic_that_began_again_is_not_taken_back_to_what_was_stored_of_the_old_one() -> None:
    made = board(position=50)
    made.topic_ids({"t": uuid4()})
    made.topic_ids({"t": uuid4()})
    made.place(the(made), 0)
    made.doubt(KEY, None, 1.0)
    made.settle({KEY: 50})
    assert the(made).position == 0
    made.doubt(KEY, None, 1.0)
    made.settle({KEY: 20})
    assert the(made).position == 20


def test_a_partition_in_doubt_is_not_placed() -> None:
    made = board(position=-1)
    made.doubt(KEY, None, 1.0)
    assert made.unplaced() == []
    made.settle({KEY: None})
    assert [each.source for each in made.unplaced()] == [KEY]


def losing(policy: LossPolicy) -> tuple[PartitionBoard, list[Loss]]:
    told: list[Loss] = []
    made = PartitionBoard(policies=LossPolicies(policy), on_loss=lambda _, loss: told.append(loss))
    for partition in board(position=50):
        made.add(partition)
    made.ends({KEY: 100}, NOW_MS)
    return made, told


def test_a_loss_is_told_once_though_each_shard_finds_it() -> None:
    made, told = losing(LossPolicy.FAIL)
    loss = Loss(LossKind.RETENTION, LossPolicy.FAIL, KEY, ("A.t", 0), 50, 70, 50, None)
    assert Loss.of_json(loss.to_json()) == loss
    for _ in range(2):
        made.lost(loss)
    assert told == [loss]
    assert the(made).error == str(loss)
    # It stands still until somebody decides.
    assert planned(made, 100.0) == []
    made.lost(replace(loss, policy=LossPolicy.REPORT, resume=70))
    assert [each.start for each in planned(made, 100.0)] == [50]


def test_a_topic_created_again_while_nobody_ran_is_seen_by_what_was_known_of_it() -> None:
    made, told = losing(LossPolicy.REPORT)
    old, new = uuid4(), uuid4()
    the(made).learns = True
    made.topic_ids({"t": new})
    assert planned(made) == []
    made.learn({KEY: LogIdentity(0, 50, 60, old, None, (), ())})
    made.topic_ids({"t": new})
    (waiting,) = made.unplaced()
    made.place(waiting, 0)
    (loss,) = told
    assert (loss.kind, loss.position, loss.resume) == (LossKind.SOURCE_RECREATED, 50, 0)
    assert the(made).facts(0).source_topic_id == new


def test_a_topic_created_again_is_seen_though_what_was_known_of_it_comes_late() -> None:
    """The map's topic could not be read for a while, and copying began without it."""
    made, told = losing(LossPolicy.REPORT)
    old, new = uuid4(), uuid4()
    the(made).learns = True
    made.topic_ids({"t": new})
    made.begin_without_facts()
    (wanted,) = planned(made)
    made.reached(back(wanted, 70), 1.0, NOW_MS)
    assert made.facts.wanted_late
    made.learn({KEY: LogIdentity(0, 50, 60, old, None, (), ())})
    assert not made.facts.wanted_late
    made.topic_ids({"t": new})
    (waiting,) = made.unplaced()
    made.place(waiting, 0)
    (loss,) = told
    assert (loss.kind, loss.position, loss.resume) == (LossKind.SOURCE_RECREATED, 70, 0)
    assert the(made).position == 0


def test_what_comes_late_says_nothing_of_the_same_topic() -> None:
    made, told = losing(LossPolicy.REPORT)
    same = uuid4()
    the(made).learns = True
    made.topic_ids({"t": same})
    made.begin_without_facts()
    made.learn({KEY: LogIdentity(0, 50, 60, same, None, (), ())})
    made.topic_ids({"t": same})
    assert made.unplaced() == []
    assert told == []


def test_an_id_that_is_known_to_be_of_a_deleted_topic_says_nothing_after_a_restart() -> None:
    made, told = losing(LossPolicy.REPORT)
    old, new = uuid4(), uuid4()
    the(made).learns = True
    made.learn({KEY: LogIdentity(0, 50, 60, new, None, (), (), (old,))})
    made.topic_ids({"t": old})
    assert made.unplaced() == []
    assert told == []
    assert the(made).facts(50).former_source_ids == (old,)


def test_facts_of_another_position_than_the_stored_one_are_not_believed() -> None:
    made, told = losing(LossPolicy.REPORT)
    the(made).learns = True
    made.learn({KEY: LogIdentity(0, 40, 60, uuid4(), None, (), ())})
    made.topic_ids({"t": uuid4()})
    assert made.unplaced() == []
    assert told == []
    assert planned(made) != []


def test_where_it_is_to_stand_still_a_topic_created_again_does() -> None:
    made, told = losing(LossPolicy.FAIL)
    old, new = uuid4(), uuid4()
    for known in (old, new, old, new):
        made.topic_ids({"t": known})
    assert the(made).facts(50).source_topic_id == old, "the next start has to see it, too"
    assert [loss.kind for loss in told] == [LossKind.SOURCE_RECREATED]
    assert made.unplaced() == []
    assert planned(made) == []
    assert the(made).health(NOW_MS, None).details["state"] == "standing"


def without_start(
    policy: LossPolicy = LossPolicy.REPORT,
) -> tuple[PartitionBoard, list[int], list[Loss]]:
    """A partition with nothing stored; where it was begun, and what is told of losses."""
    begun: list[int] = []
    told: list[Loss] = []
    made = PartitionBoard(
        policies=LossPolicies(policy),
        on_loss=lambda _, loss: told.append(loss),
        on_begun=lambda partition: begun.append(partition.position),
    )
    for partition in board(position=UNKNOWN):
        partition.start_unknown = True
        made.add(partition)
    made.ends({KEY: 100}, NOW_MS)
    return made, begun, told


def test_where_one_begins_is_kept_before_it_is_copied() -> None:
    made, begun, _ = without_start()
    assert made.unplaced() == []
    made.begin(KEY, None, None)
    (unplaced,) = made.unplaced()
    made.place(unplaced, 20)
    assert begun == [20]
    assert planned(made) == []
    made.let_copy([KEY])
    assert [each.start for each in planned(made)] == [20]


def test_one_that_was_begun_before_goes_on_from_there() -> None:
    made, begun, told = without_start()
    old, new = uuid4(), uuid4()
    made.begin(KEY, 5, old)
    made.let_copy([KEY])
    assert (begun, made.unplaced()) == ([5], [])
    assert made.take_shard(2, 0.0) is None
    # Its target is compared first (test_tails.py).
    (partition,) = made.tails.take(0.0)
    start, partition.tail_start = partition.tail_start, None
    assert start == (5, 0)
    assert [each.start for each in planned(made)] == [5]
    made.topic_ids({"t": new})
    assert the(made).begin_again
    assert told == []


def test_that_it_was_begun_before_is_told_also_when_it_comes_out_late() -> None:
    for policy, resume in ((LossPolicy.REPORT, 20), (LossPolicy.FAIL, None)):
        made, _, told = without_start(policy)
        made.begin(KEY, None, None)
        (unplaced,) = made.unplaced()
        made.place(unplaced, 20)
        made.was_begun_before(KEY, 5, 20)
        (loss,) = told
        assert (loss.kind, loss.first, loss.end, loss.resume) == (
            LossKind.RETENTION,
            5,
            20,
            resume,
        )


def _lost_on_target(resume: int) -> Loss:
    kind, policy = LossKind.TARGET_LOSS, LossPolicy.COPY
    return Loss(kind, policy, KEY, ("A.t", 0), 10, 60, 60, resume)


@pytest.mark.parametrize("resume", [0, 20])
def test_records_are_copied_again_once_the_lower_position_is_stored(resume: int) -> None:
    """Else, after a crash, the next task goes on at the higher one that is stored."""
    made = board(60)
    (wanted,) = planned(made)
    made.lost(_lost_on_target(resume))
    made.reached(back(wanted, resume), 1.0, NOW_MS)
    partition = the(made)
    assert planned(made, 100.0) == []
    assert made.moved() == [partition]
    assert partition.facts(resume).target_end == UNKNOWN
    partition.committing()
    partition.committed(resume)
    (again,) = planned(made, 100.0)
    assert (again.start, again.end, made.moved()) == (resume, 100, [])


def test_a_position_that_may_be_stored_counts_as_stored() -> None:
    made = board(0)
    (wanted,) = planned(made)
    made.reached(back(wanted, 60), 1.0, NOW_MS)
    the(made).committing()
    (wanted,) = planned(made)
    made.lost(_lost_on_target(20))
    made.reached(back(wanted, 20), 2.0, NOW_MS)
    assert planned(made, 100.0) == []
    the(made).committed(60)
    assert planned(made, 100.0) == []
    assert made.moved() == [the(made)]


def test_under_exactly_once_the_next_transaction_stores_the_lower_position() -> None:
    made = board(60)
    once = PartitionBoard(stores=False)
    once.add(the(made))
    once.ends({KEY: 100}, NOW_MS)
    the(once).position = 0
    once.moved_to(the(once))
    (again,) = planned(once)
    assert (again.start, once.moved()) == (0, [])
