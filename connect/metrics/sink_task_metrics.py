"""Metrics of a sink task: Kafka's group `sink-task-metrics`."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from connect.clock import SYSTEM_CLOCK, Clock
from connect.metrics.sensors import Rate, WindowedStat

__all__ = ["SINK_TASK_GROUP", "SinkTaskMetrics"]

SINK_TASK_GROUP = "sink-task-metrics"


class SinkTaskMetrics:
    """Metrics of a sink task, updated for each batch on the task's thread.

    Only `read_all` is for any thread. `commits` is called from any thread, and returns the sequence
    number of the newest commit and the numbers of completed and of late commits.
    """

    def __init__(
        self, commits: Callable[[], tuple[int, int, int]], clock: Clock = SYSTEM_CLOCK
    ) -> None:
        self._commits = commits
        self._noted = commits()
        self._clock = clock
        self._read, self._sent = 0, 0
        self._read_rate, self._send_rate = Rate(), Rate()
        self._put_ms, self._active = WindowedStat(), WindowedStat()
        self._partitions = 0
        self._completion_rate, self._skip_rate = Rate(), Rate()

    def read(self, records: int) -> None:
        """Add `records` to the records read from Kafka."""
        if records:
            self._read += records
            self._read_rate.record(records, self._clock.now_ms())

    def put(self, records: int, ms: float) -> None:
        """Record a put of `records` transformed records that took `ms` milliseconds."""
        now_ms = self._clock.now_ms()
        self._sent += records
        self._send_rate.record(records, now_ms)
        self._put_ms.record(ms, now_ms)

    def turn(self, partitions: int, active: int) -> None:
        """Record the numbers of assigned partitions and of records read but not committed."""
        self._partitions = partitions
        now_ms = self._clock.now_ms()
        if active or self._active.last:
            self._active.record(active, now_ms)
        (_, completed_before, skipped_before), self._noted = self._noted, self._commits()
        _, completed, skipped = self._noted
        if completed != completed_before:
            self._completion_rate.record(completed - completed_before, now_ms)
        if skipped != skipped_before:
            self._skip_rate.record(skipped - skipped_before, now_ms)

    def read_all(self) -> Mapping[str, float]:
        """Return all attributes. Thread-safe."""
        now_ms = self._clock.now_ms()
        _, put_max, put_avg = self._put_ms.summary(now_ms)
        _, active_max, active_avg = self._active.summary(now_ms)
        number, completed, skipped = self._commits()
        return {
            "sink-record-read-total": float(self._read),
            "sink-record-read-rate": self._read_rate.per_second(now_ms),
            "sink-record-send-total": float(self._sent),
            "sink-record-send-rate": self._send_rate.per_second(now_ms),
            "sink-record-active-count": self._active.last,
            "sink-record-active-count-max": active_max,
            "sink-record-active-count-avg": active_avg,
            "partition-count": float(self._partitions),
            "put-batch-max-time-ms": put_max,
            "put-batch-avg-time-ms": put_avg,
            "offset-commit-seq-no": float(number),
            "offset-commit-completion-total": float(completed),
            "offset-commit-completion-rate": self._completion_rate.per_second(now_ms),
            "offset-commit-skip-total": float(skipped),
            "offset-commit-skip-rate": self._skip_rate.per_second(now_ms),
        }
