"""The engine thread gives each task its turns, and no task can keep the others from theirs."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterator

import pytest

from connect.clock import SYSTEM_CLOCK, Deadline
from connect.runtime.tasks.engine_thread import EngineThread
from connect.runtime.tasks.turn_loan import TurnLoan
from tests.support.fake_clock import FakeClock
from tests.support.waiting import wait_until

TIMEOUT_S = 10.0
LONG_S = 1_000.0


class Work:
    """A task with a descriptor. It is ready while its socket has bytes; a turn reads one."""

    def __init__(self, name: str, taken: list[str]) -> None:
        self.loan = TurnLoan(name, self._turn)
        self.meanwhile: Callable[[], None] = lambda: None
        self.due_in_s = LONG_S
        self.threads: list[str] = []
        self._taken = taken
        self._ours, self._theirs = socket.socketpair()
        self._ours.setblocking(False)

    @property
    def turns(self) -> int:
        return self._taken.count(self.loan.name)

    def fileno(self) -> int:
        return self._ours.fileno()

    def offer(self, turns: int = 1) -> None:
        """Have something to do for so many turns."""
        self._theirs.send(bytes(turns))

    def wait(self, turns: int) -> None:
        wait_until(lambda: self.turns >= turns, TIMEOUT_S, f"{turns} turns of {self.loan.name}")

    def _turn(self) -> float:
        self.threads.append(threading.current_thread().name)
        try:
            self._ours.recv(1)
        except BlockingIOError:
            """It is only due."""
        self._taken.append(self.loan.name)
        self.meanwhile()
        return self.due_in_s

    def close(self) -> None:
        self._ours.close()
        self._theirs.close()


class Stop:
    """Stops whoever calls it, until `open`."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self.open = threading.Event()

    def __call__(self) -> None:
        self.reached.set()
        assert self.open.wait(TIMEOUT_S)


@pytest.fixture
def taken() -> list[str]:
    """The names of the tasks that had turns, in order."""
    return []


@pytest.fixture
def works(taken: list[str]) -> Iterator[list[Work]]:
    made = [Work(name, taken) for name in "abc"]
    yield made
    for work in made:
        work.close()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def engine(clock: FakeClock) -> Iterator[EngineThread]:
    made = EngineThread("the engine", clock)
    yield made
    assert made.close(Deadline(TIMEOUT_S))


def lend(engine: EngineThread, *works: Work) -> None:
    for work in works:
        assert engine.lend(work.loan, work.fileno())
    for work in works:
        work.wait(1)  # The first turn is due at once.


def test_one_thread_takes_the_turns_of_all(engine: EngineThread, works: list[Work]) -> None:
    lend(engine, *works)
    assert {name for work in works for name in work.threads} == {"the engine"}


def test_a_task_gets_turns_while_its_descriptor_is_readable(
    engine: EngineThread, works: list[Work], taken: list[str]
) -> None:
    lend(engine, *works)
    works[1].offer(5)
    works[1].wait(6)
    assert (works[0].turns, works[2].turns) == (1, 1)


def test_a_task_gets_a_turn_when_it_is_due(
    engine: EngineThread, works: list[Work], clock: FakeClock
) -> None:
    works[0].due_in_s = 7.0
    lend(engine, *works)
    clock.advance(6.9)
    works[1].offer()  # Whoever is due has a turn in the same round.
    works[1].wait(2)
    assert works[0].turns == 1
    clock.advance(0.2)
    works[1].offer()
    works[0].wait(2)


def test_no_task_has_two_turns_before_the_others_that_are_ready(
    engine: EngineThread, works: list[Work], taken: list[str]
) -> None:
    lend(engine, *works)
    stop = Stop()
    works[0].meanwhile = stop
    works[0].offer(30)
    assert stop.reached.wait(TIMEOUT_S)
    for work in works:
        work.offer(30)
    del taken[:]
    stop.open.set()
    works[1].wait(30)
    works[2].wait(30)
    assert [set(taken[at : at + 3]) for at in range(0, 90, 3)] == [set("abc")] * 30


