"""The common part of transfer tasks that write at least once and exactly once."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence

from connect.clock import Clock
from connect.metrics.source_task_metrics import (
    SOURCE_TASK_GROUP,
    SourceTaskMetrics,
    SourceTotals,
)
from connect.plugin import PartitionHealth, TransferCounts, TransferTask
from connect.runtime.error_handling.metrics import ERROR_GROUP
from connect.runtime.tasks.task import WorkerTask, WorkerTaskContext, in_lines
from connect.runtime.transfer.record_transforms import WorkerRecordTransforms, error_metrics

__all__ = ["STEP_S", "BaseTransferTask"]

STEP_S = 1.0
"""The longest wait of a step without work. Events wake it earlier."""

# Rates cover at least 30 s, so the counts need not be sampled more often.
_NOTE_S = 0.5
# Maximum number of stuck partitions listed in a status.
_TOLD = 20


class BaseTransferTask(WorkerTask):
    """A transfer task. `stopping`, `wake` and `health` come from any thread."""

    def __init__(
        self,
        task: TransferTask,
        context: WorkerTaskContext,
        config: Mapping[str, str],
        transforms: WorkerRecordTransforms | None,
        clock: Clock,
        *,
        transactions: bool,
    ) -> None:
        """Create the task, which closes `transforms`."""
        self._task = task
        self._context = context
        self._config = config
        self._clock = clock
        self._stop_asked = threading.Event()
        self._begun = False
        self._transforms = context.transforms = transforms
        context.figures.add(ERROR_GROUP, error_metrics(transforms, clock).read)
        self._note_due = clock.monotonic()
        self._figures: SourceTaskMetrics | None = None
        if transactions or task.counts() is not None:
            self._figures = SourceTaskMetrics(self._totals, clock, transactions=transactions)
            context.figures.add(SOURCE_TASK_GROUP, self._figures.read)

    def _begin(self) -> None:
        """Start the plugin. It is told of a stop from its `initialize` on."""
        self._task.initialize(self._context)
        self._begun = True
        if self._stop_asked.is_set():
            self._task.stopping()
        self._task.start(self._config)

    def descriptor(self) -> int | None:
        return self._task.descriptor() if self._begun else None

    @property
    def computes(self) -> bool:
        return self._transforms is not None

    def pause(self) -> None:
        """Pause. An open transaction is committed as soon as its records are acknowledged."""
        self._task.pause()

    def resume(self) -> None:
        self._task.resume()

    def reconfigure(self, config: Mapping[str, str]) -> bool:
        return self._begun and self._task.reconfigure(config)

    def wake(self) -> None:
        if self._begun:
            self._task.wake()

    def stopping(self) -> None:
        self._stop_asked.set()
        if self._transforms is not None:
            self._transforms.stop()
        if self._begun:
            self._task.stopping()

    def trouble(self) -> str | None:
        unhealthy = self._task.unhealthy() if self._begun else ([], 0)
        return in_lines(_what_stands_still(*unhealthy), self._task.trouble())

    def health(self) -> list[PartitionHealth]:
        return self._task.health() if self._begun else []

    def _totals(self) -> SourceTotals:
        """Return the record counts. Called on any thread."""
        counts = self._task.counts() or TransferCounts(0, 0, 0)
        left_out = counts.read - counts.acknowledged - counts.under_way
        return SourceTotals(counts.read, counts.acknowledged, left_out)

    def _take_note(self) -> None:
        """Sample the counts now and then, because a busy task has very many turns."""
        now = self._clock.monotonic()
        if self._figures is not None and now >= self._note_due:
            self._note_due = now + _NOTE_S
            self._figures.turn()

    def _close_transforms(self) -> None:
        if self._transforms is not None:
            self._transforms.close()


def _what_stands_still(unhealthy: Sequence[PartitionHealth], in_all: int) -> str | None:
    """Return the partitions that make no progress and are not caught up, with reasons, or None."""
    ill = sorted((p.name, p.error) for p in unhealthy if p.error is not None)
    if not ill:
        return None
    lines = [f"{len(ill)} of {in_all} partitions make no progress:"]
    lines += [f"{name}: {error}" for name, error in ill[:_TOLD]]
    if len(ill) > _TOLD:
        lines.append(f"and {len(ill) - _TOLD} more")
    return "\n".join(lines)
