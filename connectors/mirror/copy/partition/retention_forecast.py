"""Estimates when the source may delete records that are not copied yet. Pure.

The result is the earlier of two estimates. By retention: `connectors.mirror.retention.watch`
estimates when the next record may be deleted. By the log start offset: it moves in steps, because
whole segments are deleted, so its speed and that of the copy are measured over a long time. This
also covers DeleteRecords.
"""

from __future__ import annotations

__all__ = ["LossForecast"]

_EVERY_S = 10.0
_SAMPLES = 180
"""Time over which speeds are measured: half an hour."""


class LossForecast:
    """The forecast of one partition."""

    __slots__ = ("_retention_at", "_samples")

    def __init__(self) -> None:
        self._retention_at = float("inf")
        # No deque: an empty one takes 760 bytes, and a task may have 100,000 partitions.
        self._samples: list[tuple[float, int, int]] = []

    def note(self, now: float, log_start: int, position: int) -> None:
        """Record the log start offset and the next offset to copy, at `now` (monotonic seconds)."""
        if log_start < 0 or position < 0:
            return
        samples = self._samples
        if samples and position < samples[-1][2]:
            samples.clear()  # The position moved back, so earlier measurements are void.
        if samples and now - samples[-1][0] < _EVERY_S:
            return
        here = (log_start, position)
        if samples and samples[0][1:] == samples[-1][1:] == here:
            # At rest, as most partitions are: where that began, and now.
            samples[:] = [(max(samples[0][0], now - _EVERY_S * _SAMPLES), *here)]
        elif len(samples) == _SAMPLES:
            del samples[0]
        samples.append((now, *here))

    def expect(self, at: float) -> None:
        """Set when retention may delete the next record to copy (monotonic seconds); infinite: no
        deletion is expected."""
        self._retention_at = at

    def seconds(self, now: float, log_start: int, position: int) -> float:
        """Return the seconds until records that are not copied yet may be deleted; infinite if no
        loss is expected."""
        return min(max(0.0, self._retention_at - now), self._by_trend(now, log_start, position))

    def _by_trend(self, now: float, log_start: int, position: int) -> float:
        """Return the seconds until the log start offset overtakes the position."""
        if not self._samples or now - self._samples[0][0] < _EVERY_S:
            return float("inf")
        since, first_start, first_position = self._samples[0]
        span = now - since
        nearing = ((log_start - first_start) - (position - first_position)) / span
        if nearing <= 0:
            return float("inf")
        return max(0, position - log_start) / nearing
