"""When the source will delete records that are not copied yet, if all goes on as it does. Pure.

The log start moves in steps, as whole segments are deleted, so its speed is measured over a long
time; that of the copy over the same. Fed with what fetch responses say anyway.
"""

from __future__ import annotations

from collections import deque

__all__ = ["LossForecast"]

_EVERY_S = 10.0
_SAMPLES = 180
"""Half an hour."""


class LossForecast:
    """Of one partition."""

    __slots__ = ("_samples",)

    def __init__(self) -> None:
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

    def seconds(self, now: float, log_start: int, position: int) -> float:
        """How long until the log's start overtakes the position; infinite while it does not come
        nearer."""
        if not self._samples or now - self._samples[0][0] < _EVERY_S:
            return float("inf")
        since, first_start, first_position = self._samples[0]
        span = now - since
        nearing = ((log_start - first_start) - (position - first_position)) / span
        if nearing <= 0:
            return float("inf")
        return max(0, position - log_start) / nearing
