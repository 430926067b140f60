"""Functions that run on a thread of their own, tracked by one owner until they end.

For work that waits on one network peer, so that a peer that hangs delays nothing else.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from connect.clock import Deadline
from connect.errors import BrokerUnavailable
from connect.log_fields import OwnedThread

__all__ = ["OneShotThreads"]

T = TypeVar("T")


class OneShotThreads:
    """Starts one-shot threads and waits for them. Safe to call from any thread."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._threads: set[threading.Thread] = set()
        self._closed = False

    def run(
        self, what: str, function: Callable[[], T], discard: Callable[[T], None] | None = None
    ) -> Future[T]:
        """Run `function` on a new thread, which completes the future.

        `discard` gets the result if the owner closed meanwhile, so that nobody can take it.
        """
        future: Future[T] = Future()
        thread = OwnedThread(lambda: self._work(future, function, discard), f"{self._name}-{what}")
        with self._lock:
            if not self._closed:
                thread.start()
                self._threads.add(thread)
                return future
        future.set_exception(BrokerUnavailable(f"{self._name} is closed"))
        return future

    def runs_here(self) -> bool:
        """Return whether the caller runs on a thread that `run` started."""
        with self._lock:
            return threading.current_thread() in self._threads

    def stop(self) -> None:
        """Refuse to start more threads."""
        with self._lock:
            self._closed = True

    def join(self, deadline: Deadline) -> list[str]:
        """Wait for all threads to end. Return the names of those that did not."""
        with self._lock:
            threads = list(self._threads)
        for thread in threads:
            thread.join(deadline.remaining())
        return [thread.name for thread in threads if thread.is_alive()]

    def _work(
        self, future: Future[T], function: Callable[[], T], discard: Callable[[T], None] | None
    ) -> None:
        try:
            if not future.set_running_or_notify_cancel():
                return
            try:
                result = function()
            except Exception as error:  # noqa: BLE001 - the future carries it to its owner
                future.set_exception(error)
                return
            if self._closed and discard is not None:
                discard(result)
                future.set_exception(BrokerUnavailable(f"{self._name} is closed"))
            else:
                future.set_result(result)
        finally:
            with self._lock:
                self._threads.discard(threading.current_thread())
