"""Virtual time: a clock that moves from one scheduled event to the next, and never sleeps."""

from __future__ import annotations

import heapq
from collections.abc import Callable

__all__ = ["VirtualTime"]

_FIRST_MS = 1_700_000_000_000


class VirtualTime:
    """A `connect.clock.Clock`, and the events of the simulated world. Not thread-safe.

    Events run in order of time; of the same time, in the order in which they were scheduled.
    """

    def __init__(self) -> None:
        self._now = 100.0
        self._wall_offset_ms = _FIRST_MS
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._order = 0
        self.happened = 0
        """Events that have run."""

    def monotonic(self) -> float:
        return self._now

    def now_ms(self) -> int:
        return self._wall_offset_ms + int(self._now * 1000)

    def jump(self, milliseconds: int) -> None:
        """Set the wall clock forward or back. Durations do not change."""
        self._wall_offset_ms += milliseconds

    def after(self, seconds: float, action: Callable[[], None]) -> None:
        """Run `action` once, `seconds` from now."""
        self._order += 1
        heapq.heappush(self._events, (self._now + seconds, self._order, action))

    def next_at(self) -> float:
        """When the next event is due; infinity if there is none."""
        return self._events[0][0] if self._events else float("inf")

    def run_next(self) -> None:
        """Move to the next event and run it, and all others of the same moment."""
        at = self._events[0][0]
        self._now = max(self._now, at)
        while self._events and self._events[0][0] <= at:
            action = heapq.heappop(self._events)[2]
            self.happened += 1
            action()

    def run_until(self, moment: float) -> None:
        """Run everything that is due up to `moment`, and move there."""
        while self._events and self._events[0][0] <= moment:
            self.run_next()
        self._now = max(self._now, moment)
