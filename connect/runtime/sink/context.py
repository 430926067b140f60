"""The context that the worker passes to a sink task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from connect.metrics.task_metrics import TaskMetrics
from connect.plugin import TopicPartition
from connect.runtime.sink.offsets import SinkOffsets

if TYPE_CHECKING:
    from connect.metrics.registry import MetricRegistry
    from connect.runtime.sink.records import WorkerErrantRecordReporter

__all__ = ["WorkerSinkTaskContext"]


@dataclass(slots=True)
class WorkerSinkTaskContext:
    """The `plugin.SinkTaskContext` of one task. Requests are applied after the task's current
    call.
    """

    connector_name: str
    task_index: int
    worker_id: str
    metrics: MetricRegistry
    figures: TaskMetrics = field(default_factory=lambda: TaskMetrics("", 0))
    """The metrics of this task."""
    offsets: SinkOffsets = field(default_factory=SinkOffsets)
    seeks: dict[TopicPartition, int] = field(default_factory=dict)
    paused: set[TopicPartition] = field(default_factory=set)
    retry_s: float | None = None
    commit_requested: bool = False
    pauses_changed: bool = False
    reporter: WorkerErrantRecordReporter | None = None

    def errant_record_reporter(self) -> WorkerErrantRecordReporter | None:
        return self.reporter

    def assignment(self) -> frozenset[TopicPartition]:
        return self.offsets.assigned

    def seek(self, offsets: Mapping[TopicPartition, int]) -> None:
        self.seeks.update(offsets)

    def retry_after(self, seconds: float) -> None:
        self.retry_s = seconds

    def pause(self, partitions: Sequence[TopicPartition]) -> None:
        self.paused |= set(partitions)
        self.pauses_changed = True

    def resume(self, partitions: Sequence[TopicPartition]) -> None:
        self.paused -= set(partitions)
        self.pauses_changed = True

    def request_commit(self) -> None:
        self.commit_requested = True
