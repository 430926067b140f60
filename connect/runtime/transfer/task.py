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
from connect.runtime.error_handling.metrics import ERROR_GROUP, ErrorMetrics
from connect.runtime.tasks.offset_committer import OffsetCommitter
from connect.runtime.tasks.task import WorkerTask, WorkerTaskContext, in_lines
from connect.storage.offset_writer import OffsetWriter

__all__ = ["WorkerTransferTask", "what_stands_still"]

# A step that has nothing to do waits at most this long; whatever matters earlier wakes it.
_STEP_S = 1.0
# The rest of a stopping task's time is kept for the final commit: its two round trips need little.
_DRAIN_SHARE = 0.7
# Rates are of 30 s at least, so it need not be noted more often what was moved.
_NOTE_S = 0.5
# Partitions that a status names.
_TOLD = 20


class Moved(Protocol):
    """A `threading.Event`, as far as it is used here."""

    def set(self) -> None: ...
    def clear(self) -> None: ...
    def wait(self, timeout: float) -> bool:
        """Wait until it is set, for at most `timeout` seconds."""


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
        commit_moved: Moved | None = None,
    ) -> None:
        """`commit_moved`: what waits for the last commit of a failed task, for simulations."""
        self._task = task
        self._context = context
        self._config = config
        self._clock = clock
        # Nothing is skipped or tried again here, which dashboards are to show like other tasks'.
        context.figures.add(ERROR_GROUP, ErrorMetrics(clock).read)
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

    def _take_note(self) -> None:
        """Now and then: a busy task has very many turns."""
        now = self._clock.monotonic()
        if self._figures is not None and now >= self._note_due:
            self._note_due = now + _NOTE_S
            self._figures.turn()

    def _totals(self) -> SourceTotals:
        """On any thread."""
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
            # The target has acknowledged records before the failure: their offsets are stored. The
            # task must not step for that, as it may go on after records that it failed to copy.
            return self._committer.finish(deadline, self._deliver)
        self._task.drain(Deadline(deadline.remaining() * _DRAIN_SHARE, self._clock))
        return self._committer.finish(deadline, self._task.step)

    def _deliver(self, seconds: float) -> None:
        """Let the commit of a task that has failed go on; wait for that at most so long."""
        self._task.deliver()
        self._commit_moved.wait(seconds)
        self._commit_moved.clear()

    def _wake_committer(self) -> None:
        """A step of the commit is done. Called from any thread."""
        self._commit_moved.set()
        self._task.wake()

    def close(self) -> None:
        self._committer.abandon(ConnectError("The task has ended"))
        self._task.stop()

    def wake(self) -> None:
        self._task.wake()

    def stopping(self) -> None:
        self._task.stopping()

    def trouble(self) -> str | None:
        task = self._task
        return in_lines(what_stands_still(task.health()), task.trouble(), self._committer.trouble)

    def health(self) -> list[PartitionHealth]:
        return self._task.health()


def what_stands_still(found: Sequence[PartitionHealth]) -> str | None:
    """The partitions that neither move nor are caught up, and why; None: there are none."""
    ill = sorted((p.name, p.error) for p in found if p.error is not None)
    if not ill:
        return None
    lines = [f"{len(ill)} of {len(found)} partitions make no progress:"]
    lines += [f"{name}: {error}" for name, error in ill[:_TOLD]]
    if len(ill) > _TOLD:
        lines.append(f"and {len(ill) - _TOLD} more")
    return "\n".join(lines)
