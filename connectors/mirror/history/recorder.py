"""Writes the history of one source task: its start and end, losses, stalled partitions, copied
ranges, lag, samples.

Belongs to the task's thread. It does nothing if the history is disabled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

from connect.clock import SYSTEM_CLOCK, Clock
from connect.config.secrets import without_secrets
from connect.config.types import SecretStr
from connect.protocol.messages import TopicPartition
from connectors.mirror.config.losses import Loss
from connectors.mirror.config.source import SourceConfig
from connectors.mirror.history.database import open_history
from connectors.mirror.history.rows import (
    CopiedRow,
    EventRow,
    FlowTask,
    HistoryRow,
    LagRow,
    SampleRow,
    flow_event,
)
from connectors.mirror.metrics import PartitionMetrics

__all__ = ["SAMPLE_EVERY_S", "CopiedPartition", "HistoryRows", "TaskHistory", "rows_every_s"]

_LOOK_S = 1.0
SAMPLE_EVERY_S = 10.0
"""Interval of samples, and minimum interval between rows of ranges and lag, however often offsets
are stored."""
_ROWS_PER_S = 200
"""With more partitions in all tasks, rows of ranges and lag come at longer intervals: the history
of 10,000 partitions then takes some 400 rows a second instead of 2,000."""
_STUCK_AFTER_S = 3.0
"""Errors that last less than this, such as those during a leader change, get no row."""


def rows_every_s(partitions: int, tasks: int) -> float:
    """Return the interval between a task's rows of ranges and lag, for this number of tasks and of
    partitions that moved."""
    return max(SAMPLE_EVERY_S, partitions * tasks / _ROWS_PER_S)


class CopiedPartition(Protocol):
    """The recorded state of a partition, for every engine. An unknown offset is -1."""

    @property
    def source(self) -> TopicPartition: ...
    @property
    def target(self) -> TopicPartition: ...
    @property
    def metrics(self) -> PartitionMetrics: ...
    @property
    def acked_position(self) -> int: ...
    @property
    def log_start_offset(self) -> int: ...
    @property
    def target_end(self) -> int: ...
    @property
    def error(self) -> str | None: ...
    @property
    def lag(self) -> int | None: ...
    def lag_ms(self, now_ms: int) -> int | None: ...


class HistoryRows(Protocol):
    """The destination of rows (`history.History`)."""

    def add(self, flow: FlowTask, row: HistoryRow) -> None:
        """Queue a row. Returns at once."""

    def close(self) -> None: ...


OpenRows = Callable[[SecretStr, int], HistoryRows | None]
"""Opens the history, like `history.open_history`."""


class TaskHistory:
    """Records the history of one source task."""

    def __init__(
        self,
        config: SourceConfig,
        connector: str,
        task: int,
        clock: Clock = SYSTEM_CLOCK,
        open_rows: OpenRows = open_history,
    ) -> None:
        self._clock = clock
        self._flow = FlowTask(
            connector, task, config.source_cluster_alias, config.target_cluster_alias
        )
        self._history: HistoryRows | None = open_rows(
            config.mirror_history_url, config.mirror_history_retention_days
        )
        self._started = False
        self._tasks = 1
        self._look_at = 0.0
        self._ill_since: dict[TopicPartition, float] = {}
        self._told: dict[TopicPartition, str] = {}
        self._write_at = 0.0
        self._reached: dict[TopicPartition, tuple[CopiedPartition, int]] = {}
        self._from: dict[TopicPartition, int] = {}
        self._counted: dict[TopicPartition, tuple[int, int]] = {}
        self._lagged: set[TopicPartition] = set()
        self._sample_at: float | None = None
        self._sampled: dict[TopicPartition, tuple[int, int]] = {}
        self._unsettled: dict[TopicPartition, CopiedPartition] = {}
        """Partitions that had an error or a lag at the last check."""

    def started(self, partitions: int, tasks: int) -> None:
        """Record that the task runs in this process now, for example after a rebalance. `tasks`:
        the connector's number of tasks."""
        self._tasks = tasks
        if self._history is not None:
            self._started = True
            self._add_of_task("started", f"started with {partitions} partitions")

    def _add_of_task(self, what: str, text: str) -> None:
        if self._history is not None:
            named = f"Task {self._flow.task} of {self._flow.connector} {text}"
            self._history.add(self._flow, flow_event(f"task.{what}", "", named))

    def lost(self, partition: CopiedPartition, loss: Loss) -> None:
        if loss.resume is not None:
            self._from[partition.source] = loss.resume
        self._event(
            partition,
            loss.kind.value,
            loss.policy.value,
            str(loss),
            side="target" if loss.on_target else "source",
            first=loss.first,
            last=loss.end - 1 if loss.records else None,
            records=loss.records,
            resume=loss.resume,
        )

    def quarantined(self, partition: CopiedPartition, first: int, last: int, reason: str) -> None:
        """Record source offsets that went to the quarantine topic instead of the target topic."""
        what = ("quarantined", "quarantine")
        self._left_out(partition.source, partition.target[0], what, first, last, reason)

    def skipped(self, source: TopicPartition, first: int, last: int, reason: str) -> None:
        """Record source offsets that are copied nowhere, because the user chose so. For flows whose
        copies have the names of their sources."""
        self._left_out(source, source[0], ("skipped", "skip"), first, last, reason)

    def _left_out(
        self,
        source: TopicPartition,
        target_topic: str,
        what: tuple[str, str],
        first: int,
        last: int,
        reason: str,
    ) -> None:
        """Add the event of source offsets that are not copied. `what`: its kind and action."""
        self._add(
            source,
            target_topic,
            *what,
            reason,
            side="source",
            first=first,
            last=last,
            records=last - first + 1,
            resume=last + 1,
        )

    def already_copied(self, partition: CopiedPartition, first: int, records: int) -> None:
        """Record the records after the stored offset that were on the target already, because of a
        crash."""
        last = partition.acked_position - 1
        self._event(
            partition,
            "already.copied",
            "passed over",
            f"{records} records from source offset {first} to {last}, after the stored offset, "
            "were on the target already; they were not copied again",
            side="target",
            first=first,
            last=last,
            records=records,
            resume=last + 1,
        )

    def _event(
        self, partition: CopiedPartition, kind: str, action: str, text: str, **details: Any
    ) -> None:
        self._add(partition.source, partition.target[0], kind, action, text, **details)

    def _add(
        self,
        source: TopicPartition,
        target_topic: str,
        kind: str,
        action: str,
        text: str,
        *,
        side: str | None = None,
        first: int | None = None,
        last: int | None = None,
        records: int = 0,
        resume: int | None = None,
    ) -> None:
        if self._history is not None:
            row = EventRow(
                kind,
                *source,
                target_topic,
                action,
                side,
                first,
                last,
                records,
                resume,
                without_secrets(text),
            )
            self._history.add(self._flow, row)

    def look(self, watched: Iterable[CopiedPartition], every: Iterable[CopiedPartition]) -> None:
        """Record which partitions stalled and which recovered. Call it often. `watched`: at
        least all that have an error or a lag. `every`: all partitions of the task."""
        now = self._clock.monotonic()
        if self._history is None or now < self._look_at:
            return
        self._look_at = now + _LOOK_S
        if self._sample_at is None or now - self._sample_at >= SAMPLE_EVERY_S:
            self._sample(self._history, list(every), now)
        write = now >= self._write_at
        if write:
            self._write_at = now + rows_every_s(len(self._reached), self._tasks)
            self._write_ranges(self._history)
        looked_at = {**self._unsettled, **{each.source: each for each in watched}}
        for partition in looked_at.values():
            if write:
                self._lag(self._history, partition)
            error, key = partition.error, partition.source
            if error is None:
                self._ill_since.pop(key, None)
                if key in self._told:
                    del self._told[key]
                    self._event(partition, "moving", "", "copying continues")
                continue
            since = self._ill_since.setdefault(key, now)
            if key not in self._told and now - since >= _STUCK_AFTER_S:
                self._told[key] = error
                position = max(0, partition.acked_position)
                self._event(partition, "stuck", "", error, side="source", first=position)
        unsettled = self._ill_since.keys() | self._lagged
        self._unsettled = {k: each for k, each in looked_at.items() if k in unsettled}

    def begun(self, key: TopicPartition, position: int) -> None:
        """Record the source offset at which a partition starts."""
        self._from[key] = position

    def reached(self, moved: Iterable[tuple[CopiedPartition, int]]) -> None:
        """Record that all records before these positions are on the target. The positions are
        stored, or will be soon."""
        if self._history is not None:
            self._reached.update({p.source: (p, position) for p, position in moved})

    def _write_ranges(self, history: HistoryRows) -> None:
        reached, self._reached = self._reached, {}
        for key, (partition, position) in reached.items():
            start = self._from.get(key, max(0, partition.log_start_offset))
            self._from[key] = position
            records, size = partition.metrics.counts()
            before = self._counted.get(key, (0, 0))
            self._counted[key] = (records, size)
            if position <= start:
                continue
            row = CopiedRow(
                *key,
                partition.target[0],
                start,
                position,
                partition.target_end if partition.target_end >= 0 else None,
                max(0, records - before[0]),
                max(0, size - before[1]),
            )
            history.add(self._flow, row)

    def _lag(self, history: HistoryRows, partition: CopiedPartition) -> None:
        """Write lag samples. Partitions that stay caught up get no rows."""
        lag = partition.lag
        if not lag:
            if partition.source not in self._lagged:
                return
            self._lagged.discard(partition.source)
        else:
            self._lagged.add(partition.source)
        now_ms = self._clock.now_ms()
        row = LagRow(
            *partition.source,
            partition.target[0],
            lag,
            partition.lag_ms(now_ms),
            partition.metrics.time_to_loss_ms(),
        )
        history.add(self._flow, row)

    def _sample(
        self, history: HistoryRows, partitions: Sequence[CopiedPartition], now: float
    ) -> None:
        """Write the task's sample since the last one. The first call only begins to count."""
        began, self._sample_at = self._sample_at, now
        now_ms = self._clock.now_ms()
        records = size = 0
        latencies: list[float] = []
        for each in partitions:
            counts = each.metrics.counts()
            before = self._sampled.get(each.source, counts if began is None else (0, 0))
            self._sampled[each.source] = counts
            if counts[0] > before[0]:
                records, size = records + counts[0] - before[0], size + counts[1] - before[1]
                latency = each.metrics.latency_ms(now_ms)
                if latency is not None:
                    latencies.append(latency)
        if began is None:
            return
        lags = [lag for each in partitions if (lag := each.lag_ms(now_ms)) is not None]
        losses = [ms for each in partitions if (ms := each.metrics.time_to_loss_ms()) is not None]
        row = SampleRow(
            round((now - began) * 1000),
            len(partitions),
            sum(each.error is not None for each in partitions),
            sum(each.lag or 0 for each in partitions),
            max(lags, default=None),
            min(losses, default=None),
            records,
            max(0, size),
            sum(latencies) / len(latencies) if latencies else None,
        )
        history.add(self._flow, row)

    def forget(self, key: TopicPartition) -> None:
        """Drop the state of a partition that is no longer assigned."""
        if self._history is not None and key in self._reached:
            self._write_ranges(self._history)
        for known in (self._ill_since, self._told, self._counted, self._from, self._sampled):
            known.pop(key, None)
        self._lagged.discard(key)
        self._unsettled.pop(key, None)

    def close(self) -> None:
        if self._history is not None:
            self._write_ranges(self._history)
            if self._started:
                self._add_of_task("stopped", "stopped")
            self._history.close()
            self._history = None
