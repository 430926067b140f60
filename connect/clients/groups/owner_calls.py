"""Calls from a group member's network thread to the thread that owns the member.

Only `OwnerCalls.next` and `OwnerCalls.take_interrupt` run on the owner's thread.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Any

from kafka.future import Future
from kafka.net.selector import NetworkSelector

__all__ = ["OwnerCalls"]


class OwnerCalls:
    """Passes calls from the network thread to the owner's thread, and the results back."""

    def __init__(self, selector: NetworkSelector) -> None:
        self._selector = selector
        self._calls: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._interrupted = threading.Event()

    async def run(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function on the owner's thread when it waits next, and await the result."""
        done = Future()

        def call() -> None:
            try:
                result = function(*arguments)
            except BaseException as error:
                failure = error
                self._selector.call_soon_threadsafe(lambda: done.failure(failure))
                if not isinstance(error, Exception):
                    raise
            else:
                self._selector.call_soon_threadsafe(lambda: done.success(result))

        self._calls.put(call)
        return await done

    def wake(self) -> None:
        """End the owner's wait. Thread-safe."""
        self._calls.put(None)

    def interrupt(self) -> None:
        """End the owner's wait, and have the next `take_interrupt` return True. Thread-safe."""
        self._interrupted.set()
        self.wake()

    def take_interrupt(self) -> bool:
        """Return whether there was an `interrupt` since the last call that returned True."""
        if not self._interrupted.is_set():
            # Not cleared: another thread may interrupt right now.
            return False
        self._interrupted.clear()
        return True

    def next(self, timeout_s: float) -> bool:
        """Run one call, or consume one wake-up, on the owner's thread. Return whether there was one
        in time.
        """
        try:
            call = self._calls.get(timeout=timeout_s) if timeout_s > 0 else self._calls.get_nowait()
        except queue.Empty:
            return False
        if call is not None:
            call()
        return True
