"""The state machine of a partition on its way to the target: sequences, recoveries, invariants."""

from __future__ import annotations

import pytest

from connect.protocol.records import Record
from connectors.mirror.copy.batches.outgoing import UNKNOWN, Failure, Outgoing
from connectors.mirror.copy.memory import FetchBuffer, MemoryBudget
from connectors.mirror.copy.partition.partition import PartitionCopy
from connectors.mirror.copy.partition.states import CopyEvent, CopyLife, CopyState, InvariantBroken
from connectors.mirror.copy.partition.target_partition import MOST_IN_FLIGHT
from connectors.mirror.copy.transactions.offsets_partitions import OffsetsPartition
from connectors.mirror.metrics import PartitionMetrics
from tests.support.copier import partition_invariants
from tests.support.copier.outgoing import outgoing
from tests.support.records.batches import encode_batch

BUDGET = MemoryBudget(1 << 20)


def batch(first: int, count: int) -> Outgoing:
    records = [Record(first + n, 1_000, None, b"%d" % (first + n)) for n in range(count)]
    data = bytearray(encode_batch(records, base_offset=first))
    return outgoing(data, first, count, FetchBuffer(BUDGET, data), max_timestamp=1_000)


def partition(position: int = 0) -> PartitionCopy:
    made = PartitionCopy(("t", 0), ("A.t", 0), PartitionMetrics("A", "B", "A.t", 0))
    made.begin_at(position)
    return made


def queued(*counts: int) -> PartitionCopy:
    """A partition with batches of so many records each."""
    made = partition()
    for count in counts:
        made.enqueue(batch(made.resume, count), made.resume)
    return made


def failed(made: PartitionCopy, *, maybe: bool = False, failure: Failure = Failure.RETRY) -> None:
    """Everything in flight fails."""
    for each in list(made.in_flight):
        made.failed(each, failure, "refused", maybe=maybe)


def test_small_batches_wait_at_the_source_once_several_are_queued() -> None:
    made = queued(1, 1, 1)
    assert not made.has_enough_pending(1 << 20)
    made.enqueue(batch(3, 1), 3)
    assert made.has_enough_pending(1 << 20)
    made.take_next()
    assert not made.has_enough_pending(1 << 20)


def test_a_long_queue_of_small_batches_is_enough_too() -> None:
    made = queued(*[1] * 2_000)
    assert made.pending_bytes > 128 * 1024
    assert made.has_enough_pending(1 << 20)


def test_of_a_partition_that_is_far_behind_small_batches_are_fetched_ahead() -> None:
    made = queued(1, 1, 1, 1)
    made.far_behind = True
    assert not made.has_enough_pending(1 << 20)


def test_large_batches_are_fetched_ahead_up_to_the_limit() -> None:
    made = queued(2_000, 2_000, 2_000, 2_000)
    assert not made.has_enough_pending(1 << 20)
    assert made.has_enough_pending(made.pending_bytes)


def test_a_batch_is_queued_only_where_the_one_before_it_ends() -> None:
    made = queued(10)
    with pytest.raises(InvariantBroken, match="t-0: a batch of offsets 20 to 30 was"):
        made.enqueue(batch(20, 10), 20)


def test_an_invariant_that_breaks_prints_the_events_before_it() -> None:
    made = queued(10)
    made.take_next()
    with pytest.raises(InvariantBroken, match=r"ACTIVE, sent 0 10 0$"):
        made.skip_to(5)


def test_a_broken_partition_is_neither_fetched_nor_sent_nor_stored() -> None:
    made = queued(10)
    made.take_next()
    made.accepted(made.in_flight[0], 0)
    made.next_acknowledged()
    assert made.unstored
    made.stop_broken("it does not add up")
    assert (made.held_back, made.send_held, made.unstored) == (True, True, False)
    assert "it does not add up" in str(made.error)
    assert made.state is CopyState.BROKEN


def test_positions_follow_the_batches() -> None:
    made = queued(10, 5)
    assert (made.position, made.acked_position) == (15, 0)
    made.fetched_to(40)
    assert made.position == 40
    made.fetch_again()
    assert made.position == 15
    made.drop_unsent()
    assert made.position == 0


def test_a_partition_with_batches_under_way_is_not_moved() -> None:
    with pytest.raises(InvariantBroken, match="moved to 100 with batches queued or in flight"):
        queued(1).relocate(100)


def test_no_more_batches_are_in_flight_than_brokers_remember() -> None:
    made = queued(*[1] * 6)
    for _ in range(MOST_IN_FLIGHT):
        made.take_next()
    with pytest.raises(InvariantBroken, match="with 5 in flight"):
        made.take_next()


def test_a_batch_is_answered_once() -> None:
    made = queued(1)
    sent = made.take_next()
    made.accepted(sent, 0)
    with pytest.raises(InvariantBroken, match="answered twice"):
        made.failed(sent, Failure.RETRY, "late", maybe=True)


def test_batches_are_acknowledged_in_order() -> None:
    made = queued(1, 1)
    first, second = made.take_next(), made.take_next()
    made.accepted(second, 1)
    assert made.next_acknowledged() is None
    made.accepted(first, 0)
    assert [made.next_acknowledged(), made.next_acknowledged()] == [first, second]
    assert made.acked_position == 2


