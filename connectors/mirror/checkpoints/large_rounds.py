"""Decides whether a checkpoint task's large rounds justify a Spark session. Pure.

A session takes some ten seconds of a core to start, and meanwhile rounds are computed in the
process anyway. So an occasional large round is computed in the process; only repeated ones go to
Spark.
"""

from __future__ import annotations

__all__ = ["IN_A_ROW", "LargeRoundPolicy"]

IN_A_ROW = 3
"""Number of large rounds in a row, each with something to compute, that justify a session."""
_COSTLY_S = 2.0
"""A round that took this long in the process sends the next one to Spark: it took half a core from
copying."""


class LargeRoundPolicy:
    """Counts large rounds. `min_offsets`: number of offsets that makes a round large; 0: every
    round is, and the first justifies a session."""

    def __init__(self, min_offsets: int) -> None:
        self._min_offsets = min_offsets
        self._in_a_row = 0
        self._took_s = 0.0

    def is_wide(self, offsets: int) -> bool:
        return offsets >= self._min_offsets

    def worth_spark(self) -> bool:
        """Whether a large round that has something to compute goes to Spark."""
        self._in_a_row += 1
        if not self._min_offsets or self._in_a_row >= IN_A_ROW:
            return True
        return self._in_a_row > 1 and self._took_s >= _COSTLY_S

    def took(self, seconds: float) -> None:
        """Record how long a round took in the process."""
        self._took_s = seconds

    def interrupted(self) -> None:
        """A round was not large, or had nothing to compute."""
        self._in_a_row = 0
        self._took_s = 0.0
