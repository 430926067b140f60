"""Decides how long transactions last. Pure; times are monotonic seconds."""

from __future__ import annotations

from connect.loop import backoff_s

__all__ = ["LOOK_S", "PAUSE_S", "TransactionPace"]

_SHORTEST_S = 0.1
_LONGEST_S = 5.0
_COST_SHARE = 9
"""Under load a transaction lasts this many times the cost of its end, so that ending takes at most
a tenth of the time."""

LOOK_S = 0.02
"""How often to check whether the transaction is due."""

PAUSE_S = 0.05
"""An idle flow commits at once, but at most once per this interval."""

_TIMEOUT_SHARE = 3
"""A transaction is committed or aborted well before the broker's timeout."""

_ABORT_PAUSE_FIRST_S, _ABORT_PAUSE_CAP_S = 0.1, 10.0


class TransactionPace:
    """`boundary_s`: the interval that the user set; None: as short as is cheap."""

    def __init__(self, timeout_s: float, boundary_s: float | None, now: float) -> None:
        self.patience_s = timeout_s / _TIMEOUT_SHARE
        """The maximum duration of a transaction, and then the maximum wait for its end."""
        self.by_time = boundary_s is not None
        self.closing_at = now
        self._boundary_s = boundary_s
        self._opened_at = self._ended_at = now
        self._opening_s = self._cost_s = 0.0
        self._aborts = 0
        self.not_before = now
        """When the next one may start."""

    @property
    def length_s(self) -> float:
        """Return how long a transaction lasts while there is more to send."""
        if self._boundary_s is not None:
            return min(self._boundary_s, self.patience_s)
        wanted = max(_SHORTEST_S, _COST_SHARE * self._cost_s)
        return min(wanted, _LONGEST_S, self.patience_s)

    def opened(self, now: float, asked_at: float) -> None:
        self._opened_at, self._opening_s = now, now - asked_at

    def closing(self, now: float) -> None:
        self.closing_at = now

    def committed(self, now: float) -> None:
        cost = now - self.closing_at + self._opening_s
        self._cost_s = cost if not self._cost_s else (3 * self._cost_s + cost) / 4
        self._ended_at = now
        self._aborts = 0

    def aborted(self, now: float) -> None:
        pause = backoff_s(_ABORT_PAUSE_FIRST_S, _ABORT_PAUSE_CAP_S, self._aborts)
        self._aborts += 1
        self._ended_at = now
        self.not_before = now + pause

    def may_end_idle(self, now: float) -> bool:
        """Whether a transaction without more records to send may end already."""
        return not self.by_time and now >= self._ended_at + PAUSE_S

    def full(self, now: float) -> bool:
        """Whether its duration is reached."""
        return now - self._opened_at >= self.length_s

    def overdue(self, now: float) -> bool:
        """Whether it must end in any case."""
        return now - self._opened_at >= self.patience_s
