"""After a rebalance: who reads on, who joins again, who begins."""

import pytest

from connect.runtime.distributed.rebalance_plan import (
    Absence,
    AfterRebalance,
    NextStep,
    UnsyncBackoff,
)

START, READ, REJOIN = NextStep.START_WORK, NextStep.READ_TO_END, NextStep.REJOIN


def after(
    *, failed: bool = False, offset: int = 7, leader: bool = False, due: bool = False
) -> AfterRebalance:
    return AfterRebalance(failed, offset, leader, due)


@pytest.mark.parametrize(
    ("state", "offset", "step", "then"),
    [
        (after(), 7, START, START),
        (after(), 6, READ, REJOIN),
        (after(), 8, REJOIN, REJOIN),
        (after(due=True), 7, REJOIN, REJOIN),
        (after(due=True), 6, READ, REJOIN),
        (after(failed=True), 7, REJOIN, REJOIN),
        (after(failed=True), 6, READ, REJOIN),
        (after(failed=True, leader=True), 7, READ, REJOIN),
        (after(failed=True, leader=True), 9, READ, REJOIN),
    ],
)
def test_what_comes_next(
    state: AfterRebalance, offset: int, step: NextStep, then: NextStep
) -> None:
    """`then`: when reading on has brought nothing new."""
    assert state.next_step(offset) is step
    assert state.next_step(offset, read_on=True) is then


def test_who_was_behind_begins_after_reading_exactly_as_far_as_the_others() -> None:
    state = after(offset=7)
    assert state.next_step(7, read_on=True) is START
    assert state.next_step(8, read_on=True) is REJOIN


def test_waits_of_a_worker_that_cannot_read_are_those_of_java() -> None:
    backoff = UnsyncBackoff(300.0, 300_000)
    waits = [backoff.next(eager=False) for _ in range(7)]
    assert waits == [6.0, 7.5, 10.0, 15.0, 30.0, None, 6.0]


def test_a_reading_that_works_begins_the_waits_anew() -> None:
    backoff = UnsyncBackoff(300.0, 300_000)
    assert [backoff.next(eager=False) for _ in range(2)] == [6.0, 7.5]
    backoff.reset()
    assert backoff.next(eager=False) == 6.0


def test_an_eager_worker_always_waits_as_long_as_its_config_says() -> None:
    backoff = UnsyncBackoff(12.5, 300_000)
    assert [backoff.next(eager=True) for _ in range(8)] == [12.5] * 8


def test_without_a_delay_nothing_is_waited_for_but_work_is_given_up_all_the_same() -> None:
    backoff = UnsyncBackoff(300.0, 0)
    assert [backoff.next(eager=False) for _ in range(6)] == [0.0] * 5 + [None]


@pytest.mark.parametrize(
    ("given_at_once", "scheduled_in_s", "kept_s"),
    [
        (False, None, 30),
        (False, 12.0, 12),
        (False, 60.0, 30),
        (False, -1.0, -1),
        (True, None, 0),
        (True, 12.0, 0),
    ],
)
def test_a_worker_keeps_its_work_until_the_delay_that_began_first_is_over(
    *, given_at_once: bool, scheduled_in_s: float | None, kept_s: float
) -> None:
    absence = Absence(30_000)
    absence.begin(100.0, given_at_once=given_at_once, scheduled_in_s=scheduled_in_s)
    absence.begin(105.0, given_at_once=False, scheduled_in_s=None)
    assert [absence.is_over(100.0 + kept_s - 0.1), absence.is_over(100.0 + kept_s)] == [False, True]
    absence.end()
    assert not absence.is_over(1_000.0)
