"""Offset syncs are sent in rounds, each partition's newest, so that they cost next to nothing."""

from __future__ import annotations

from random import Random

from connect.clock import Deadline
from connect.protocol.messages import TopicPartition
from connectors.mirror.formats import OffsetSync
from connectors.mirror.offsets.offset_sync_producer import (
    MAX_SYNCS_IN_FLIGHT,
    SPARE_SYNCS,
    SYNCS_EVERY_S,
    OffsetSyncProducer,
)
from tests.simulation.groups.topics import MAP, SYNCS, Producer, Topics
from tests.support.fake_clock import FakeClock

T = ("t", 0)


class Sending:
    """The syncs of one task."""

    def __init__(self) -> None:
        self.topics, self.clock = Topics(), FakeClock(now_ms=1_000_000)
        self.producer = Producer(self.topics, Random(0))
        self.syncs = OffsetSyncProducer(self.producer, SYNCS, MAP, self.clock)

    def turn(self, seconds: float = 0.0) -> None:
        self.clock.advance(seconds)
        self.syncs.poll()

    def arrive(self) -> None:
        self.producer.deliver(1 << 30)

    def written(self, key: TopicPartition = T) -> list[int]:
        """The upstream offsets of a partition's syncs in the topic."""
        found = [
            OffsetSync.decode(key, value)
            for key, value in self.topics.named(SYNCS).records.values()
            if value is not None
        ]
        return [each.upstream_offset for each in found if (each.topic, each.partition) == key]


def test_a_busy_partition_gets_its_newest_sync_once_in_a_round() -> None:
    made = Sending()
    for batch in range(10_000):
        made.syncs.sync(T, (batch, batch))
        made.turn(SYNCS_EVERY_S / 100)
        made.arrive()
    assert 100 <= len(made.written()) <= 2 * 100 + SPARE_SYNCS
    made.turn(SYNCS_EVERY_S)
    made.arrive()
    assert made.written()[-1] == 9_999
    assert made.written() == sorted(made.written())


def test_a_partition_with_few_records_gets_all_its_syncs() -> None:
    """As MirrorMaker 2 would write them."""
    made = Sending()
    for record in range(SPARE_SYNCS):
        made.syncs.sync(T, (record, record), first=not record)
    made.turn(SYNCS_EVERY_S)
    made.arrive()
    made.turn(SYNCS_EVERY_S)
    made.arrive()
    assert made.written() == list(range(SPARE_SYNCS))


def test_the_first_sync_of_a_partition_is_always_written() -> None:
    """Groups behind the others are translated with it."""
    made = Sending()
    made.syncs.sync(T, (0, 0), first=True)
    for record in range(1, 1_000):
        made.syncs.sync(("other", 0), (record, record))
    made.syncs.sync(T, (100, 100))
    made.syncs.sync(T, (200, 200))
    made.turn()
    made.arrive()
    made.turn(SYNCS_EVERY_S)
    made.arrive()
    assert made.written() == [0, 200]


def test_a_first_sync_replaces_what_waits_from_before_the_partition_left() -> None:
    made = Sending()
    made.syncs.sync(T, (50, 50))
    made.syncs.sync(T, (70, 70), first=True)
    made.turn()
    made.arrive()
    assert made.written() == [70]


def test_many_partitions_take_turns_in_rounds() -> None:
    made = Sending()
    keys = [("wide", number) for number in range(MAX_SYNCS_IN_FLIGHT + 1)]
    for key in keys:
        made.syncs.sync(key, (1, 1))
    made.turn()
    assert made.producer.waiting == MAX_SYNCS_IN_FLIGHT
    made.arrive()
    made.syncs.sync(keys[0], (2, 2))
    made.turn(SYNCS_EVERY_S)
    made.arrive()
    assert made.written(keys[-1]) == [1]
    assert made.written(keys[0]) == [1, 2]


def test_it_tells_when_it_has_something_to_do() -> None:
    made = Sending()
    made.turn()
    assert made.syncs.due_in_s() > 1_000
    made.syncs.sync(T, (1, 1))
    made.turn(1.0)
    assert made.syncs.due_in_s() < SYNCS_EVERY_S, "it looks for the delivery report"
    made.arrive()
    made.syncs.sync(T, (2, 2))
    assert 0 < made.syncs.due_in_s() <= SYNCS_EVERY_S


def test_closing_sends_what_waits() -> None:
    """Also while others are in flight: nobody would send it later."""
    made = Sending()
    made.syncs.sync(T, (1, 1), first=True)
    made.turn()
    made.syncs.sync(T, (2, 2))

    class Once(Deadline):
        """Lets a loop make one turn, in which what is in flight arrives."""

        turns = 0

        def expired(self) -> bool:
            self.turns += 1
            if self.turns == 2:
                assert made.producer.waiting == 2
                made.arrive()
            return self.turns > 2

    made.syncs.close(Once(1.0, made.clock))
    assert made.written() == [1, 2]
