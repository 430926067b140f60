"""Decides whether a checkpoint task's large rounds justify a Spark session. Pure.

Starting a session takes some ten seconds of one core, and rounds are computed in the process
meanwhile. So only repeated large rounds go to Spark, and an occasional one is computed in the
process.
"""

from __future__ import annotations

__all__ = ["IN_A_ROW", "LargeRoundPolicy"]

IN_A_ROW = 3
"""Number of consecutive large rounds, each with something to compute, that justify a session."""
_COSTLY_S = 2.0
"""After a round that took this long in the process, the next one goes to Spark, because it took
half a core from the copy."""


class LargeRoundPolicy:
    """Counts large rounds. `min_offsets`: the number of offsets that makes a round large; with 0
    every round is large and the first one justifies a session."""

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
        """Record that a round was not large or had nothing to compute."""
        self._in_a_row = 0
        self._took_s = 0.0
