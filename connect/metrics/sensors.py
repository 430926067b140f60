"""Windowed statistics as in Kafka: two windows of 30 s, of which the newer is still filling.

One thread writes and any thread reads, without locks: the writer replaces a single reference to all
state, so a reader sees a consistent state. A window is dropped a minute after its start. Times are
in milliseconds, passed in, and may jump.
"""

from __future__ import annotations

import math

__all__ = ["WINDOWS", "WINDOW_MS", "Outcomes", "Rate", "WindowedStat"]

WINDOW_MS = 30_000
"""Default of Kafka's `metrics.sample.window.ms`."""

WINDOWS = 2
"""Default of Kafka's `metrics.num.samples`."""

_EXPIRY_MS = WINDOW_MS * WINDOWS


_Window = tuple[int, float, float, float, float]
"""(start in ms, weight, total, min, max). A plain tuple, because each recorded value creates
one.
"""


class _Windows:
    """The base of the statistics: the window before, the filling one, and the last value."""

    __slots__ = ("_state",)

    def __init__(self) -> None:
        self._state: tuple[_Window | None, _Window | None, float] = (None, None, 0.0)

    def record(self, value: float, now_ms: int, weight: int = 1) -> None:
        """Record a value, which counts `weight` times."""
        previous, current, _ = self._state
        if current is None or now_ms - current[0] >= WINDOW_MS:
            self._state = (current, (now_ms, weight, value * weight, value, value), value)
            return
        start_ms, old_weight, old_total, least, most = current
        if value < least:
            least = value
        if value > most:
            most = value
        filling = (start_ms, old_weight + weight, old_total + value * weight, least, most)
        self._state = (previous, filling, value)

    def _live(self, now_ms: int) -> list[_Window]:
        """Return the windows that are not expired, oldest first."""
        return [w for w in self._state[:2] if w is not None and now_ms - w[0] < _EXPIRY_MS]


class WindowedStat(_Windows):
    """Last, min, max and mean of the values in the live windows; NaN if there are none.

    `last` is 0 until the first value and never expires, as in Kafka's `Value`.
    """

    __slots__ = ()

    @property
    def last(self) -> float:
        return self._state[2]

    def summary(self, now_ms: int) -> tuple[float, float, float]:
        """Return (min, max, avg) of the live windows."""
        windows = self._live(now_ms)
        weight = sum(window[1] for window in windows)
        if not weight:
            return math.nan, math.nan, math.nan
        return (
            min(window[3] for window in windows),
            max(window[4] for window in windows),
            sum(window[2] for window in windows) / weight,
        )


class Rate(_Windows):
    """Units per second over the live windows. A recorded value is an amount.

    As in Kafka, the measured time is at least one whole window, so that the first events do not
    look like a burst.
    """

    __slots__ = ()

    def per_second(self, now_ms: int) -> float:
        windows = self._live(now_ms)
        if not windows:
            return 0.0
        elapsed = max(0, now_ms - windows[0][0])
        missing = WINDOWS - 1 - elapsed // WINDOW_MS
        if missing > 0:
            elapsed += missing * WINDOW_MS
        return sum(window[2] for window in windows) * 1000 / elapsed


class Outcomes(_Windows):
    """The shares of attempts that succeeded and failed in the live windows, 0 to 1.

    A recorded value is 1 for an attempt that succeeded, else 0. Without attempts both shares are 0,
    as in Kafka's `Frequencies`.
    """

    __slots__ = ()

    def shares(self, now_ms: int) -> tuple[float, float]:
        """Return the shares (succeeded, failed)."""
        windows = self._live(now_ms)
        attempts = sum(window[1] for window in windows)
        if not attempts:
            return 0.0, 0.0
        share = sum(window[2] for window in windows) / attempts
        return share, 1.0 - share
