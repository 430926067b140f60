"""Runs a `plugin.TransferTask` exactly once (KIP-618).

Copied data and source offsets are written in the same transactions, which the task begins and ends
by itself. Its transactional id is claimed as that of a record task: first the leader fences earlier
tasks, and after the claim the run must still be wanted on this worker.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from concurrent.futures import Future

from connect.clock import SYSTEM_CLOCK, Clock, Deadline
from connect.errors import ConnectError
from connect.metrics.source_task_metrics import (
    SOURCE_TASK_GROUP,
    SourceTaskMetrics,
    SourceTotals,
)
from connect.plugin import PartitionHealth, TransferCounts, TransferTask
from connect.runtime.error_handling.metrics import ERROR_GROUP
from connect.runtime.tasks.task import WorkerTask, WorkerTaskContext, in_lines
from connect.runtime.transfer.record_transforms import WorkerRecordTransforms, error_metrics
from connect.runtime.transfer.task import what_stands_still
from connect.runtime.transfer.transactions import TaskTransactions
from connect.storage.offset_store import READ_S, OffsetStore

__all__ = ["ExactlyOnceTransferTask"]

_CLOSE_STORE_S = 1.0
_STEP_S = 1.0
_NOTE_S = 0.5


class ExactlyOnceTransferTask(WorkerTask):
    """One transfer task that writes in transactions.

    `stopping`, `wake` and `health` come from any thread.
    """

    def __init__(
        self,
        task: TransferTask,
        context: WorkerTaskContext,
        config: Mapping[str, str],
        transactions: TaskTransactions,
        store: OffsetStore,
        clock: Clock = SYSTEM_CLOCK,
        *,
        transforms: WorkerRecordTransforms | None = None,
    ) -> None:
        """Create the task, which opens and closes `store` and the clients of `transactions`, and
        closes `transforms`."""
        self._task = task
        self._context = context
        self._config = config
        self._transactions = transactions
        self._store = store
        self._clock = clock
        self._stop_asked = threading.Event()
        self._begun = False
        self._note_due = clock.monotonic()
        self._transforms = context.transforms = transforms
        context.transfer = transactions
        context.figures.add(ERROR_GROUP, error_metrics(transforms, clock).read)
        self._figures = SourceTaskMetrics(self._totals, clock, transactions=True)
        context.figures.add(SOURCE_TASK_GROUP, self._figures.read)

    def start(self) -> None:
        if not self._transactions.claim(lambda: not self._stop_asked.is_set()):
            return
        self._store.start(Deadline(READ_S, self._clock))
        self._task.initialize(self._context)
        self._begun = True
        if self._stop_asked.is_set():
            self._task.stopping()
        self._task.start(self._config)

    def turn(self) -> None:
        self._task.step(_STEP_S)
        self._take_note()

    def descriptor(self) -> int | None:
        return self._task.descriptor() if self._begun else None

    def turn_now(self) -> float:
        self._task.step(0.0)
        self._take_note()
        return min(_STEP_S, self._task.due_in_s())

    def pause(self) -> None:
        """Pause. The open transaction is committed as soon as its records are acknowledged."""
        self._task.pause()

    def resume(self) -> None:
        self._task.resume()

    def commit_soon(self) -> Future[None]:
        return self._task.request_commit()

    def reconfigure(self, config: Mapping[str, str]) -> bool:
        return self._begun and self._task.reconfigure(config)

    def finish(self, deadline: Deadline, *, failed: bool) -> bool:
        """Finish. If a commit is impossible, the open transaction is aborted, so nothing is copied
        twice.
        """
        if failed or not self._begun:
            return True
        self._task.drain(deadline)
        return True

    def close(self) -> None:
        try:
            if self._begun:
                self._task.stop()
        finally:
            self._take_note()
            ended = f"Task {self._context.connector_name}-{self._context.task_index} has ended"
            self._transactions.close(ConnectError(ended))
            self._store.stop(Deadline(_CLOSE_STORE_S, self._clock))
            if self._transforms is not None:
                self._transforms.close()

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
        return in_lines(what_stands_still(*unhealthy), self._task.trouble())

    def health(self) -> list[PartitionHealth]:
        return self._task.health() if self._begun else []

    def _totals(self) -> SourceTotals:
        """Return the record counts. Called on any thread."""
        counts = self._task.counts() or TransferCounts(0, 0, 0)
        left_out = counts.read - counts.acknowledged - counts.under_way
        return SourceTotals(counts.read, counts.acknowledged, left_out)

    def _take_note(self) -> None:
        measured = self._transactions.measured
        while measured:
            ms, records, committed = measured.popleft()
            self._context.figures.committed(ms, success=committed)
            if committed:
                self._figures.transaction(records)
        now = self._clock.monotonic()
        if now >= self._note_due:
            self._note_due = now + _NOTE_S
            self._figures.turn()
