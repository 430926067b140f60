"""Signal handling of command-line programs: the first SIGTERM or SIGINT requests a clean stop, the
second ends at once. SIGHUP asks a program that runs without a terminal to read its file again."""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType

__all__ = ["HangupSignal", "StopEvent", "StopSignal"]


class StopEvent:
    """An event that a signal handler sets once. Any thread may wait for it.

    Unlike `threading.Event`, it is safe in a signal handler: a handler may interrupt the main
    thread while that holds the Event's lock, and `set` would then deadlock.
    """

    def __init__(self) -> None:
        self._set = False
        # Locked until `set` releases it.
        self._gate = threading.Lock()
        self._gate.acquire()

    def set(self) -> None:
        """Set the event without blocking. Only for signal handlers, which never run
        concurrently."""
        if not self._set:
            self._set = True
            self._gate.release()

    def is_set(self) -> bool:
        return self._set

    def wait(self, timeout: float) -> bool:
        """Wait at most `timeout` seconds; return whether the event is set."""
        if not self._set and self._gate.acquire(timeout=timeout):
            self._gate.release()
        return self._set


class StopSignal:
    """Catches SIGTERM and SIGINT from construction on. Create it on the main thread."""

    def __init__(self) -> None:
        self._asked = StopEvent()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._handle)

    def wait(self, timeout: float) -> bool:
        """Wait at most `timeout` seconds; return whether a stop was requested."""
        return self._asked.wait(timeout)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self._asked.is_set():
            # The second signal skips the cleanup, with the exit code that shells expect.
            os._exit(128 + number)
        self._asked.set()


class HangupSignal:
    """Catches SIGHUP from construction on. Create it on the main thread.

    In a terminal the signal keeps its meaning, that the terminal was closed. Where it is ignored
    (nohup), it stays so.
    """

    def __init__(self) -> None:
        self._asked = False
        ignored = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
        if not ignored and not os.isatty(0):
            signal.signal(signal.SIGHUP, self._handle)

    def taken(self) -> bool:
        """Whether the signal arrived since the last call."""
        asked, self._asked = self._asked, False
        return asked

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self._asked = True
