"""Whether a checkpoint task's wide rounds are worth a Spark session. Pure.

A session takes some ten seconds of a core to start, and while it starts rounds are computed here
anyway. So a wide round now and then is computed here, and only what keeps coming is Spark's.
"""

from __future__ import annotations

__all__ = ["IN_A_ROW", "WideRounds"]

IN_A_ROW = 3
"""The wide rounds, each with something to compute, of which the last is worth a session."""
_COSTLY_S = 2.0
"""After a round that took so long here, the next one is: meanwhile copying had half a core less."""


class WideRounds:
    """Counts them. `min_offsets`: from how many a round is wide; 0: all are, and the first already
    is worth a session."""

    def __init__(self, min_offsets: int) -> None:
        self._min_offsets = min_offsets
        self._in_a_row = 0
        self._took_s = 0.0

    def is_wide(self, offsets: int) -> bool:
        return offsets >= self._min_offsets

    def worth_spark(self) -> bool:
        """A wide round has something to compute: is it Spark's?"""
        self._in_a_row += 1
        if not self._min_offsets or self._in_a_row >= IN_A_ROW:
            return True
        return self._in_a_row > 1 and self._took_s >= _COSTLY_S

    def took(self, seconds: float) -> None:
        """It was computed here."""
        self._took_s = seconds

    def interrupted(self) -> None:
        """A round was not wide, or had nothing to compute."""
        self._in_a_row = 0
        self._took_s = 0.0
