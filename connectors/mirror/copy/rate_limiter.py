"""A limit on what is copied in each second. Pure: time comes from a clock."""

from __future__ import annotations

from connect.clock import SYSTEM_CLOCK, Clock

__all__ = ["BURST_S", "Pace"]

BURST_S = 0.5
"""What was not used may be made up for so long, and no longer: after a stall there is no flood."""


class Pace:
    """How long to wait so that not more than `rate` bytes (or records) a second come."""

    def __init__(self, rate: float, clock: Clock = SYSTEM_CLOCK) -> None:
        self.rate = rate
        self._clock = clock
        self._counted = 0
        self._free_at = clock.monotonic()
        """When everything counted so far has had its time."""

    def pause_s(self, total: int) -> float:
        """`total`: what came so far. Seconds for which nothing more should be asked for."""
        new, self._counted = total - self._counted, total
        self.spend(new)
        return self.left_s()

    def spend(self, amount: int) -> None:
        """So much came."""
        if amount > 0:
            earliest = self._clock.monotonic() - BURST_S
            self._free_at = max(self._free_at, earliest) + amount / self.rate

    def left_s(self) -> float:
        """Seconds for which nothing more should be asked for."""
        return max(0.0, self._free_at - self._clock.monotonic())
