"""Runs a `plugin.TransferTask`: steps, commits in between, and the drain at the end."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from concurrent.futures import Future

from connect.clock import SYSTEM_CLOCK, Clock, Deadline
from connect.errors import ConnectError
from connect.plugin import PartitionHealth, TransferTask
from connect.runtime.committer import OffsetCommitter
from connect.runtime.task import WorkerTask, WorkerTaskContext
from connect.storage.offset_writer import OffsetWriter

__all__ = ["WorkerTransferTask"]

_log = logging.getLogger(__name__)

# A step that has nothing to do waits at most this long; whatever matters earlier wakes it.
_STEP_S = 1.0
# The rest of a stopping task's time is kept for the final commit: its two round trips need little.
_DRAIN_SHARE = 0.7


class WorkerTransferTask(WorkerTask):
    """One transfer task with its commits."""

    def __init__(
        self,
        task: TransferTask,
        context: WorkerTaskContext,
        config: Mapping[str, str],
        writer: OffsetWriter,
        *,
        commit_interval_s: float,
        commit_timeout_s: float,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._task = task
        self._context = context
        self._config = config
        self._clock = clock
        self._committer = OffsetCommitter(
            f"{context.connector_name}-{context.task_index}",
            writer,
            task.prepare_commit,
            task.committed,
            task.wake,
            interval_s=commit_interval_s,
            timeout_s=commit_timeout_s,
            clock=clock,
        )

    def start(self) -> None:
        self._task.initialize(self._context)
        self._task.start(self._config)

    def turn(self) -> None:
        self._task.step(min(_STEP_S, self._committer.next_turn_s()))
        self._committer.turn()

    def pause(self) -> None:
        self._task.pause()

    def resume(self) -> None:
        self._task.resume()

    def commit_soon(self) -> Future[None]:
        return self._committer.request()

    def reconfigure(self, config: Mapping[str, str]) -> bool:
        return self._task.reconfigure(config)

    def finish(self, deadline: Deadline, *, failed: bool) -> bool:
        if failed:
            # What the target acknowledged before the failure is still worth storing.
            return self._committer.finish(deadline, self._step_if_it_can)
        self._task.drain(Deadline(deadline.remaining() * _DRAIN_SHARE, self._clock))
        return self._committer.finish(deadline, self._task.step)

    def _step_if_it_can(self, seconds: float) -> None:
        """A turn of a task that failed already: gathering offsets may depend on its loop."""
        try:
            self._task.step(seconds)
        except Exception as error:  # noqa: BLE001 - its failure is known and shown already
            _log.debug("%s failed again: %s", type(self._task).__name__, error)
            threading.Event().wait(seconds)

    def close(self) -> None:
        self._committer.abandon(ConnectError("The task has ended"))
        self._task.stop()

    def wake(self) -> None:
        self._task.wake()

    def health(self) -> list[PartitionHealth]:
        return self._task.health()
