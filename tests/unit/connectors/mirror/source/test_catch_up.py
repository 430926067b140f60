"""A process has caught up when no task lags behind; it is asked by work that can wait."""

from __future__ import annotations

from dataclasses import dataclass

from connectors.mirror.source.catch_up import CatchUp
from tests.support.fake_clock import FakeClock

LONG = 600.0


@dataclass
class Partition:
    lag: int | None


def test_the_process_copies_until_every_task_has_caught_up_once() -> None:
    clock = FakeClock()
    every = CatchUp(clock)
    first, second = every.begin(clock), every.begin(clock)
    clock.advance(40)
    first.look([Partition(0), Partition(0)])
    second.look([Partition(0), Partition(7)])
    assert every.copying(LONG)
    clock.advance(2)
    second.look([Partition(0), Partition(0)])
    assert not every.copying(LONG)


def test_a_partition_whose_lag_is_unknown_has_not_caught_up() -> None:
    clock = FakeClock()
    every = CatchUp(clock)
    task = every.begin(clock)
    clock.advance(40)
    task.look([Partition(None)])
    assert every.copying(LONG)


def test_tasks_that_start_later_are_not_waited_for() -> None:
    clock = FakeClock()
    every = CatchUp(clock)
    every.begin(clock).close()
    clock.advance(40)
    assert not every.copying(LONG)
    every.begin(clock)
    assert not every.copying(LONG)


def test_the_first_tasks_are_waited_for() -> None:
    clock = FakeClock()
    every = CatchUp(clock)
    clock.advance(5)
    assert every.copying(LONG), "tasks may be about to start"
    clock.advance(30)
    assert not every.copying(LONG), "this process has none"


def test_the_wait_is_bounded() -> None:
    clock = FakeClock()
    every = CatchUp(clock)
    every.begin(clock)
    clock.advance(299)
    assert every.copying(300.0)
    clock.advance(2)
    assert not every.copying(300.0)