def test_a_recovery_waits_for_all_answers_and_resends_the_same_sequence_numbers() -> None:
    made = queued(3, 4)
    first, second = made.take_next(), made.take_next()
    made.failed(first, Failure.RETRY, "gone", maybe=True)
    assert made.state is CopyState.RECOVERING
    assert not made.to_resolve
    made.failed(second, Failure.RETRY, "gone", maybe=True)
    assert made.to_resolve
    assert made.requeue() == (Failure.RETRY, "gone")
    made.delay()
    partition_invariants.check(made)
    assert [each.sequence for each in made.queue] == [0, 3]
    assert made.waited()
    assert made.take_next() is first


def test_sequence_numbers_of_dropped_batches_are_given_again() -> None:
    made = queued(3, 4, 5)
    for _ in range(3):
        made.take_next()
    failed(made)
    made.requeue()
    made.block()
    partition_invariants.check(made)
    assert (made.next_sequence, made.position, made.state) == (0, 0, CopyState.BLOCKED)


def test_a_batch_that_the_target_may_have_is_not_dropped() -> None:
    made = queued(3, 4)
    made.take_next()
    failed(made, maybe=True)
    made.requeue()
    made.delay()
    made.shed(BUDGET)
    partition_invariants.check(made)
    assert [each.start for each in made.queue] == [0]
    with pytest.raises(InvariantBroken, match="was dropped, but the target may have written it"):
        made.block()


@pytest.mark.parametrize(
    ("head_may_be_there", "then"), [(True, Failure.ABORT), (False, Failure.NEW_PRODUCER)]
)
def test_batches_behind_a_refused_one_are_not_there_unless_it_is(
    head_may_be_there: bool, then: Failure
) -> None:
    made = queued(3, 4)
    first, second = made.take_next(), made.take_next()
    made.failed(first, Failure.BLOCK, "refused", maybe=head_may_be_there)
    made.failed(second, Failure.RETRY, "gone", maybe=True)
    assert made.requeue() == (then, "refused")


def test_a_batch_that_may_be_there_is_not_split_in_place() -> None:
    """Its halves would not be known to be there, and a transaction would commit them alone."""
    made = queued(10)
    made.take_next()
    failed(made, maybe=True)
    made.requeue()
    made.recovered()
    made.take_next()
    failed(made, failure=Failure.SPLIT)
    assert made.requeue() == (Failure.ABORT, "refused")


def test_a_record_that_was_never_sent_can_be_skipped() -> None:
    """Finding 10: its sequence number is not known, so none is given again."""
    made = queued(3, 4)
    made.refuse_head()
    made.skip_head()
    assert (made.next_sequence, made.acked_position, made.position) == (0, 3, 3)


def test_halves_of_a_batch_keep_range_and_sequence_numbers() -> None:
    made = queued(10, 2)
    made.take_next()
    failed(made, failure=Failure.SPLIT)
    assert made.requeue() == (Failure.SPLIT, "refused")
    made.split_head(BUDGET)
    made.recovered()
    partition_invariants.check(made)
    assert [(each.start, each.resume, each.sequence) for each in made.queue] == [
        (0, 5, 0),
        (5, 10, 5),
        (10, 12, UNKNOWN),
    ]


def test_nothing_unanswered_is_dropped() -> None:
    made = queued(1)
    made.take_next()
    with pytest.raises(InvariantBroken, match="1 unanswered batches were dropped"):
        made.go_back(0)


def test_an_event_that_cannot_come_is_an_error_with_the_history() -> None:
    life = CopyLife(CopyState.STARTING)
    with pytest.raises(
        InvariantBroken, match="p: event WAITED is not allowed in state STARTING; before: none"
    ):
        life.on(CopyEvent.WAITED, "p")


def offsets_partition() -> OffsetsPartition:
    made = OffsetsPartition(
        source=("offsets", 0),
        target=("offsets", 0),
        metrics=PartitionMetrics("", "", "offsets", 0),
        life=CopyLife(CopyState.ACTIVE),
        acked_position=0,
    )
    made.write(batch(0, 2))
    return made


def test_source_offsets_are_never_dropped_for_memory() -> None:
    """Finding 1: offsets that were dropped as if they could be fetched again were missing from the
    transaction that was committed."""
    made = offsets_partition()
    made.evacuate(BUDGET)
    assert len(made.queue) == 1
    made.take_next()
    made.failed(made.in_flight[0], Failure.RETRY, "NOT_ENOUGH_REPLICAS", maybe=False)
    made.requeue()
    made.delay()
    made.shed(BUDGET)
    assert len(made.queue) == 1
    assert not made.stored


def test_source_offsets_count_as_stored_only_when_all_are_acknowledged() -> None:
    made = offsets_partition()
    made.write(batch(0, 3))
    for _ in range(2):
        made.take_next()
    made.accepted(made.in_flight[0], 10)
    made.next_acknowledged()
    assert not made.stored
    with pytest.raises(InvariantBroken, match="2 of 5 source offsets acknowledged"):
        made.next_transaction()
    made.accepted(made.in_flight[0], 12)
    made.next_acknowledged()
    assert made.stored
    made.next_transaction()
    assert (made.written, made.acked_position) == (0, 0)


def test_source_offsets_that_are_refused_for_good_stay_where_they_are() -> None:
    made = offsets_partition()
    made.take_next()
    made.failed(made.in_flight[0], Failure.BLOCK, "no", maybe=False)
    made.requeue()
    assert made.block() == float("inf")
    assert (made.state, len(made.queue), made.stored) == (CopyState.BLOCKED, 1, False)
