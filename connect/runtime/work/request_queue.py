"""Requests to a herder's thread, ordered by due time and answered through futures."""

from __future__ import annotations

import heapq
import itertools
import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from typing import TypeVar

from connect.clock import Clock
from connect.errors import ConnectError, DeadlineExceeded
from connect.futures import run_into

__all__ = ["RequestQueue"]

_log = logging.getLogger(__name__)

T = TypeVar("T")


class RequestQueue:
    """A queue of requests. `take` and `close` are for the serving thread, the rest is thread-safe.

    `wake` is called after a request was added.
    """

    def __init__(self, wake: Callable[[], None], clock: Clock) -> None:
        self._wake = wake
        self._clock = clock
        self._lock = threading.Lock()
        self._heap: list[tuple[float, int, Callable[[], None], Callable[[ConnectError], None]]] = []
        self._numbers = itertools.count()
        self._closed: ConnectError | None = None

    def submit(self, request: Callable[[], T], delay_s: float = 0.0) -> Future[T]:
        """Queue a request with a delay. The future gets its result or error.

        It fails at once if the queue is closed.
        """
        answer: Future[T] = Future()

        def run() -> None:
            if answer.set_running_or_notify_cancel():
                run_into(answer, request)

        def refuse(error: ConnectError) -> None:
            if answer.set_running_or_notify_cancel():
                answer.set_exception(error)

        with self._lock:
            closed = self._closed
            if closed is None:
                due = self._clock.monotonic() + delay_s
                heapq.heappush(self._heap, (due, next(self._numbers), run, refuse))
        if closed is None:
            self._wake()
        else:
            refuse(closed)
        return answer

    def run(self, request: Callable[[], T], timeout_s: float, late: Callable[[], str]) -> T:
        """Run a request now. Return its result or raise its error.

        Raises `DeadlineExceeded` with the text of `late` after the timeout; a request that has not
        started by then is dropped.
        """
        answer = self.submit(request)
        try:
            return answer.result(timeout_s)
        except FutureTimeout as error:
            if answer.done():
                raise
            answer.cancel()
            raise DeadlineExceeded(late()) from error

    def post(self, delay_s: float, command: Callable[[], None]) -> None:
        """Run a request after the delay without waiting. Errors are logged."""

        def step() -> None:
            try:
                command()
            except Exception as error:  # noqa: BLE001 - the top of a herder's thread
                _log.error("A step of the herder failed: %s", error, exc_info=error)

        self.submit(step, delay_s)

    def take(self, due_by: float | None = None) -> Callable[[], None] | None:
        """Return the next request that was due at time `due_by` of `clock.monotonic`, or None."""
        now = self._clock.monotonic() if due_by is None else due_by
        with self._lock:
            if self._heap and self._heap[0][0] <= now:
                return heapq.heappop(self._heap)[2]
            return None

    def next_due_s(self) -> float | None:
        """Return the seconds until the next request is due (0 if one is), or None if there is
        none.
        """
        with self._lock:
            if not self._heap:
                return None
            return max(0.0, self._heap[0][0] - self._clock.monotonic())

    def close(self, error: ConnectError) -> None:
        """Fail all waiting and later requests with this error."""
        with self._lock:
            self._closed = error
            left = [refuse for _, _, _, refuse in self._heap]
            self._heap.clear()
        for refuse in left:
            refuse(error)
