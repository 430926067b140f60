"""Commands run one after the other, by their time, and callers hear of every end."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from connect.errors import ConnectError, DeadlineExceeded
from connect.runtime.standalone.command_thread import CommandThread

TIMEOUT_S = 10.0


@pytest.fixture
def commands() -> Iterator[CommandThread]:
    thread = CommandThread("herder")
    thread.start()
    yield thread
    assert thread.stop(TIMEOUT_S)


def test_a_command_returns_its_result_or_raises_its_error(commands: CommandThread) -> None:
    def fail() -> None:
        raise ConnectError("no")

    assert commands.run(lambda: 7, TIMEOUT_S) == 7
    with pytest.raises(ConnectError, match="no"):
        commands.run(fail, TIMEOUT_S)


def test_commands_of_the_same_time_keep_their_order(commands: CommandThread) -> None:
    ran: list[int] = []
    for number in range(100):
        commands.post(0.0, lambda number=number: ran.append(number))  # type: ignore[misc]
    commands.run(lambda: None, TIMEOUT_S)
    assert ran == list(range(100))


def test_a_later_command_does_not_hold_up_the_others(commands: CommandThread) -> None:
    ran: list[str] = []
    later = threading.Event()
    commands.post(0.05, later.set)
    commands.post(0.0, lambda: ran.append("first"))
    commands.run(lambda: None, TIMEOUT_S)
    assert ran == ["first"]
    assert later.wait(TIMEOUT_S)


def test_a_failing_posted_command_does_not_stop_the_next(
    commands: CommandThread, caplog: pytest.LogCaptureFixture
) -> None:
    def fail() -> None:
        raise ValueError("odd")

    commands.post(0.0, fail)
    assert commands.run(lambda: "still here", TIMEOUT_S) == "still here"
    assert "A step of the herder failed: odd" in caplog.text


def test_who_waits_too_long_is_told_and_the_command_is_dropped(commands: CommandThread) -> None:
    entered, leave = threading.Event(), threading.Event()
    ran: list[str] = []

    def hold() -> None:
        entered.set()
        leave.wait(TIMEOUT_S)

    commands.post(0.0, hold)
    assert entered.wait(TIMEOUT_S)
    with pytest.raises(DeadlineExceeded, match="did not answer within"):
        commands.run(lambda: ran.append("late"), 0.01)
    leave.set()
    commands.run(lambda: None, TIMEOUT_S)
    assert ran == []


def test_a_timeout_error_of_the_command_itself_is_its_result(commands: CommandThread) -> None:
    def fail() -> None:
        raise TimeoutError("inside")

    with pytest.raises(TimeoutError, match="inside"):
        commands.run(fail, TIMEOUT_S)


def test_a_stopping_thread_takes_no_more() -> None:
    thread = CommandThread("herder")
    thread.start()
    assert thread.stop(TIMEOUT_S)
    with pytest.raises(ConnectError, match="shutting down"):
        thread.run(lambda: None, TIMEOUT_S)
