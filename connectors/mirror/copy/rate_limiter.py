"""Limits how much is copied per second. Pure: time comes from a clock."""

from __future__ import annotations

from connect.clock import SYSTEM_CLOCK, Clock

__all__ = ["BURST_S", "RateLimiter"]

BURST_S = 0.5
"""Unused rate can be made up for this long only, so that no burst follows a stall."""


class RateLimiter:
    """Computes the wait that keeps the copy at or below `rate` bytes (or records) per second."""

    def __init__(self, rate: float, clock: Clock = SYSTEM_CLOCK) -> None:
        self.rate = rate
        self._clock = clock
        self._free_at = clock.monotonic()
        """The time at which everything counted so far is within the rate."""

    def spend(self, amount: int) -> None:
        """Count this amount."""
        if amount > 0:
            earliest = self._clock.monotonic() - BURST_S
            self._free_at = max(self._free_at, earliest) + amount / self.rate

    def left_s(self) -> float:
        """Return the seconds to wait before the next request."""
        return max(0.0, self._free_at - self._clock.monotonic())
