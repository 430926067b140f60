"""Runs a `plugin.TransferTask` exactly once (KIP-618).

Copied data and source offsets are written in the same transactions, which the task begins and ends
by itself. Its transactional id is claimed as that of a record task: first the leader fences earlier
tasks, and after the claim the run must still be wanted on this worker.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future

from connect.clock import SYSTEM_CLOCK, Clock, Deadline
from connect.errors import ConnectError
from connect.plugin import TransferTask
from connect.runtime.tasks.task import WorkerTaskContext
from connect.runtime.transfer.base_task import STEP_S, BaseTransferTask
from connect.runtime.transfer.record_transforms import WorkerRecordTransforms
from connect.runtime.transfer.transactions import TaskTransactions

__all__ = ["ExactlyOnceTransferTask"]


class ExactlyOnceTransferTask(BaseTransferTask):
    """One transfer task that writes in transactions."""

    def __init__(
        self,
        task: TransferTask,
        context: WorkerTaskContext,
        config: Mapping[str, str],
        transactions: TaskTransactions,
        clock: Clock = SYSTEM_CLOCK,
        *,
        transforms: WorkerRecordTransforms | None = None,
    ) -> None:
        """Create the task, which opens and closes the clients of `transactions`, and closes
        `transforms`."""
        super().__init__(task, context, config, transforms, clock, transactions=True)
        self._transactions = transactions
        context.transfer = transactions

    def start(self) -> None:
        if not self._transactions.claim(lambda: not self._stop_asked.is_set()):
            return
        self._context.open_offsets()
        self._begin()

    def turn(self) -> None:
        self._task.step(STEP_S)
        self._take_note()

    def turn_now(self) -> float:
        self._task.step(0.0)
        self._take_note()
        return min(STEP_S, self._task.due_in_s())

    def commit_soon(self) -> Future[None]:
        return self._task.request_commit()

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
            self._context.close_offsets()
            self._close_transforms()

    def _take_note(self) -> None:
        measured = self._transactions.measured
        while measured:
            ms, records, committed = measured.popleft()
            self._context.figures.committed(ms, success=committed)
            if committed and self._figures is not None:
                self._figures.transaction(records)
        super()._take_note()
