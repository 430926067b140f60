"""Signals of command-line programs: the first asks for a clean stop, the second ends at once."""

from __future__ import annotations

import os
import signal
import threading
from types import FrameType

__all__ = ["StopSignal"]


class StopSignal:
    """Catches SIGTERM and SIGINT from its making on. Made on the main thread."""

    def __init__(self) -> None:
        self._asked = False
        # Held until then. Not an Event: a handler runs wherever the main thread is, also where that
        # holds the Event's own lock, for which `set` would wait for ever.
        self._gate = threading.Lock()
        self._gate.acquire()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._handle)

    def wait(self, timeout: float) -> bool:
        """Wait at most `timeout` seconds; whether a stop was asked for."""
        if not self._asked and self._gate.acquire(timeout=timeout):
            self._gate.release()
        return self._asked

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self._asked:
            # The user does not want to wait: no cleanup, and the exit code a shell expects.
            os._exit(128 + number)
        self._asked = True
        self._gate.release()
