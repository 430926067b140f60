"""A histogram of durations, as in Prometheus: values counted in buckets since the start.

One thread writes and any thread reads, without locks.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass

__all__ = ["DurationHistogram", "HistogramValue"]

_BOUNDS_MS = (
    *(1, 2, 5, 10, 20, 50, 100, 200, 500),
    *(1_000, 2_000, 5_000, 10_000, 30_000, 60_000),
    *(300_000, 1_800_000, 7_200_000, 28_800_000, 86_400_000),
)
"""From one millisecond, the least that timestamps show, to one day, a common retention."""


@dataclass(frozen=True, slots=True)
class HistogramValue:
    """A histogram at one moment. `counts[i]` are the values up to `bounds[i]` and above the bound
    before; the last count is of those above all bounds."""

    bounds: tuple[float, ...]
    counts: tuple[int, ...]
    total: float
    """The sum of all values."""


class DurationHistogram:
    """Counts durations in milliseconds, and shows them in seconds."""

    __slots__ = ("_counts", "_total_ms")

    def __init__(self) -> None:
        self._counts = [0] * (len(_BOUNDS_MS) + 1)
        self._total_ms = 0

    def record(self, ms: int, weight: int) -> None:
        """Count a duration `weight` times. A negative one, of clocks that differ, counts as 0."""
        self._counts[bisect_left(_BOUNDS_MS, ms)] += weight
        if ms > 0:
            self._total_ms += ms * weight

    def read(self) -> HistogramValue:
        bounds = tuple(bound / 1000 for bound in _BOUNDS_MS)
        return HistogramValue(bounds, tuple(self._counts), self._total_ms / 1000)
