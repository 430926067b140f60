"""The turns of a task have one holder at each moment, whoever asks for what."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from connect.clock import SYSTEM_CLOCK
from connect.errors import ConnectError
from connect.runtime.tasks.turn_loan import Holder, TurnLoan
from tests.support.fake_clock import FakeClock

TIMEOUT_S = 10.0
HERE = threading.current_thread()


class Turn:
    """A turn that does what the test wants, while it runs."""

    def __init__(self) -> None:
        self.taken = 0
        self.meanwhile: Callable[[], None] = lambda: None
        self.due_in_s = 0.0

    def __call__(self) -> float:
        self.taken += 1
        self.meanwhile()
        return self.due_in_s


@pytest.fixture
def turn() -> Turn:
    return Turn()


@pytest.fixture
def returns() -> list[None]:
    """An entry for each time that the task got its turns back."""
    return []


@pytest.fixture
def loan(turn: Turn, returns: list[None]) -> TurnLoan:
    return TurnLoan("c-0", turn, lambda: returns.append(None))


def take_turn(loan: TurnLoan) -> bool:
    return loan.take_turn(SYSTEM_CLOCK, HERE)


def test_the_task_holds_its_turns_until_it_lends_them(loan: TurnLoan, turn: Turn) -> None:
    assert not take_turn(loan)
    assert (turn.taken, loan.holder) == (0, Holder.TASK)


def test_lent_turns_are_taken_one_after_another(loan: TurnLoan, turn: Turn) -> None:
    loan.lend()
    assert take_turn(loan)
    assert take_turn(loan)
    assert (turn.taken, loan.holder) == (2, Holder.ENGINE)


def test_a_turn_says_when_the_next_is_due(turn: Turn) -> None:
    clock, loan = FakeClock(), TurnLoan("c-0", turn)
    loan.lend()
    assert loan.due_at < clock.monotonic()
    turn.due_in_s = 2.5
    loan.take_turn(clock, HERE)
    assert loan.due_at == clock.monotonic() + 2.5
    # What the task does meanwhile may change that.
    loan.ask_back()
    loan.lend()
    assert loan.due_at < clock.monotonic()


def test_asked_back_between_turns_it_is_back_at_once(
    loan: TurnLoan, turn: Turn, returns: list[None]
) -> None:
    loan.lend()
    loan.ask_back()
    assert loan.wait_back(0.0)
    assert not take_turn(loan)
    assert (turn.taken, len(returns)) == (0, 1)


def test_asked_back_during_a_turn_it_is_back_after_it(
    loan: TurnLoan, turn: Turn, returns: list[None]
) -> None:
    seen = []

    def ask_back() -> None:
        loan.ask_back()
        loan.ask_back()
        seen.append((loan.holder, loan.taken_by, loan.wait_back(0.0), len(returns)))

    turn.meanwhile = ask_back
    loan.lend()
    assert not take_turn(loan)
    assert seen == [(Holder.RECALLED, HERE, False, 0)]
    assert loan.wait_back(0.0)
    assert (loan.holder, loan.taken_by, len(returns)) == (Holder.TASK, None, 1)


@pytest.mark.parametrize("recalled", [False, True])
def test_the_error_of_a_turn_is_the_tasks_once(
    loan: TurnLoan, turn: Turn, returns: list[None], recalled: bool
) -> None:
    def fail() -> None:
        if recalled:
            loan.ask_back()
        raise ConnectError("no further")

    turn.meanwhile = fail
    loan.lend()
    assert not take_turn(loan)
    assert (loan.holder, len(returns)) == (Holder.TASK, 1)
    with pytest.raises(ConnectError, match="no further"):
        loan.wait_back(0.0)
    assert loan.wait_back(0.0)


def test_the_task_waits_for_a_turn_that_runs(loan: TurnLoan, turn: Turn) -> None:
    began, may_end = threading.Event(), threading.Event()

    def wait() -> None:
        began.set()
        assert may_end.wait(TIMEOUT_S)

    turn.meanwhile = wait
    loan.lend()
    engine = threading.Thread(target=lambda: take_turn(loan))
    engine.start()
    assert began.wait(TIMEOUT_S)
    loan.ask_back()
    assert not loan.wait_back(0.0)
    may_end.set()
    assert loan.wait_back(TIMEOUT_S)
    engine.join(TIMEOUT_S)
    assert not take_turn(loan)


def test_lent_turns_cannot_be_lent_again(loan: TurnLoan) -> None:
    loan.lend()
    with pytest.raises(ConnectError, match="Cannot lend for task c-0 while its turns are with"):
        loan.lend()


def test_turns_that_are_not_lent_may_be_asked_back(loan: TurnLoan, returns: list[None]) -> None:
    loan.ask_back()
    assert loan.back
    assert returns == []
