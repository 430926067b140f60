"""Time as a value that is passed in: `Clock` for now, `Deadline` for how long is left.

Nothing else in the framework calls `time.*` directly, so tests drive time by hand with `FakeClock`.
"""

from __future__ import annotations

import time
from typing import Protocol

from connect.errors import DeadlineExceeded

__all__ = ["SYSTEM_CLOCK", "Clock", "Deadline", "SystemClock"]


class Clock(Protocol):
    """A source of time. Safe to call from any thread."""

    def monotonic(self) -> float:
        """Seconds since an arbitrary start; never goes backwards. For durations."""

    def now_ms(self) -> int:
        """Milliseconds since the epoch (UTC). For timestamps only: it may jump."""


class SystemClock:
    """The machine's clocks."""

    def monotonic(self) -> float:
        return time.monotonic()

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000


SYSTEM_CLOCK: Clock = SystemClock()


class Deadline:
    """One budget of seconds that nested steps share."""

    def __init__(self, seconds: float, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._seconds = seconds
        self._end = clock.monotonic() + seconds

    def remaining(self) -> float:
        """Seconds left, never negative."""
        return max(0.0, self._end - self._clock.monotonic())

    def expired(self) -> bool:
        return self._clock.monotonic() >= self._end

    def check(self, what: str) -> None:
        """Raise `DeadlineExceeded` naming `what` when no time is left."""
        if self.expired():
            raise DeadlineExceeded(f"{what} did not finish within {self._seconds:g} s")
