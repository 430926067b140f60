"""Signals of command-line programs: the first asks for a clean stop, the second ends at once."""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType

__all__ = ["StopEvent", "StopSignal"]


class StopEvent:
    """Set once, by a signal handler; waited for on any thread.

    Not `threading.Event`: a handler runs wherever the main thread is, also where that holds the
    Event's own lock, for which `set` would wait for ever.
    """

    def __init__(self) -> None:
        self._set = False
        # Held until then.
        self._gate = threading.Lock()
        self._gate.acquire()

    def set(self) -> None:
        """Waits for nothing. Only for signal handlers, which run one after the other."""
        if not self._set:
            self._set = True
            self._gate.release()

    def is_set(self) -> bool:
        return self._set

    def wait(self, timeout: float) -> bool:
        """Wait at most `timeout` seconds; whether it is set."""
        if not self._set and self._gate.acquire(timeout=timeout):
            self._gate.release()
        return self._set


class StopSignal:
    """Catches SIGTERM and SIGINT from its making on. Made on the main thread."""

    def __init__(self) -> None:
        self._asked = StopEvent()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._handle)

    def wait(self, timeout: float) -> bool:
        """Wait at most `timeout` seconds; whether a stop was asked for."""
        return self._asked.wait(timeout)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self._asked.is_set():
            # The user does not want to wait: no cleanup, and the exit code a shell expects.
            os._exit(128 + number)
        self._asked.set()
