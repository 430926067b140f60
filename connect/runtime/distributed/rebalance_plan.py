"""Decides what a worker does after a rebalance. Pure.

All workers must have read the config topic to the same offset before any of them starts work. A
worker that is behind continues reading; one that is ahead, or cannot read, requests another
rebalance.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

__all__ = ["AfterRebalance", "NextStep", "UnsyncBackoff"]

_UNSYNC_RETRIES = 5
_DELAY_SHARE = 10


class NextStep(Enum):
    START_WORK = auto()
    READ_TO_END = auto()
    REJOIN = auto()


@dataclass(frozen=True, slots=True)
class AfterRebalance:
    """`failed`: the leader could not assign, as it had not read far enough; `assignment_offset`:
    how far everybody has to have read; `scheduled_due`: the time of a delayed rebalance has come.
    """

    failed: bool
    assignment_offset: int
    leader: bool
    scheduled_due: bool

    def next_step(self, offset: int, *, read_on: bool = False) -> NextStep:
        """`offset`: how far we have read; `read_on`: after a reading to the end that worked."""
        behind = offset < self.assignment_offset
        if not read_on and (behind or (self.failed and self.leader)):
            return NextStep.READ_TO_END
        if self.failed or self.scheduled_due or offset != self.assignment_offset:
            return NextStep.REJOIN
        return NextStep.START_WORK


class UnsyncBackoff:
    """How long a worker that cannot read its configs waits before it tries again.

    Under the eager protocol always the same. Under the others it keeps its work a while: waits grow
    within what a delayed rebalance leaves, and after the fifth the work is given up.
    """

    def __init__(self, eager_s: float, max_delay_ms: int) -> None:
        self._eager_s = eager_s
        self._share_s = max_delay_ms / 1000 / _DELAY_SHARE
        self._left = _UNSYNC_RETRIES

    def next(self, *, eager: bool) -> float | None:
        """Seconds to wait; None: give up what runs, and begin anew."""
        if eager:
            return self._eager_s
        if self._left == 0:
            self.reset()
            return None
        wait = self._share_s / self._left
        self._left -= 1
        return wait

    def reset(self) -> None:
        """Reading succeeded: restart the backoff."""
        self._left = _UNSYNC_RETRIES
