"""The framework's only background loop and its only retry function.

A loop waits for a tick or a wake-up, runs one step, classifies its error, backs off and checks the
stop flag. `BackgroundLoop.turn` does this without a thread, so tests drive it with a `FakeClock`.
"""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Callable
from enum import Enum
from typing import TypeVar

from connect.clock import SYSTEM_CLOCK, Clock, Deadline
from connect.errors import ConnectError
from connect.log_fields import OwnedThread

__all__ = ["BackgroundLoop", "Backoff", "OnError", "backoff_s", "is_retriable", "retry"]

_log = logging.getLogger(__name__)

T = TypeVar("T")


# As in Java's clients: spreads out clients that lost the same broker at the same time.
_JITTER = 0.2
# 2**32 times any sensible first wait is above any sensible cap: no need to count on.
_MOST_DOUBLINGS = 32


def backoff_s(
    first_s: float,
    cap_s: float,
    earlier: int,
    spread: Callable[[float, float], float] = random.uniform,
) -> float:
    """Return the seconds to wait before the next try after `earlier` waits.

    The wait is `first_s`, doubled each time, with jitter, at most `cap_s`. `spread(low, high)`
    returns the jitter's factor.
    """
    doubled = min(cap_s, first_s * 2.0 ** min(earlier, _MOST_DOUBLINGS))
    return min(cap_s, doubled * spread(1 - _JITTER, 1 + _JITTER))


class Backoff:
    """Successive waits of `backoff_s`."""

    def __init__(
        self,
        initial: float,
        cap: float,
        spread: Callable[[float, float], float] = random.uniform,
    ) -> None:
        self._initial = initial
        self._cap = cap
        self._spread = spread
        self._failures = 0

    @property
    def failures(self) -> int:
        """The number of waits since the last reset."""
        return self._failures

    def next(self) -> float:
        """Return the next wait in seconds."""
        wait = backoff_s(self._initial, self._cap, self._failures, self._spread)
        self._failures += 1
        return wait

    def reset(self) -> None:
        self._failures = 0


def is_retriable(error: BaseException) -> bool:
    """Return whether the error's class says that a retry can help."""
    return isinstance(error, ConnectError) and error.retriable


def _pause(seconds: float) -> bool:
    return threading.Event().wait(seconds)


def retry(
    step: Callable[[], T],
    deadline: Deadline,
    backoff: Backoff,
    pause: Callable[[float], object] = _pause,
) -> T:
    """Call `step` until it returns, and retry retriable errors until the deadline.

    `pause(seconds)` waits. A true result (as of an event's `wait`) means that the caller is
    stopping. Raises the last error when the time is up or a stop was requested, and fatal errors at
    once.
    """
    while True:
        try:
            return step()
        except ConnectError as error:
            if not error.retriable or deadline.expired():
                raise
            if pause(min(backoff.next(), deadline.remaining())):
                raise


class OnError(Enum):
    """The action of a loop after a failed step."""

    RETRY = "retry"
    END = "end"


def _retry_if_retriable(error: Exception) -> OnError:
    return OnError.RETRY if is_retriable(error) else OnError.END


class BackgroundLoop:
    """Run `step` on an `OwnedThread`: at once, then every `interval_s`, and when woken.

    `classify` judges the error of a failed step: RETRY waits for the backoff, END ends the loop and
    calls `on_end` with the error on the loop's thread. The first failure in a row is logged as a
    warning and later ones at debug; the recovery is logged too. `start`, `wake` and `stop` are safe
    from any thread; the owner calls `start` and `stop` once each.
    """

    def __init__(
        self,
        name: str,
        step: Callable[[], None],
        *,
        interval_s: float,
        backoff: Backoff | None = None,
        classify: Callable[[Exception], OnError] = _retry_if_retriable,
        on_end: Callable[[Exception], None] | None = None,
        clock: Clock = SYSTEM_CLOCK,
        on_skipped: Callable[[int], None] | None = None,
        on_trouble: Callable[[str | None], None] | None = None,
    ) -> None:
        """Set the loop up without starting it.

        A step that took longer than the interval is followed by the next one at the next tick, not
        at once; `on_skipped` is called with the number of ticks missed. `on_trouble` is called on
        the loop's thread with the reason of the failure, from the second failure in a row on, and
        with None once a step succeeds again.
        """
        self._name = name
        self._step = step
        self._interval_s = interval_s
        self._backoff = backoff or Backoff(0.1, 30.0)
        self._classify = classify
        self._on_end = on_end
        self._clock = clock
        self._on_skipped = on_skipped
        self._on_trouble = on_trouble or (lambda _: None)
        self._hurry_s: float | None = None
        self._stopping = threading.Event()
        self._wakeup = threading.Event()
        self._thread = OwnedThread(self._run, name)

    @property
    def stopping(self) -> threading.Event:
        """Set when the loop is to end. A long step should check it."""
        return self._stopping

    def start(self) -> None:
        self._thread.start()

    def wake(self) -> None:
        """Run the next step now. This also ends a backoff."""
        self._wakeup.set()

    def hurry(self, seconds: float) -> None:
        """Run the next step within `seconds` after a successful step.

        Has no effect if the interval is shorter.
        """
        self._hurry_s = seconds

    def request_stop(self) -> None:
        """Ask the loop to end, without waiting for it."""
        self._stopping.set()
        self._wakeup.set()

    def stop(self, timeout: float) -> bool:
        """End the loop and wait at most `timeout` seconds. Return False if its step still runs."""
        self.request_stop()
        if self._thread.ident is None or self._thread is threading.current_thread():
            return True
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def turn(self) -> float | None:
        """Run one step. Return the seconds until the next one, or None if the loop is over."""
        began = self._clock.monotonic()
        self._hurry_s = None
        try:
            self._step()
        except Exception as error:  # noqa: BLE001 - the top of a thread: every error is judged here
            return self._after(error)
        if self._backoff.failures:
            _log.info("%s works again after %d failures", self._name, self._backoff.failures)
            self._backoff.reset()
            self._on_trouble(None)
        wait = self._until_next(self._clock.monotonic() - began)
        return wait if self._hurry_s is None else min(wait, self._hurry_s)

    def _until_next(self, took: float) -> float:
        if self._on_skipped is None or took <= self._interval_s or self._interval_s <= 0:
            return max(0.0, self._interval_s - took)
        self._on_skipped(int(took // self._interval_s))
        return self._interval_s - took % self._interval_s

    def _after(self, error: Exception) -> float | None:
        if self._stopping.is_set():
            return None
        if self._classify(error) is OnError.END:
            if self._on_end is None:
                _log.error("%s ended: %s", self._name, error, exc_info=error)
            else:
                self._on_end(error)
            return None
        first = self._backoff.failures == 0
        wait = self._backoff.next()
        level = logging.WARNING if first else logging.DEBUG
        _log.log(level, "%s: %s; retrying in %.1f s", self._name, error, wait)
        if not first:
            self._on_trouble(f"{self._name}: {error}")
        return wait

    def _run(self) -> None:
        while not self._stopping.is_set():
            wait = self.turn()
            if wait is None:
                return
            self._wakeup.wait(wait)
            self._wakeup.clear()
