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
    """The state after a rebalance.

    `failed`: the leader could not assign, because it had not read far enough. `assignment_offset`:
    the config offset that all members must have read. `scheduled_due`: a delayed rebalance is due.
    """

    failed: bool
    assignment_offset: int
    leader: bool
    scheduled_due: bool

    def next_step(self, offset: int, *, read_on: bool = False) -> NextStep:
        """Return the next step.

        `offset` is the config offset read here. `read_on` follows a successful read to the end.
        """
        behind = offset < self.assignment_offset
        if not read_on and (behind or (self.failed and self.leader)):
            return NextStep.READ_TO_END
        if self.failed or self.scheduled_due or offset != self.assignment_offset:
            return NextStep.REJOIN
        return NextStep.START_WORK


class UnsyncBackoff:
    """The wait of a worker that cannot read the config topic before it tries again.

    With the eager protocol the wait is constant. With the others the worker keeps its work at
    first: the waits grow within the delay of a delayed rebalance, and after the fifth the work is
    stopped.
    """

    def __init__(self, eager_s: float, max_delay_ms: int) -> None:
        self._eager_s = eager_s
        self._share_s = max_delay_ms / 1000 / _DELAY_SHARE
        self._left = _UNSYNC_RETRIES

    def next(self, *, eager: bool) -> float | None:
        """Return the seconds to wait, or None if all work must stop before a fresh start."""
        if eager:
            return self._eager_s
        if self._left == 0:
            self.reset()
            return None
        wait = self._share_s / self._left
        self._left -= 1
        return wait

    def reset(self) -> None:
        """Reset the backoff after a successful read."""
        self._left = _UNSYNC_RETRIES
