"""A signal is heard whenever it comes: also in the middle of waiting for it."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from itertools import count
from types import FrameType
from typing import Any

import pytest

from api.cli.processes import stop_signals as stopping
from api.cli.processes.stop_signals import HangupSignal, StopSignal
from deploy.demo.stopping import Stop

# No test is given that long: a wait that no signal ends fails.
LONG_S = 1_000.0
_FILES = {stopping.__file__, threading.__file__}
Wait = Callable[[float], bool]


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    before = {number: signal.getsignal(number) for number in numbers}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


class SignalAt:
    """Raises SIGTERM before the nth line that the main thread runs of the wait."""

    def __init__(self, moment: int) -> None:
        self.raised = False
        self._left = moment

    def __call__(self, frame: FrameType, event: str, _: Any) -> Any:
        if event == "line" and frame.f_code.co_filename in _FILES and not self.raised:
            self._left -= 1
            if self._left < 0:
                self.raised = True
                signal.raise_signal(signal.SIGTERM)
        return self


def commands() -> Wait:
    return StopSignal().wait


def demo() -> Wait:
    stop = Stop()
    stop.install()
    return stop.event.wait


@pytest.mark.timeout(20)
@pytest.mark.parametrize("begin", [commands, demo])
def test_a_signal_at_any_moment_of_the_wait_is_heard(begin: Callable[[], Wait]) -> None:
    before = sys.gettrace()
    for moment in count():
        wait = begin()
        at = SignalAt(moment)
        sys.settrace(at)
        try:
            wait(0.01)
        finally:
            sys.settrace(before)
        if not at.raised:
            break
        assert wait(0.0), f"the signal before line {moment} of the wait"
    assert moment > 1


def test_nobody_asked() -> None:
    assert not StopSignal().wait(0.01)


def test_a_signal_ends_the_wait() -> None:
    stop = StopSignal()
    # To the process, as others send it: raised here, it would be the timer's thread's.
    timer = threading.Timer(0.1, lambda: os.kill(os.getpid(), signal.SIGTERM))
    timer.start()
    assert stop.wait(LONG_S)
    timer.join()
    assert stop.wait(LONG_S), "and every later one"


def test_a_hangup_is_taken_once_where_there_is_no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    monkeypatch.setattr(os, "isatty", lambda _: False)
    hangup = HangupSignal()
    assert not hangup.taken()
    signal.raise_signal(signal.SIGHUP)
    assert hangup.taken()
    assert not hangup.taken()


@pytest.mark.parametrize(
    ("terminal", "before"), [(True, signal.SIG_DFL), (False, signal.SIG_IGN)], ids=str
)
def test_a_hangup_keeps_its_meaning_in_a_terminal_and_under_nohup(
    monkeypatch: pytest.MonkeyPatch, terminal: bool, before: signal.Handlers
) -> None:
    signal.signal(signal.SIGHUP, before)
    monkeypatch.setattr(os, "isatty", lambda _: terminal)
    HangupSignal()
    assert signal.getsignal(signal.SIGHUP) is before