def test_turns_that_are_back_are_not_taken(engine: EngineThread, works: list[Work]) -> None:
    lend(engine, *works)
    works[0].loan.ask_back()
    works[0].offer()
    works[1].offer(3)
    works[1].wait(4)
    assert works[0].turns == 1


def test_a_task_may_close_its_descriptor_once_its_turns_are_back(
    engine: EngineThread, works: list[Work], taken: list[str]
) -> None:
    lend(engine, *works)
    works[0].loan.ask_back()
    assert works[0].loan.wait_back(TIMEOUT_S)
    works[0].close()
    # Its number is free now, so the next task may get it.
    other = Work("d", taken)
    lend(engine, other)
    other.offer(2)
    other.wait(3)
    assert works[0].turns == 1
    other.loan.ask_back()
    other.close()


def test_turns_are_lent_again(engine: EngineThread, works: list[Work]) -> None:
    lend(engine, *works)
    for _ in range(3):
        works[0].loan.ask_back()
        assert works[0].loan.wait_back(TIMEOUT_S)
        had = works[0].turns
        assert engine.lend(works[0].loan, works[0].fileno())
        works[0].wait(had + 1)


def test_the_others_go_on_after_a_turn_that_raises(engine: EngineThread, works: list[Work]) -> None:
    lend(engine, *works)

    def fail() -> None:
        raise ValueError("no further")

    works[0].meanwhile = fail
    works[0].offer(2)
    wait_until(lambda: works[0].loan.back, TIMEOUT_S, "the end of the loan")
    works[1].offer()
    works[1].wait(2)
    with pytest.raises(ValueError, match="no further"):
        works[0].loan.wait_back(0.0)
    assert works[0].turns == 2


def test_the_others_get_another_thread_when_a_turn_blocks(
    engine: EngineThread, works: list[Work], clock: FakeClock, caplog: pytest.LogCaptureFixture
) -> None:
    lend(engine, *works)
    stop = Stop()
    works[0].meanwhile = stop
    works[0].offer()
    assert stop.reached.wait(TIMEOUT_S)
    engine.relieve()  # Not for a turn of milliseconds.
    works[1].offer()
    assert works[1].turns == 1
    clock.advance(60.0)
    engine.relieve()
    works[1].wait(2)
    works[2].offer()
    works[2].wait(2)
    assert "Task a has blocked the engine thread" in caplog.text
    assert "in _turn" in caplog.text
    # The blocked task is not given up.
    works[0].meanwhile = lambda: None
    stop.open.set()
    works[0].offer()
    works[0].wait(3)


def test_a_closed_engine_thread_gives_the_turns_back_and_takes_none(works: list[Work]) -> None:
    engine = EngineThread("the engine")
    lend(engine, *works[:2])
    assert engine.close(Deadline(TIMEOUT_S))
    assert [work.loan.wait_back(TIMEOUT_S) for work in works[:2]] == [True, True]
    assert not engine.lend(works[2].loan, works[2].fileno())
    assert works[2].loan.back


def test_without_a_loan_there_is_no_thread() -> None:
    engine = EngineThread("the engine nobody needs", SYSTEM_CLOCK)
    assert not [t for t in threading.enumerate() if t.name == "the engine nobody needs"]
    assert engine.close(Deadline(TIMEOUT_S))


def test_a_task_that_cannot_be_watched_keeps_its_turns(
    engine: EngineThread, works: list[Work]
) -> None:
    with open(os.devnull) as file:
        assert engine.lend(works[0].loan, file.fileno())
        assert works[0].loan.wait_back(TIMEOUT_S)
    assert works[0].turns == 0
    closed = works[1].fileno()
    works[1].close()
    assert not engine.lend(works[1].loan, closed)
    assert works[1].loan.back
