"""Partitions are dealt out by weight: evenly as far as they can be, and with few moves."""

from __future__ import annotations

from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect.protocol.messages import TopicPartition
from connectors.mirror.source.balance import EVEN, UNEVEN, Balance, balance


def weighed(*weights: float) -> dict[TopicPartition, float]:
    return {("t", number): weight for number, weight in enumerate(weights)}


def carried(found: Balance, weights: dict[TopicPartition, float]) -> list[float]:
    return [sum(weights[partition] for partition in task) for task in found.tasks]


some_weights = st.lists(st.floats(0.1, 1e6), max_size=40).map(lambda found: weighed(*found))
some_tasks = st.integers(1, 8)


@st.composite
def dealt(draw: st.DrawFn) -> tuple[dict[TopicPartition, float], int, list[list[TopicPartition]]]:
    """Weights, tasks, and who had what: also partitions that are gone, and others that are new."""
    weights, count = draw(some_weights), draw(some_tasks)
    had: list[list[TopicPartition]] = [[] for _ in range(draw(some_tasks))]
    for partition in [*weights, ("gone", 0), ("gone", 1)]:
        task = draw(st.integers(-1, len(had) - 1))
        if task >= 0:
            had[task].append(partition)
    return weights, count, had


@given(dealt(), st.booleans())
def test_every_partition_has_one_task_and_every_task_a_partition(
    given_: tuple[dict[TopicPartition, float], int, list[list[TopicPartition]]], may_move: bool
) -> None:
    weights, count, had = given_
    found = balance(list(weights), weights, count, had, may_move=may_move)
    assert sorted(chain(*found.tasks)) == sorted(weights)
    assert len(found.tasks) == min(count, len(weights))
    assert all(found.tasks)


@given(dealt())
def test_what_is_left_uneven_cannot_be_made_even_by_a_move(
    given_: tuple[dict[TopicPartition, float], int, list[list[TopicPartition]]],
) -> None:
    """Else no task has more than its part, or what the heaviest could give up hardly weighs."""
    weights, count, had = given_
    found = balance(list(weights), weights, count, had)
    if not weights:
        return
    loads = carried(found, weights)
    mean = sum(loads) / len(loads)
    most = max(loads)
    if most <= UNEVEN * mean * 1.0001:
        return
    lead = most - min(loads)
    mine = [weights[each] for each in found.tasks[loads.index(most)]]
    assert sum(weight for weight in mine if weight < 0.9999 * lead) <= 0.25 * lead * 1.0001


@given(dealt())
def test_what_was_dealt_out_stays_as_it_is(
    given_: tuple[dict[TopicPartition, float], int, list[list[TopicPartition]]],
) -> None:
    weights, count, had = given_
    first = balance(list(weights), weights, count, had)
    again = balance(list(weights), weights, count, first.tasks)
    assert again.moved == 0
    assert again.tasks == first.tasks


@given(dealt())
def test_nothing_moves_where_it_may_not(
    given_: tuple[dict[TopicPartition, float], int, list[list[TopicPartition]]],
) -> None:
    weights, count, had = given_
    found = balance(list(weights), weights, count, had, may_move=False)
    moved = sum(
        partition in weights and partition not in found.tasks[task]
        for task, partitions in enumerate(had[: len(found.tasks)])
        for partition in partitions
    )
    assert moved == found.moved < max(1, len(found.tasks))


@given(some_weights, some_tasks)
def test_what_is_new_is_dealt_out_evenly(weights: dict[TopicPartition, float], count: int) -> None:
    found = balance(list(weights), weights, count)
    assert found.moved == 0 or max(carried(found, weights)) > 0
    loads = carried(found, weights)
    if loads:
        assert max(loads) - min(loads) <= max(weights.values()) * 1.0001


def test_one_move_evens_out_what_one_move_can() -> None:
    weights = weighed(3, 2, 1, 1)
    had = [[("t", 0), ("t", 1)], [("t", 2), ("t", 3)]]
    found = balance(list(weights), weights, 2, had)
    assert found.moved == 1
    assert carried(found, weights) == [3, 4]


@pytest.mark.parametrize(("heavy", "moves"), [(1.2, 0), (3.0, 1)])
def test_small_differences_move_nothing(heavy: float, moves: int) -> None:
    weights = weighed(heavy, 1, 1, 1)
    had = [[("t", 0), ("t", 1)], [("t", 2), ("t", 3)]]
    assert balance(list(weights), weights, 2, had).moved == moves
    assert EVEN < UNEVEN


def test_one_partition_that_weighs_more_than_all_others_stays() -> None:
    weights = weighed(100, 1, 1)
    found = balance(list(weights), weights, 2, [[("t", 0)], [("t", 1), ("t", 2)]])
    assert (found.moved, found.tasks[0]) == (0, [("t", 0)])


def test_a_crowd_of_idle_partitions_does_not_move_for_nothing() -> None:
    weights = weighed(300, *[1] * 20, 100)
    had = [[("t", number) for number in range(21)], [("t", 21)]]
    assert balance(list(weights), weights, 2, had).moved == 0


def test_a_move_that_only_a_float_finds_useful_is_not_made() -> None:
    weights = weighed(1, 0.3, 1)
    assert 1.3 - 1 > 0.3
    found = balance(list(weights), weights, 2, [list(weights)])
    assert sorted(carried(found, weights)) == [1, 1.3]
