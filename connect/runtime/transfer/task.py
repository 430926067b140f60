"""Runs a `plugin.TransferTask`: steps, commits in between, and the drain at the end."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Protocol

from connect.clock import SYSTEM_CLOCK, Clock, Deadline
from connect.errors import ConnectError
from connect.metrics.source_task_metrics import (
    SOURCE_TASK_GROUP,
    SourceTaskMetrics,
    SourceTotals,
)
from connect.plugin import PartitionHealth, TransferCounts, TransferTask
from connect.runtime.error_handling.metrics import ERROR_GROUP
from connect.runtime.tasks.offset_committer import OffsetCommitter
from connect.runtime.tasks.task import WorkerTask, WorkerTaskContext, in_lines
from connect.runtime.transfer.record_transforms import WorkerRecordTransforms, error_metrics
from connect.storage.offset_writer import OffsetWriter

__all__ = ["WorkerTransferTask", "what_stands_still"]

# The longest wait of a step without work. Events wake it earlier.
_STEP_S = 1.0
# The rest of a stopping task's time is for the final commit, which needs two round trips.
_DRAIN_SHARE = 0.7
# Rates cover at least 30 s, so the counts need not be sampled more often.
_NOTE_S = 0.5
# Maximum number of stuck partitions listed in a status.
_TOLD = 20


class Moved(Protocol):
    """The part of `threading.Event` that is used here."""

    def set(self) -> None: ...
    def clear(self) -> None: ...
    def wait(self, timeout: float) -> bool:
        """Wait until it is set, for at most `timeout` seconds."""


class WorkerTransferTask(WorkerTask):
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
        self._task = task
        self._context = context
        self._config = config
        self._clock = clock
        self._transforms = context.transforms = transforms
        context.figures.add(ERROR_GROUP, error_metrics(transforms, clock).read)
        self._figures: SourceTaskMetrics | None = None
        self._note_due = clock.monotonic()
        self._commit_moved: Moved = commit_moved or threading.Event()
        if task.counts() is not None:
            self._figures = SourceTaskMetrics(self._totals, clock)
            context.figures.add(SOURCE_TASK_GROUP, self._figures.read)
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
        self._task.initialize(self._context)
        self._task.start(self._config)

    def turn(self) -> None:
        self._task.step(min(_STEP_S, self._committer.next_turn_s()))
        self._committer.turn()
        self._take_note()

    def descriptor(self) -> int | None:
        return self._task.descriptor()

    def turn_now(self) -> float:
        self._task.step(0.0)
        self._committer.turn()
        self._take_note()
        return min(_STEP_S, self._committer.next_turn_s(), self._task.due_in_s())

    def _take_note(self) -> None:
        """Sample the counts now and then, because a busy task has very many turns."""
        now = self._clock.monotonic()
        if self._figures is not None and now >= self._note_due:
            self._note_due = now + _NOTE_S
            self._figures.turn()

    def _totals(self) -> SourceTotals:
        """Return the record counts. Called on any thread."""
        counts = self._task.counts() or TransferCounts(0, 0, 0)
        left_out = counts.read - counts.acknowledged - counts.under_way
        return SourceTotals(counts.read, counts.acknowledged, left_out)

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
            # Store the offsets of records that the target acknowledged before the failure. The task
            # must not step for that, because it might continue after records that it failed to
            # copy.
            return self._committer.finish(deadline, self._deliver)
        self._task.drain(Deadline(deadline.remaining() * _DRAIN_SHARE, self._clock))
        return self._committer.finish(deadline, self._task.step)

    def _deliver(self, seconds: float) -> None:
        """Continue the commit of a failed task, and wait for it at most so long."""
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
            self._task.stop()
        finally:
            if self._transforms is not None:
                self._transforms.close()

    def wake(self) -> None:
        self._task.wake()

    def stopping(self) -> None:
        if self._transforms is not None:
            self._transforms.stop()
        self._task.stopping()

    def trouble(self) -> str | None:
        task = self._task
        return in_lines(
            what_stands_still(*task.unhealthy()), task.trouble(), self._committer.trouble
        )

    def health(self) -> list[PartitionHealth]:
        return self._task.health()


def what_stands_still(unhealthy: Sequence[PartitionHealth], in_all: int) -> str | None:
    """Return the partitions that make no progress and are not caught up, with reasons, or None."""
    ill = sorted((p.name, p.error) for p in unhealthy if p.error is not None)
    if not ill:
        return None
    lines = [f"{len(ill)} of {in_all} partitions make no progress:"]
    lines += [f"{name}: {error}" for name, error in ill[:_TOLD]]
    if len(ill) > _TOLD:
        lines.append(f"and {len(ill) - _TOLD} more")
    return "\n".join(lines)
