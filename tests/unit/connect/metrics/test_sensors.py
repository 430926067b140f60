"""Windows of 30 s, two of them: what is remembered, and for how long."""

from __future__ import annotations

import math

import pytest

from connect.metrics.sensors import Outcomes, Rate, WindowedStat
from tests.support.fake_clock import FakeClock


def test_a_stat_without_values_has_no_summary_and_last_is_zero() -> None:
    stat = WindowedStat()

    assert stat.last == 0
    assert all(math.isnan(figure) for figure in stat.summary(0))


def test_min_max_and_avg_are_over_all_values_of_the_windows() -> None:
    clock, stat = FakeClock(), WindowedStat()
    for value in (5, 1, 9):
        stat.record(value, clock.now_ms())
        clock.advance(20)

    assert stat.summary(clock.now_ms() - 20_000) == (1, 9, 5)
    assert stat.last == 9


def test_a_weight_counts_in_the_mean_only() -> None:
    stat = WindowedStat()
    stat.record(10, 0, weight=3)
    stat.record(50, 0, weight=1)

    assert stat.summary(0) == (10, 50, 20)


def test_values_are_forgotten_a_minute_after_their_window_began() -> None:
    clock, stat = FakeClock(), WindowedStat()
    stat.record(100, clock.now_ms())
    clock.advance(45)
    stat.record(2, clock.now_ms())

    clock.advance(14.999)
    assert stat.summary(clock.now_ms()) == (2, 100, 51)
    clock.advance(0.001)
    assert stat.summary(clock.now_ms()) == (2, 2, 2)
    clock.advance(45)
    assert math.isnan(stat.summary(clock.now_ms())[2])
    assert stat.last == 2


def test_only_the_newer_two_windows_count() -> None:
    clock, stat = FakeClock(), WindowedStat()
    for value in (1, 2, 3):
        stat.record(value, clock.now_ms())
        clock.advance(30)

    assert stat.summary(clock.now_ms() - 30_000)[0] == 2


def test_a_clock_that_jumps_back_keeps_filling_the_same_window() -> None:
    stat = WindowedStat()
    stat.record(1, 100_000)
    stat.record(3, 40_000)

    assert stat.summary(40_000) == (1, 3, 2)


def test_a_rate_looks_at_no_less_than_one_whole_window() -> None:
    clock, rate = FakeClock(), Rate()
    assert rate.per_second(clock.now_ms()) == 0

    rate.record(300, clock.now_ms())
    assert rate.per_second(clock.now_ms()) == pytest.approx(10)
    clock.advance(10)
    assert rate.per_second(clock.now_ms()) == pytest.approx(300 / 40)


def test_a_steady_rate_is_shown_as_it_is() -> None:
    clock, rate = FakeClock(), Rate()
    for _ in range(200):
        rate.record(70, clock.now_ms())
        clock.advance(1)

    # Between one and two windows: the count of the seconds in them, over their length.
    assert rate.per_second(clock.now_ms()) == pytest.approx(70)


def test_a_rate_falls_to_zero_when_nothing_comes_any_more() -> None:
    clock, rate = FakeClock(), Rate()
    rate.record(70, clock.now_ms())
    clock.advance(60)

    assert rate.per_second(clock.now_ms()) == 0


def test_outcomes_are_shares_of_the_attempts_of_the_windows() -> None:
    clock, outcomes = FakeClock(), Outcomes()
    assert outcomes.shares(clock.now_ms()) == (0, 0)

    for success in (True, True, False, True):
        outcomes.record(success, clock.now_ms())
    assert outcomes.shares(clock.now_ms()) == (0.75, 0.25)

    clock.advance(60)
    assert outcomes.shares(clock.now_ms()) == (0, 0)
