"""Decides what a worker does after a rebalance. Pure.

All workers must have read the config topic to the same offset before any of them starts work. A
worker that is behind continues reading; one that is ahead, or cannot read, requests another
rebalance.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto

__all__ = ["Absence", "AfterRebalance", "NextStep", "UnsyncBackoff"]

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


class Absence:
    """How long a worker that leaves its group may keep its work: until others may get it.

    A leader waits `scheduled.rebalance.max.delay.ms` for those that have left, counted from the
    first. With the eager protocol it does not wait, nor does a new leader, which does not know who
    ran what. All times are of one monotonic clock, in seconds.
    """

    def __init__(self, max_delay_ms: int) -> None:
        self._delay_s = max_delay_ms / 1000
        self._ends: float | None = None

    def begin(self, now: float, *, given_at_once: bool, scheduled_in_s: float | None) -> None:
        """Note that the worker leaves. Changes nothing while it is absent already.

        `given_at_once`: the group does not wait for it. `scheduled_in_s`: a delay that runs already
        is over by then.
        """
        if self._ends is None:
            kept_s = 0.0 if given_at_once else self._delay_s
            self._ends = now + min(kept_s, kept_s if scheduled_in_s is None else scheduled_in_s)

    def end(self) -> None:
        """Note that the worker is in its group again, or has no work."""
        self._ends = None

    def is_over(self, by: float) -> bool:
        """Return whether others may have got the work by this time."""
        return self._ends is not None and by >= self._ends
