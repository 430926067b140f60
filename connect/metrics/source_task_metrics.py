"""Metrics of a source task: Kafka's group `source-task-metrics`.

The task counts its totals, on the threads on which its records are acknowledged. Rates and averages
are computed here on the task's thread, once for each batch or turn.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from connect.clock import SYSTEM_CLOCK, Clock
from connect.metrics.sensors import Rate, WindowedStat

__all__ = ["SOURCE_TASK_GROUP", "SourceTaskMetrics", "SourceTotals"]

SOURCE_TASK_GROUP = "source-task-metrics"


@dataclass(frozen=True, slots=True)
class SourceTotals:
    """A source task's record counts since it was created.

    They are the records polled, those acknowledged by Kafka after transformations, and those
    dropped or skipped.
    """

    polled: int
    written: int
    left_out: int = 0

    @property
    def active(self) -> int:
        return max(0, self.polled - self.written - self.left_out)


class SourceTaskMetrics:
    """Metrics of a source task.

    `totals` is called from any thread, and `read` may be. All else is for the task's thread.
    """

    def __init__(
        self,
        totals: Callable[[], SourceTotals],
        clock: Clock = SYSTEM_CLOCK,
        *,
        transactions: bool = False,
    ) -> None:
        """Create the metrics. With `transactions` they include transaction sizes."""
        self._totals = totals
        self._clock = clock
        self._noted = SourceTotals(0, 0)
        self._poll_rate, self._write_rate = Rate(), Rate()
        self._poll_ms, self._active = WindowedStat(), WindowedStat()
        self._transactions = WindowedStat() if transactions else None

    def polled(self, ms: float) -> None:
        """Record a poll that took `ms` and returned records, which the totals include already."""
        self._poll_ms.record(ms, self._clock.now_ms())
        self.turn()

    def turn(self) -> None:
        """Update rates from the current totals, if they have changed."""
        now, before = self._totals(), self._noted
        if now == before:
            return
        self._noted = now
        now_ms = self._clock.now_ms()
        if now.polled != before.polled:
            self._poll_rate.record(now.polled - before.polled, now_ms)
        if now.written != before.written:
            self._write_rate.record(now.written - before.written, now_ms)
        self._active.record(now.active, now_ms)

    def transaction(self, records: int) -> None:
        """Record a committed transaction with this number of records."""
        if self._transactions is not None:
            self._transactions.record(records, self._clock.now_ms())

    def read(self) -> Mapping[str, float]:
        now_ms = self._clock.now_ms()
        totals = self._totals()
        _, poll_max, poll_avg = self._poll_ms.summary(now_ms)
        _, active_max, active_avg = self._active.summary(now_ms)
        values = {
            "source-record-poll-total": float(totals.polled),
            "source-record-poll-rate": self._poll_rate.per_second(now_ms),
            "source-record-write-total": float(totals.written),
            "source-record-write-rate": self._write_rate.per_second(now_ms),
            "poll-batch-max-time-ms": poll_max,
            "poll-batch-avg-time-ms": poll_avg,
            "source-record-active-count": float(totals.active),
            "source-record-active-count-max": active_max,
            "source-record-active-count-avg": active_avg,
        }
        if self._transactions is not None:
            least, most, mean = self._transactions.summary(now_ms)
            values["transaction-size-min"] = least
            values["transaction-size-max"] = most
            values["transaction-size-avg"] = mean
        return values
