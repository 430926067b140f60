"""The producer IDs of partitions that leave and come back."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from connect.clients.wire.selector_loop import SelectorLoop
from connectors.mirror.copy.memory import FetchBuffer
from connectors.mirror.copy.partition.partition import UNKNOWN, Failure, PartitionCopy
from connectors.mirror.copy.producer_ids import ProducerIds
from connectors.mirror.metrics import PartitionMetrics
from tests.support.copier.outgoing import outgoing
from tests.support.fake_clock import FakeClock
from tests.unit.connectors.mirror.copy.contexts import context
from tests.unit.connectors.mirror.copy.scripted_target import ScriptedTarget

LAST_EPOCH = 32_767
BATCH = 3
"""Records."""


class Assignments:
    """Partitions of one target partition, one after the other, as an engine has them."""

    def __init__(self) -> None:
        clock = FakeClock()
        loop = SelectorLoop(clock)
        self.context = context(loop, clock, None, ScriptedTarget({}))
        self.producers = ProducerIds(self.context, None)

    def assign(self) -> PartitionCopy:
        metrics = PartitionMetrics("source", "target", "copy", 0)
        partition = PartitionCopy(("topic", 0), ("copy", 0), metrics)
        partition.begin_at(0)
        self.producers.equip(partition)
        self.context.loop.turn(0.0)
        assert partition.producer_id != UNKNOWN
        return partition

    def send(self, partition: PartitionCopy) -> None:
        buffer = FetchBuffer(self.context.budget, bytearray(100))
        batch = outgoing(bytearray(100), partition.resume, BATCH, buffer)
        partition.enqueue(batch, partition.resume)
        partition.take_next()

    def answer(self, partition: PartitionCopy) -> None:
        partition.accepted(partition.in_flight[0], 0)
        partition.next_acknowledged()

    def lose_connection(self, partition: PartitionCopy) -> None:
        partition.failed(partition.in_flight[0], Failure.RETRY, "the connection broke", maybe=True)

    def unassign(self, partition: PartitionCopy) -> None:
        self.producers.retire(partition)
        partition.drop_all()


@pytest.fixture
def assignments() -> Iterator[Assignments]:
    made = Assignments()
    yield made
    made.context.loop.close()


def produces_with(partition: PartitionCopy) -> tuple[int, int, int]:
    return partition.producer_id, partition.producer_epoch, partition.next_sequence


def test_the_sequence_goes_on_where_everything_was_answered(assignments: Assignments) -> None:
    first = assignments.assign()
    assignments.send(first)
    assignments.answer(first)
    producer, epoch, _ = produces_with(first)
    assignments.unassign(first)

    assert produces_with(assignments.assign()) == (producer, epoch, BATCH)


def test_the_next_epoch_begins_where_a_batch_may_still_reach_the_target(
    assignments: Assignments,
) -> None:
    """The target then refuses the batch, which would otherwise come among the new ones."""
    first = assignments.assign()
    assignments.send(first)
    assignments.lose_connection(first)
    producer, epoch, _ = produces_with(first)
    assignments.unassign(first)

    assert produces_with(assignments.assign()) == (producer, epoch + 1, 0)


def test_a_new_producer_follows_the_last_epoch(assignments: Assignments) -> None:
    first = assignments.assign()
    producer = first.producer_id
    first.producer_epoch = LAST_EPOCH
    assignments.send(first)
    assignments.lose_connection(first)
    assignments.unassign(first)

    second = assignments.assign()
    assert produces_with(second) == (second.producer_id, 0, 0)
    assert second.producer_id != producer
