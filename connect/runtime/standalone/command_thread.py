"""A thread that runs commands in order of their due time, and so owns a herder's state."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

from connect.clock import SYSTEM_CLOCK, Clock
from connect.errors import ConnectError
from connect.log_fields import OwnedThread
from connect.runtime.work.request_queue import RequestQueue

__all__ = ["CommandThread"]

T = TypeVar("T")

_IDLE_S = 60.0


class CommandThread:
    """Runs commands by due time, and in order of arrival at the same time. Thread-safe.

    Its owner calls `start` and `stop` once each.
    """

    def __init__(self, name: str, clock: Clock = SYSTEM_CLOCK) -> None:
        self._name = name
        self._wakeup = threading.Event()
        self._queue = RequestQueue(self._wakeup.set, clock)
        self._stopping = False
        self._thread = OwnedThread(self._main, name)

    def start(self) -> None:
        self._thread.start()

    def run(self, command: Callable[[], T], timeout_s: float) -> T:
        """Run a command as `RequestQueue.run` does."""
        return self._queue.run(
            command, timeout_s, lambda: f"{self._name} did not answer within {timeout_s:g} s"
        )

    def post(self, delay_s: float, command: Callable[[], None]) -> None:
        """Run a command later as `RequestQueue.post` does."""
        self._queue.post(delay_s, command)

    def stop(self, timeout: float) -> bool:
        """Refuse more commands, drop pending ones, and end. Return False if one is still
        running.
        """
        self._stopping = True
        self._queue.close(ConnectError(f"{self._name} is shutting down"))
        self._wakeup.set()
        if self._thread.ident is None or self._thread is threading.current_thread():
            return True
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def _main(self) -> None:
        while not self._stopping:
            self._wakeup.clear()
            while (command := self._queue.take()) is not None:
                command()
            due_s = self._queue.next_due_s()
            self._wakeup.wait(_IDLE_S if due_s is None else min(due_s, _IDLE_S))
