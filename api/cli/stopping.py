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
        self._asked = threading.Event()
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
