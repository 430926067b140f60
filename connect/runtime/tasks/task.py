"""The interface through which a host runs a task.

The host (`host`) owns the thread and the lifecycle; a `WorkerTask` does the work in turns.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from connect.clock import SYSTEM_CLOCK, Clock, Deadline
from connect.metrics.task_metrics import TaskMetrics
from connect.plugin import (
    PartitionHealth,
    RecordTransforms,
    SourceOffset,
    SourcePartition,
    TransactionContext,
    TransferTransactions,
)
from connect.storage.offset_reader import OffsetReader
from connect.storage.offset_store import READ_S, OffsetStore

if TYPE_CHECKING:
    from connect.metrics.registry import MetricRegistry

__all__ = ["RESOLVE_S", "WorkerTask", "WorkerTaskContext", "in_lines"]

RESOLVE_S = 5.0
"""How long a task that starts looks up its brokers; a stop waits for it."""

_CLOSE_STORE_S = 1.0


@dataclass(slots=True)
class WorkerTaskContext:
    """The `plugin.TaskContext` of one task."""

    connector_name: str
    task_index: int
    worker_id: str
    metrics: MetricRegistry
    reader: OffsetReader
    producer: Mapping[str, str]
    topic_used: Callable[[str], None]
    clock: Clock = SYSTEM_CLOCK
    transactions: TransactionContext | None = None
    transfer: TransferTransactions | None = None
    transforms: RecordTransforms | None = None
    on_commit_request: Callable[[], object] = lambda: None
    figures: TaskMetrics = field(default_factory=lambda: TaskMetrics("", 0))
    """The metrics of this task."""
    own_offsets: OffsetStore | None = None
    """An offset store for this task only, which is opened before the task starts and closed last.
    """

    def open_offsets(self) -> None:
        """Open the task's own offset store, if it has one."""
        if self.own_offsets is not None:
            self.own_offsets.start(Deadline(READ_S, self.clock))

    def close_offsets(self) -> None:
        """Close the task's own offset store, if it has one."""
        if self.own_offsets is not None:
            self.own_offsets.stop(Deadline(_CLOSE_STORE_S, self.clock))

    def stored_offsets(self, partitions: Sequence[SourcePartition]) -> list[SourceOffset | None]:
        return self.reader.offsets(partitions, Deadline(READ_S, self.clock))

    def offset_marks(self, partitions: Sequence[SourcePartition]) -> list[int]:
        return self.reader.marks(partitions)

    def request_commit(self) -> None:
        self.on_commit_request()

    def producer_properties(self) -> Mapping[str, str]:
        return dict(self.producer)


class WorkerTask(ABC):
    """One task. All methods run on the task's thread, unless their docstring says otherwise.

    No two of them run at a time, except those that are called from any thread.
    """

    @abstractmethod
    def start(self) -> None:
        """Start. An exception fails the task; `close` is still called."""

    @abstractmethod
    def turn(self) -> None:
        """Work for about a second at most, or less after `wake`. An exception fails the task."""

    def descriptor(self) -> int | None:
        """Return a file descriptor that is readable while the running task has work, also after
        `wake`; None if its turns need its own thread.
        """
        return None

    @property
    def computes(self) -> bool:
        """Whether its turns compute for long. Tasks that only move bytes share no thread with
        it."""
        return False

    def turn_now(self) -> float:
        """Work without waiting, and return the seconds until the next turn is due even if the
        descriptor is not readable.

        Only for a task with a descriptor; called on the engine thread. Must not block.
        """
        raise NotImplementedError

    @abstractmethod
    def pause(self) -> None:
        """Stop reading new records from the next turn on. Offsets are still committed."""

    @abstractmethod
    def resume(self) -> None:
        """Resume after `pause`."""

    @abstractmethod
    def commit_soon(self) -> Future[None]:
        """Commit source offsets in one of the next turns. Done when they are stored."""

    def reconfigure(self, config: Mapping[str, str]) -> bool:
        """Apply a new config in place. Return False if the task must be restarted instead."""
        return False

    @abstractmethod
    def finish(self, deadline: Deadline, *, failed: bool) -> bool:
        """Wait for records in flight and store the final offsets. Return False if some are not
        stored.

        `failed`: the task itself must not be called for more work.
        """

    @abstractmethod
    def close(self) -> None:
        """Close everything. Called once, last."""

    @abstractmethod
    def wake(self) -> None:
        """End a waiting turn. Called from any thread."""

    def stopping(self) -> None:
        """Called when a stop is requested, from any thread, before the last turn has ended."""
        self.wake()

    def trouble(self) -> str | None:
        """Return why part of the running task makes no progress, or None. Cheap; called often,
        from any thread if the task has a descriptor.
        """
        return None

    def health(self) -> list[PartitionHealth]:
        """Return the health of the task's partitions, if known. Called from any thread."""
        return []


def in_lines(*troubles: str | None) -> str | None:
    """Return the texts that are not None as lines, or None if there are none."""
    return "\n".join(each for each in troubles if each) or None
