"""Decides when the IDs of the copied topics are requested, on both sides. Pure.

Both engines use it. Without these requests, a topic that is deleted and re-created while nothing is
copied, or whose new log is as long as the old one when it is fetched next, is only noticed after
metadata.max.age.ms.
"""

from __future__ import annotations

__all__ = ["TopicLooks"]

_EVERY_S = 20.0
_MOST_PARTITIONS = 2_000
"""With more partitions, frequent metadata requests cost too much."""


class TopicLooks:
    """The schedule of one task. `now`: monotonic seconds."""

    def __init__(self, now: float) -> None:
        self._at = now + _EVERY_S

    def due(self, now: float, partitions: int) -> bool:
        """Return whether to request the IDs now. Each time it returns True, the next request is due
        later. `partitions`: the number of partitions that the task copies."""
        if now < self._at:
            return False
        self._at = now + _EVERY_S
        return partitions <= _MOST_PARTITIONS
