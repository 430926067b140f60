"""Partitions are weighed by what comes into them and what waits, and move seldom."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from connect.protocol.messages import TopicPartition
from connectors.mirror.source.assignment import Measured
from connectors.mirror.source.partition_load import LoadBook, Looked
from tests.support.fake_clock import FakeClock

A, B, C, D = (("t", number) for number in range(4))
KB = 1000
MOVE_EVERY_S = 600.0


def looked(
    at: float,
    ends: Mapping[TopicPartition, int],
    *,
    sizes: Mapping[TopicPartition, int] | None = None,
    copied: Mapping[TopicPartition, int] | None = None,
) -> Looked:
    starts = dict.fromkeys(ends, 0)
    return Looked(at, starts, ends, sizes or {}, ends if copied is None else copied)


def test_what_comes_weighs_as_many_bytes_a_second() -> None:
    book = LoadBook()
    first = book.note(looked(0.0, {A: 1000, B: 1000}))
    assert first[A] == first[B]
    second = book.note(looked(10.0, {A: 2000, B: 1000}, sizes={A: 2000 * KB, B: 1000 * KB}))
    assert second[A] - second[B] == pytest.approx(100 * KB)


def test_what_waits_weighs_too_also_before_anything_was_seen_to_come() -> None:
    weights = LoadBook().note(
        looked(
            0.0, {A: 1000, B: 1000}, sizes={A: 1000 * KB, B: 1000 * KB}, copied={A: 400, B: 1000}
        )
    )
    assert weights[A] - weights[B] == pytest.approx(600 * KB / 600)


def test_a_short_burst_counts_little() -> None:
    book = LoadBook()
    for minute in range(5):
        book.note(looked(60.0 * minute, {A: 60 * minute}))
    burst = book.note(looked(300.0, {A: 240 + 6000}))
    assert burst[A] < 0.4 * 6000 / 60 * 512 + 2000


def test_a_log_that_begins_anew_weighs_no_less_than_an_idle_one() -> None:
    book = LoadBook()
    book.note(looked(0.0, {A: 1000}))
    assert book.note(looked(10.0, {A: 5}))[A] == LoadBook().note(looked(0.0, {A: 5}))[A]


def test_one_that_is_gone_and_comes_again_is_new() -> None:
    book = LoadBook()
    book.note(looked(0.0, {A: 0}))
    book.note(looked(10.0, {A: 1000}))
    book.note(looked(20.0, {B: 0}))
    assert book.note(looked(30.0, {A: 1000}))[A] == LoadBook().note(looked(0.0, {A: 1000}))[A]


def test_partitions_move_once_it_is_uneven_and_not_again_soon() -> None:
    clock = FakeClock()
    dealt = Measured([[A, B], [C, D]], MOVE_EVERY_S, clock)
    heavy = {A: 50.0, B: 50.0, C: 1.0, D: 1.0}
    assert not dealt.uneven(heavy), "before it was measured for long enough"
    assert dealt.deal([A, B, C, D], 2) == [[A, B], [C, D]]
    clock.advance(MOVE_EVERY_S)
    assert not dealt.uneven({A: 5.0, B: 5.0, C: 5.0, D: 5.0})
    assert dealt.uneven(heavy)
    tasks = dealt.deal([A, B, C, D], 2)
    assert sorted(len({A, B} & set(task)) for task in tasks) == [1, 1]
    assert not dealt.uneven(heavy)
    crowd = max(tasks, key=len)
    together = {partition: 50.0 if partition in crowd else 1.0 for partition in heavy}
    assert not dealt.uneven(together), "so soon after the last"
    clock.advance(MOVE_EVERY_S)
    assert dealt.uneven(together)


def test_topics_that_come_meanwhile_move_nothing() -> None:
    clock = FakeClock()
    dealt = Measured([[A, B], [C]], MOVE_EVERY_S, clock)
    clock.advance(MOVE_EVERY_S)
    dealt.uneven({A: 50.0, B: 50.0, C: 1.0})
    dealt.deal([A, B, C], 2)
    before = dealt.deal([A, B, C], 2)
    dealt.uneven({partition: 50.0 if partition in before[0] else 1.0 for partition in (A, B, C)})
    after = dealt.deal([A, B, C, D], 2)
    assert all(set(task) <= set(again) for task, again in zip(before, after, strict=True))


def test_a_restart_does_not_undo_what_was_measured_before() -> None:
    """What comes in is not known yet then, and what is caught up weighs the same everywhere."""
    clock = FakeClock()
    dealt = Measured([[A], [B, C, D]], MOVE_EVERY_S, clock)
    assert not dealt.uneven(dict.fromkeys([A, B, C, D], 1.0))
    assert dealt.deal([A, B, C, D], 2) == [[A], [B, C, D]]


def test_the_first_time_it_is_dealt_out_by_what_waits() -> None:
    dealt = Measured([], MOVE_EVERY_S)
    dealt.uneven({A: 50.0, B: 50.0, C: 1.0, D: 1.0})
    assert sorted(map(sorted, dealt.deal([A, B, C, D], 2))) in ([[A, C], [B, D]], [[A, D], [B, C]])


def test_without_weights_it_is_dealt_out_by_number() -> None:
    tasks = Measured([], MOVE_EVERY_S).deal([A, B, C, D], 2)
    assert sorted(map(len, tasks)) == [2, 2]


def test_who_has_a_partition_already_keeps_it_through_a_restart_of_the_connector() -> None:
    assert Measured([[D], [A, B, C]], MOVE_EVERY_S).deal([A, B, C, D], 2) == [[D], [A, B, C]]
