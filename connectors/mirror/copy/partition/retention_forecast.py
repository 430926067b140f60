"""When the source may delete records that are not copied yet. Pure.

Two reckonings, of which the earlier counts. By the topic's retention: whoever knows its configs
says when the next record may be deleted (`connectors.mirror.retention.watch`). By the log's
start: it moves in steps, as whole segments are deleted, so its speed is measured over a long time,
and that of the copy over the same. It also shows what is deleted by other means (DeleteRecords).
"""

from __future__ import annotations

from collections import deque

__all__ = ["LossForecast"]

_EVERY_S = 10.0
_SAMPLES = 180
"""Half an hour."""


class LossForecast:
    """Of one partition."""

    __slots__ = ("_retention_at", "_samples")

    def __init__(self) -> None:
        self._retention_at = float("inf")
        self._samples: deque[tuple[float, int, int]] = deque(maxlen=_SAMPLES)

    def note(self, now: float, log_start: int, position: int) -> None:
        """Where the log begins and what is next, at `now` (monotonic seconds)."""
        if log_start < 0 or position < 0:
            return
        samples = self._samples
        if samples and position < samples[-1][2]:
            samples.clear()  # it goes back: what was measured says nothing
        if not samples or now - samples[-1][0] >= _EVERY_S:
            samples.append((now, log_start, position))

    def expect(self, at: float) -> None:
        """From this moment on (monotonic seconds) retention may delete the next record to copy;
        infinite: as far as is known, never."""
        self._retention_at = at

    def seconds(self, now: float, log_start: int, position: int) -> float:
        """How long until records that are not copied yet may be deleted; infinite while no loss is
        in sight."""
        return min(max(0.0, self._retention_at - now), self._by_trend(now, log_start, position))

    def _by_trend(self, now: float, log_start: int, position: int) -> float:
        """How long until the log's start overtakes the position."""
        if not self._samples or now - self._samples[0][0] < _EVERY_S:
            return float("inf")
        since, first_start, first_position = self._samples[0]
        span = now - since
        nearing = ((log_start - first_start) - (position - first_position)) / span
        if nearing <= 0:
            return float("inf")
        return max(0, position - log_start) / nearing
