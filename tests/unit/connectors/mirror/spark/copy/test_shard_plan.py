"""Shards hold each partition once, are fair, and leave nobody waiting for ever."""

from __future__ import annotations

import time

from hypothesis import given
from hypothesis import strategies as st

from connectors.mirror.copy.partition.offset_size import OffsetSize
from connectors.mirror.metrics import PartitionMetrics
from connectors.mirror.spark.copy.partition import SparkPartition
from connectors.mirror.spark.copy.shard_plan import Shard, WaitingPartitions

LARGE = 10_000
"""Offsets of a kilobyte: more than what is put together."""
_METRICS = PartitionMetrics("A", "B", "A.t", 0)


def partition(number: int, offsets: int, failures: int = 0) -> SparkPartition:
    """Source offsets 10 times its number on, of a kilobyte each."""
    key = (f"t{number}", number)
    measured = OffsetSize()
    measured.measure(1_000_000, 1000)
    made = SparkPartition(key, key, _METRICS, size=measured, failures=failures)
    made.position, made.end = 10 * number, 10 * number + offsets
    return made


def waiting(*partitions: SparkPartition) -> WaitingPartitions:
    made = WaitingPartitions()
    for each in partitions:
        made.put(each)
    return made


def take(made: WaitingPartitions, shards: int, *, without: str = "") -> Shard | None:
    return made.take(shards, lambda each: each.source[0] != without)


def taken(made: WaitingPartitions, shards: int) -> list[Shard]:
    found = []
    while (shard := take(made, shards)) is not None:
        found.append(shard)
    return found


def sources(shard: Shard | None) -> list[int]:
    return [] if shard is None else [each.source[1] for each in shard.ranges]


backlogs = st.lists(
    st.tuples(st.integers(1, 2 * LARGE), st.sampled_from([0, 0, 0, 1])), max_size=40
)


@given(backlogs, st.integers(1, 6))
def test_each_partition_is_in_one_shard(drawn: list[tuple[int, int]], slots: int) -> None:
    every = [partition(number, *fields) for number, fields in enumerate(drawn)]
    by_source = {each.source: each for each in every}
    shards = taken(waiting(*every), slots)
    ranges = [each for shard in shards for each in shard.ranges]
    assert sorted(each.source for each in ranges) == sorted(by_source)
    for each in ranges:
        wanted = by_source[each.source]
        assert (each.start, each.end) == (wanted.position, wanted.end)
    for shard in shards:
        assert shard.ranges
        assert {by_source[each.source].failures > 0 for each in shard.ranges} == {shard.troubled}


@given(backlogs, st.integers(1, 6))
def test_everybody_has_a_turn(drawn: list[tuple[int, int]], slots: int) -> None:
    """Those that come back wait behind those that were not in a shard yet."""
    every = {each.source: each for each in (partition(n, *of) for n, of in enumerate(drawn))}
    made, without_turn = waiting(*every.values()), set(every)
    for _ in every:
        shard = take(made, slots)
        for each in () if shard is None else shard.ranges:
            without_turn.discard(each.source)
            made.came_back(each.source)
            made.put(every[each.source])
    assert not without_turn


def test_small_rests_share_a_shard_and_what_failed_is_apart() -> None:
    made = waiting(*(partition(n, 10) for n in range(4)), partition(8, 10, 1), partition(9, LARGE))
    shards = [(sources(shard), shard.troubled) for shard in taken(made, 4)]
    assert shards == [([0, 1, 2, 3], False), ([8], True), ([9], False)]


def test_a_shard_has_its_fair_share_also_of_those_in_flight() -> None:
    made = waiting(partition(0, LARGE))
    assert sources(take(made, 2)) == [0]
    for number in range(1, 8):
        made.put(partition(number, LARGE))
    # Four of the eight each, though seven are left for one slot.
    assert sources(take(made, 2)) == [1, 2, 3, 4]
    made.came_back(("t0", 0))
    made.put(partition(0, LARGE))
    assert sources(take(made, 2)) == [5, 6, 7, 0]


def test_what_may_be_lost_soon_comes_before_what_waited_longer() -> None:
    made = waiting(*(partition(n, LARGE) for n in range(6)))
    made.urgent = {("t4", 4): 10.0, ("t2", 2): 60.0}
    assert sources(take(made, 3)) == [4, 2]
    assert sources(take(made, 3)) == [0, 1]


def test_what_is_held_waits_without_losing_its_place() -> None:
    made = waiting(partition(0, LARGE), partition(1, LARGE))
    assert sources(take(made, 2, without="t0")) == [1]
    assert sources(take(made, 2, without="t0")) == []
    assert sources(take(made, 2)) == [0]


def test_a_record_that_the_source_may_have_deleted_is_asked_for() -> None:
    shard = take(waiting(partition(3, -10)), 1)
    assert shard is not None
    assert [(each.start, each.end) for each in shard.ranges] == [(30, 31)]


def test_a_choice_among_a_hundred_thousand_takes_milliseconds() -> None:
    made = waiting(*(partition(number, LARGE) for number in range(100_000)))
    began = time.process_time()
    shards = [shard for _ in range(64) if (shard := take(made, 64)) is not None]
    assert sum(len(shard.ranges) for shard in shards) == 64_000
    assert time.process_time() - began < 5


def sliced(number: int, offsets: int, failures: int = 0) -> SparkPartition:
    made = partition(number, offsets, failures)
    made.sliced = True
    return made


def of_limited_size(*partitions: SparkPartition) -> WaitingPartitions:
    """Shards have 100 of these offsets."""
    made = WaitingPartitions(slice_bytes=100_000)
    for each in partitions:
        made.put(each)
    return made


def test_a_sliced_shard_ends_in_the_middle_of_a_backlog() -> None:
    made = of_limited_size(sliced(1, LARGE), sliced(2, LARGE))
    for number in (1, 2):
        shard = take(made, 1)
        assert shard is not None
        # The first one fills it.
        assert [(each.source[1], each.end - each.start) for each in shard.ranges] == [(number, 100)]
        assert not shard.probes


def test_small_sliced_backlogs_share_a_shard_unless_they_are_troubled() -> None:
    made = of_limited_size(sliced(1, 10), sliced(2, 10), sliced(3, 10, 1), sliced(4, 10, 1))
    assert [sources(shard) for shard in taken(made, 1)] == [[1, 2], [3], [4]]


def test_sliced_partitions_are_not_in_one_shard_with_others() -> None:
    made = of_limited_size(sliced(1, 10), partition(2, LARGE), sliced(3, 10), partition(4, 10))
    first, second = taken(made, 1)
    assert (sources(first), sources(second)) == ([1, 3], [2, 4])
    assert [each.end - each.start for each in second.ranges] == [LARGE, 10]


def test_the_first_slice_of_a_partition_has_few_offsets() -> None:
    unmeasured = sliced(1, 50 * LARGE)
    unmeasured.size = OffsetSize()
    shard = take(of_limited_size(unmeasured), 1)
    assert shard is not None
    assert [each.end - each.start for each in shard.ranges] == [2000]


def test_a_partition_whose_source_seems_to_end_earlier_is_a_probe() -> None:
    shorter = partition(1, LARGE)
    shorter.position, shorter.end = 500, 100
    made = waiting(shorter, partition(2, 10))
    shard = take(made, 1)
    assert shard is not None
    assert shard.probes == {("t1", 1)}
    assert next((each.start, each.end) for each in shard.ranges if each.source[1] == 1) == (
        500,
        501,
    )
