"""Statuses move only along the table, and everybody hears of it in order."""

from __future__ import annotations

import itertools

import pytest

from connect.runtime.states import (
    ALLOWED_MOVES,
    InstanceId,
    InvalidTransition,
    State,
    Status,
    StatusBook,
)
from tests.support.fake_clock import FakeClock

TASK = InstanceId("c", 0)


@pytest.fixture
def book() -> StatusBook:
    return StatusBook("worker-1", FakeClock(1000))


def test_the_table_has_every_state() -> None:
    assert set(ALLOWED_MOVES) == {None, *State}


def test_nothing_leaves_destroyed_and_only_restart_stop_move_or_delete_leave_failed() -> None:
    assert ALLOWED_MOVES[State.DESTROYED] == frozenset()
    assert State.RUNNING not in ALLOWED_MOVES[State.FAILED]
    assert State.RESTARTING in ALLOWED_MOVES[State.FAILED]


@pytest.mark.parametrize(("before", "after"), list(itertools.product(State, State)))
def test_moves_follow_the_table(before: State, after: State) -> None:
    if before is after or before not in ALLOWED_MOVES[None]:
        return
    book = StatusBook("w", FakeClock())
    book.move(TASK, before)
    if after in ALLOWED_MOVES[before]:
        book.move(TASK, after)
        status = book.get(TASK)
        assert status is not None
        assert status.state is after
    else:
        with pytest.raises(InvalidTransition):
            book.move(TASK, after)
    book.validate()


def test_a_refused_move_tells_the_history(book: StatusBook) -> None:
    book.move(TASK, State.RUNNING)
    book.move(TASK, State.FAILED, "why")
    with pytest.raises(
        InvalidTransition, match="c-0 cannot become RUNNING; its states so far: RUNNING -> FAILED"
    ):
        book.move(TASK, State.RUNNING)


def test_a_status_has_its_time_worker_and_trace() -> None:
    clock = FakeClock(1000)
    book = StatusBook("worker-1", clock)
    book.move(TASK, State.RUNNING)
    clock.advance(2)
    book.move(TASK, State.FAILED, "it broke")
    assert book.get(TASK) == Status(State.FAILED, "worker-1", 3000, "it broke")


def test_the_same_state_again_is_no_news(book: StatusBook) -> None:
    heard: list[tuple[InstanceId, State]] = []
    book = StatusBook("w", FakeClock(), lambda who, status: heard.append((who, status.state)))
    book.move(TASK, State.RUNNING)
    book.move(TASK, State.RUNNING)
    assert heard == [(TASK, State.RUNNING)]


def test_forgetting_is_heard_as_destroyed_and_the_name_is_free_again() -> None:
    heard: list[State] = []
    book = StatusBook("w", FakeClock(), lambda _, status: heard.append(status.state))
    book.move(TASK, State.FAILED, "x")
    book.forget(TASK)
    assert book.get(TASK) is None
    book.move(TASK, State.RUNNING)
    assert heard == [State.FAILED, State.DESTROYED, State.RUNNING]


def test_tasks_are_listed_by_number(book: StatusBook) -> None:
    for number in (2, 0, 10):
        book.move(InstanceId("c", number), State.RUNNING)
    book.move(InstanceId("c"), State.RUNNING)
    book.move(InstanceId("d", 1), State.RUNNING)
    assert list(book.tasks_of("c")) == [0, 2, 10]


def test_instances_print_as_in_kafka_connect() -> None:
    assert (str(InstanceId("c")), str(TASK)) == ("c", "c-0")


def test_a_running_instance_can_say_what_does_not_move() -> None:
    told: list[Status] = []
    clock = FakeClock(1000)
    book = StatusBook("worker-1", clock, lambda _, status: told.append(status))
    book.move(TASK, State.RUNNING)
    clock.advance(5.0)
    for trace in ("t-0 stands still", "t-0 stands still", None):
        book.annotate(TASK, trace)
    assert [status.trace for status in told] == [None, "t-0 stands still", None]
    assert {status.state for status in told} == {State.RUNNING}
    assert len({status.since_ms for status in told}) == 1
    book.validate()

    book.move(TASK, State.FAILED, "the real trouble")
    book.annotate(TASK, "t-0 stands still")
    assert told[-1].trace == "the real trouble"
