"""Clocks and deadlines that are passed in: `Clock` tells the time, `Deadline` the time left.

Nothing else in the framework calls `time.*` directly, so tests control time with `FakeClock`.
"""

from __future__ import annotations

import time
from typing import Protocol

from connect.errors import DeadlineExceeded

__all__ = ["SYSTEM_CLOCK", "Clock", "Deadline", "SystemClock", "seconds_of"]


def seconds_of(ms: float | None) -> float | None:
    """Convert milliseconds that may be unknown."""
    return None if ms is None else ms / 1000


class Clock(Protocol):
    """A source of time. Safe to call from any thread."""

    def monotonic(self) -> float:
        """Return seconds since an arbitrary start, for durations. Never goes backwards."""

    def now_ms(self) -> int:
        """Return milliseconds since the epoch (UTC), for timestamps. The wall clock may jump."""


class SystemClock:
    """The machine's clocks."""

    def monotonic(self) -> float:
        return time.monotonic()

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000


SYSTEM_CLOCK: Clock = SystemClock()


class Deadline:
    """A time budget in seconds that nested steps share."""

    def __init__(self, seconds: float, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._seconds = seconds
        self._end = clock.monotonic() + seconds

    def remaining(self) -> float:
        """Return the seconds left, never negative."""
        return max(0.0, self._end - self._clock.monotonic())

    def expired(self) -> bool:
        return self._clock.monotonic() >= self._end

    def check(self, what: str) -> None:
        """Raise `DeadlineExceeded` with `what` in its text if no time is left."""
        if self.expired():
            raise DeadlineExceeded(f"{what} did not finish within {self._seconds:g} s")
