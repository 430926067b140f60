"""One thread that runs commands, now or later, in order: the owner of a herder's state."""

from __future__ import annotations

import heapq
import itertools
import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from typing import TypeVar

from connect.clock import SYSTEM_CLOCK, Clock
from connect.errors import ConnectError, DeadlineExceeded

__all__ = ["CommandThread"]

_log = logging.getLogger(__name__)

T = TypeVar("T")


class CommandThread:
    """Runs commands by their time, and in the order they came where that is the same. Safe to use
    from any thread; its owner calls `start` and `stop` once each."""

    def __init__(self, name: str, clock: Clock = SYSTEM_CLOCK) -> None:
        self._name = name
        self._clock = clock
        self._changed = threading.Condition()
        self._queue: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = itertools.count()
        self._stopping = False
        self._thread = threading.Thread(target=self._main, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def run(self, command: Callable[[], T], timeout: float) -> T:
        """Run a command on the thread and return its result, or raise its error. Raises
        `DeadlineExceeded` after `timeout` seconds; the command may still run then."""
        answer: Future[T] = Future()

        def step() -> None:
            if not answer.set_running_or_notify_cancel():
                return
            try:
                answer.set_result(command())
            except Exception as error:  # noqa: BLE001 - the caller gets the error
                answer.set_exception(error)

        if not self._add(0.0, step):
            raise ConnectError(f"{self._name} is shutting down")
        try:
            return answer.result(timeout)
        except FutureTimeout as error:
            if answer.done():
                raise
            answer.cancel()
            raise DeadlineExceeded(f"{self._name} did not answer within {timeout:g} s") from error

    def post(self, command: Callable[[], None], delay: float = 0.0) -> None:
        """Run a command after `delay` seconds; nobody waits for it, its errors are logged. Ignored
        when the thread is stopping."""

        def step() -> None:
            try:
                command()
            except Exception:  # noqa: BLE001 - the top of the herder's thread; the next must run
                _log.exception("A command of %s failed", self._name)

        self._add(delay, step)

    def stop(self, timeout: float) -> bool:
        """Take no more commands, drop those not yet due, and end. False: one is still running."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        if self._thread.ident is None or self._thread is threading.current_thread():
            return True
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def _add(self, delay: float, step: Callable[[], None]) -> bool:
        with self._changed:
            if self._stopping:
                return False
            due = self._clock.monotonic() + delay
            heapq.heappush(self._queue, (due, next(self._numbers), step))
            self._changed.notify_all()
        return True

    def _main(self) -> None:
        while True:
            step = self._next()
            if step is None:
                return
            step()

    def _next(self) -> Callable[[], None] | None:
        with self._changed:
            while True:
                now = self._clock.monotonic()
                if self._queue and self._queue[0][0] <= now:
                    return heapq.heappop(self._queue)[2]
                if self._stopping:
                    return None
                self._changed.wait(self._queue[0][0] - now if self._queue else None)
