"""Shards are even, hold each partition once, and leave nobody waiting for ever."""

from __future__ import annotations

import time

from hypothesis import given
from hypothesis import strategies as st

from connectors.mirror.spark.copy.shard_plan import Lagging, PlanLimits, plan_shards

LIMITS = PlanLimits(shard_bytes=1000, shard_partitions=5, least_bytes=100)


def lagging(number: int, offsets: int, size: int, since: int, troubled: bool) -> Lagging:
    key = (f"t{number % 7}", number)
    return Lagging(key, key, 10 * number, 10 * number + offsets, size, since, troubled)


@st.composite
def backlogs(draw: st.DrawFn) -> list[Lagging]:
    drawn = draw(
        st.lists(
            st.tuples(
                st.integers(1, 500),
                st.integers(0, 5000),
                st.integers(0, 3),
                st.sampled_from([False, False, False, True]),
            ),
            max_size=40,
        )
    )
    return [lagging(number, *fields) for number, fields in enumerate(drawn)]


@given(backlogs(), st.integers(1, 6))
def test_shards_keep_to_what_there_is_and_to_the_limits(backlog: list[Lagging], slots: int) -> None:
    by_source = {each.source: each for each in backlog}
    shards = plan_shards(backlog, slots, LIMITS)
    ranges = [each for shard in shards for each in shard]
    assert len({each.source for each in ranges}) == len(ranges)
    assert len(shards) <= max(slots, 2)
    assert bool(shards) == bool(backlog)
    for each in ranges:
        wanted = by_source[each.source]
        assert each.target == wanted.target
        assert each.start == wanted.start
        assert each.start < each.end <= wanted.end
    for shard in shards:
        assert 0 < len(shard) <= LIMITS.shard_partitions
        assert len({by_source[each.source].troubled for each in shard}) == 1
        estimated = sum(
            by_source[each.source].bytes
            * (each.end - each.start)
            / (by_source[each.source].end - each.start)
            for each in shard
        )
        # A range has an offset at least, whatever that takes.
        single = sum(
            by_source[each.source].bytes / (by_source[each.source].end - each.start)
            for each in shard
        )
        assert estimated <= LIMITS.shard_bytes + single


@given(backlogs(), st.integers(1, 6))
def test_everybody_has_a_turn(backlog: list[Lagging], slots: int) -> None:
    """Those that were planned wait behind those that were not."""
    waiting = {each.source: each for each in backlog}
    for turn in range(4, 4 + len(backlog)):
        current = [
            each if each.source in waiting else each._replace(since=turn) for each in backlog
        ]
        for shard in plan_shards(current, slots, LIMITS):
            for planned in shard:
                waiting.pop(planned.source, None)
        backlog = current
    assert not waiting


@given(st.lists(st.integers(1, 400), min_size=1, max_size=20), st.integers(1, 4))
def test_shards_are_even(sizes: list[int], slots: int) -> None:
    """No shard has more than an even share and one partition."""
    limits = PlanLimits(shard_bytes=10**9, shard_partitions=100, least_bytes=1)
    backlog = [lagging(number, size, size, 0, False) for number, size in enumerate(sizes)]
    shards = plan_shards(backlog, slots, limits)
    assert len(shards) == min(slots, len(sizes))
    held = [sum(each.end - each.start for each in shard) for shard in shards]
    counts = [len(shard) for shard in shards]
    # Partitions weigh something by themselves: so little that it is only seen in their numbers.
    assert max(counts) - min(counts) <= 1 or max(held) <= sum(held) / len(held) + max(sizes)


def test_little_work_is_one_shard_and_what_is_troubled_stays_apart() -> None:
    small = [lagging(number, 5, 10, 0, False) for number in range(4)]
    assert [len(shard) for shard in plan_shards(small, 4)] == [4]
    mixed = [*small, lagging(9, 5, 10, 0, True)]
    assert [len(shard) for shard in plan_shards(mixed, 4)] == [4, 1]


def test_a_hundred_thousand_partitions_are_planned_in_seconds() -> None:
    backlog = [lagging(number, 100, 100_000, 0, False) for number in range(100_000)]
    began = time.process_time()
    shards = plan_shards(backlog, 64)
    assert sum(len(shard) for shard in shards) == 64_000
    assert time.process_time() - began < 5
