"""Runs a `plugin.TransferTask`: steps, commits in between, and the drain at the end."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Protocol

from connect.clock import SYSTEM_CLOCK, Clock, Deadline
from connect.errors import ConnectError
from connect.plugin import TransferTask
from connect.runtime.tasks.offset_committer import OffsetCommitter
from connect.runtime.tasks.task import WorkerTaskContext, in_lines
from connect.runtime.transfer.base_task import STEP_S, BaseTransferTask
from connect.runtime.transfer.record_transforms import WorkerRecordTransforms
from connect.storage.offset_writer import OffsetWriter

__all__ = ["WorkerTransferTask"]

# The rest of a stopping task's time is for the final commit, which needs two round trips.
_DRAIN_SHARE = 0.7


class Moved(Protocol):
    """The part of `threading.Event` that is used here."""

    def set(self) -> None: ...
    def clear(self) -> None: ...
    def wait(self, timeout: float) -> bool:
        """Wait until it is set, for at most `timeout` seconds."""


class WorkerTransferTask(BaseTransferTask):
    """A transfer task with its commits."""

    def __init__(
        self,
        task: TransferTask,
        context: WorkerTaskContext,
        config: Mapping[str, str],
        writer: OffsetWriter,
        transforms: WorkerRecordTransforms | None = None,
        *,
        commit_interval_s: float,
        commit_timeout_s: float,
        clock: Clock = SYSTEM_CLOCK,
        commit_moved: Moved | None = None,
    ) -> None:
        """Create the task, which closes `transforms`. `commit_moved` waits for the last commit of
        a failed task; simulations set it.
        """
        super().__init__(task, context, config, transforms, clock, transactions=False)
        self._commit_moved: Moved = commit_moved or threading.Event()
        self._committer = OffsetCommitter(
            f"{context.connector_name}-{context.task_index}",
            writer,
            task.prepare_commit,
            task.committed,
            self._wake_committer,
            interval_s=commit_interval_s,
            timeout_s=commit_timeout_s,
            metrics=context.figures,
            clock=clock,
        )
        context.on_commit_request = self._committer.request

    def start(self) -> None:
        self._context.open_offsets()
        self._begin()

    def turn(self) -> None:
        self._task.step(min(STEP_S, self._committer.next_turn_s()))
        self._committer.turn()
        self._take_note()

    def turn_now(self) -> float:
        self._task.step(0.0)
        self._committer.turn()
        self._take_note()
        return min(STEP_S, self._committer.next_turn_s(), self._task.due_in_s())

    def commit_soon(self) -> Future[None]:
        return self._committer.request()

    def finish(self, deadline: Deadline, *, failed: bool) -> bool:
        if failed:
            # Store the offsets of records that the target acknowledged before the failure. The task
            # must not step for that, because it might continue after records that it failed to
            # copy.
            return self._committer.finish(deadline, self._deliver)
        self._task.drain(Deadline(deadline.remaining() * _DRAIN_SHARE, self._clock))
        return self._committer.finish(deadline, self._task.step)

    def _deliver(self, seconds: float) -> None:
        """Continue the commit of a failed task, and wait for it at most this long."""
        self._task.deliver()
        self._commit_moved.wait(seconds)
        self._commit_moved.clear()

    def _wake_committer(self) -> None:
        """Wake the thread because a step of the commit is done. Called from any thread."""
        self._commit_moved.set()
        self._task.wake()

    def close(self) -> None:
        self._committer.abandon(ConnectError("The task has ended"))
        try:
            if self._begun:
                self._task.stop()
        finally:
            self._close_transforms()
            self._context.close_offsets()

    def trouble(self) -> str | None:
        return in_lines(super().trouble(), self._committer.trouble)
