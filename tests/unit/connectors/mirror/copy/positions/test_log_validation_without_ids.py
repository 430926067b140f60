"""Brokers before Kafka 2.8 name no topic ids: leader epochs tell a source topic that was deleted
and created again from one whose log was cut off."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

import pytest

from connectors.mirror.config.losses import LossKind, LossPolicies
from connectors.mirror.copy.context import LossFound
from connectors.mirror.copy.partition.partition import PartitionCopy
from connectors.mirror.copy.positions.log_validation import LogValidation
from connectors.mirror.copy.positions.offset_reset import OffsetReset
from tests.unit.connectors.mirror.copy.asked_cluster import SteppedLoop
from tests.unit.connectors.mirror.copy.contexts import posted

COPIED = 100


class Source(SteppedLoop):
    """A partition of which 100 records were copied, the last ones of leader epoch 2."""

    def __init__(self) -> None:
        super().__init__(losses=LossPolicies())
        self.starts = OffsetReset(self.context)
        self.checks = LogValidation(self.context, self.starts)
        self.copied = self.partition(0, COPIED)
        self.copied.started()
        self.copied.epochs.follow([(0, 0), (2, 60)])
        self.copied.source_checked = 2

    def has(self, *, epoch: int) -> None:
        """New metadata, twice: it was asked for after everything else."""
        for _ in range(2):
            self.source.leads(self.copied.source, epoch=epoch)
            self.checks.follow(self.copied)
            self.turn()

    def answers(self, offset: int) -> None:
        self.source.answers[-1].set_result({self.copied.source: offset})
        self.turn()

    @property
    def losses(self) -> list[tuple[LossKind, int, int]]:
        found = [event.loss for event in posted(self.context, LossFound)]
        return [(loss.kind, loss.first, loss.end) for loss in found]


@pytest.fixture
def source() -> Iterator[Source]:
    made = Source()
    yield made
    made.loop.close()


def begins_again(source: Source, partition: PartitionCopy) -> bool:
    """Whether the new topic is copied from its first record."""
    source.turn(1.0)
    source.answers(0)
    return partition.position == 0 and not partition.held_back


def test_a_longer_log_of_an_older_epoch_is_another_topic(source: Source) -> None:
    source.has(epoch=0)
    assert source.source.asked_epochs == [{source.copied.source: 2}], "its leader confirms it"
    assert source.copied.checking
    source.answers(150)
    source.has(epoch=0)
    assert begins_again(source, source.copied)
    assert source.losses == [(LossKind.SOURCE_RECREATED, 0, COPIED)]


def test_a_log_that_does_not_know_the_epoch_is_another_topic(source: Source) -> None:
    source.has(epoch=1)
    source.answers(-1)
    source.has(epoch=1)
    assert begins_again(source, source.copied)
    assert source.losses == [(LossKind.SOURCE_RECREATED, 0, COPIED)]


def test_a_shorter_log_of_the_same_epoch_is_another_topic(source: Source) -> None:
    source.has(epoch=2)
    source.checks.out_of_range(source.copied)
    source.turn()
    source.answers(50)
    source.has(epoch=2)
    assert begins_again(source, source.copied)
    assert source.losses == [(LossKind.SOURCE_RECREATED, 0, COPIED)]


def test_a_shorter_log_of_a_newer_epoch_was_cut_off(source: Source) -> None:
    source.has(epoch=3)
    source.answers(80)
    source.has(epoch=3)
    source.turn(1.0)
    assert source.copied.position == 80
    assert source.losses == [(LossKind.TRUNCATION, 80, COPIED)]


def test_a_topic_id_decides_where_there_is_one(source: Source) -> None:
    source.copied.source_topic_id = UUID(int=1)
    source.source.names(source.copied.source[0], UUID(int=1))
    source.has(epoch=2)
    source.checks.out_of_range(source.copied)
    source.turn()
    source.answers(80)
    source.has(epoch=2)
    source.turn(1.0)
    assert source.losses == [(LossKind.TRUNCATION, 80, COPIED)]
