"""The transfer task interface: the task copies the data itself."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from connect.data.record import OffsetValue
from connect.plugin.contexts import TaskContext
from connect.plugin.stored import StoredOffset

if TYPE_CHECKING:
    from connect.clock import Deadline

__all__ = ["PartitionHealth", "TransferCounts", "TransferTask"]


@dataclass(frozen=True, slots=True)
class PartitionHealth:
    """The health of one source partition of a transfer task. A number that is None is unknown.

    `lag_records` counts source offsets up to the end of the log; `lag_bytes` is an estimate of
    their size. `lag_ms` is the age of the newest copied record while more records wait.
    `time_to_loss_ms` is the time until the source may delete records that are not copied yet; None
    also means that no loss is expected. `error` is None while the partition is copied or has no
    new records.
    """

    topic: str
    partition: int
    lag_records: int | None
    lag_ms: int | None
    error: str | None = None
    lag_bytes: int | None = None
    time_to_loss_ms: int | None = None
    details: Mapping[str, OffsetValue] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.partition}"


@dataclass(frozen=True, slots=True)
class TransferCounts:
    """A transfer task's record counts since it was created.

    They are the records read, the records acknowledged by the target, and those in between now.
    """

    read: int
    acknowledged: int
    under_way: int


class TransferTask(ABC):
    """Copies data from a source to a target by itself.

    The worker's loop, on the task's thread (but see `descriptor`):

        initialize(context); start(config)
        until stop is requested:
            step(timeout)
            every offset.flush.interval.ms, if no commit is under way:
                future = prepare_commit()
            when that future is done: store its offsets; when they are stored: committed()
        drain(deadline); prepare_commit() once more, stored; committed(); stop()

    After `step` has raised, neither `step` nor `drain` is called again. The worker then calls
    `prepare_commit` once more, `deliver` until its future is done, then `committed` and `stop`.

    Under exactly-once, if `writes_transactions`, the task commits through `context.transfer`, in
    its steps and at the end of `drain`. `reconfigure` is then called only for the connector's
    `live_keys` and, if `grows_exactly_once`, for changes that pass `only_adds`.
    """

    context: TaskContext

    def initialize(self, context: TaskContext) -> None:
        self.context = context

    @abstractmethod
    def start(self, config: Mapping[str, str]) -> None:
        """Start. Raise `ConnectError` to fail the task."""

    @abstractmethod
    def step(self, timeout: float) -> None:
        """Run one iteration: do the work that is ready, or wait at most `timeout` seconds for some.

        An exception fails the task.
        """

    @abstractmethod
    def wake(self) -> None:
        """Make a waiting `step` return soon. Called from any thread."""

    def descriptor(self) -> int | None:
        """Return a file descriptor that is readable while `step` has work, also after `wake`.

        The worker then watches it and calls `step(0)`, `prepare_commit` and `committed` on the
        thread that it shares among such tasks, so these must not block: not on a network, a
        database or a lock that another thread holds while it computes. Every other method stays
        on the task's own thread, and never runs at the same time. It is called after `start`.
        None: the task has its thread for itself.
        """
        return None

    def due_in_s(self) -> float:
        """Return the seconds until `step` has work although the descriptor is not readable.

        Called after each `step(0)`; a second passes at most before the next one.
        """
        return 0.0

    def stopping(self) -> None:
        """Called when a stop is requested, possibly while `start` runs.

        `start` may then give up its waits by raising `Interrupted`. Called from any thread, perhaps
        twice; under exactly-once after `initialize`, otherwise at any time.
        """
        self.wake()

    @abstractmethod
    def prepare_commit(self) -> Future[list[StoredOffset]]:
        """Gather the source offsets that are safe to store, and that changed since the last commit.

        An offset is safe if the target acknowledged every earlier record and all related writes are
        durable. The future may complete on any thread.
        """

    def deliver(self) -> None:  # noqa: B027 - most tasks need none
        """Process acknowledgements that the future of `prepare_commit` waits for, and return at
        once.

        Must not read or write anything else. Called in place of `step` after the task has failed,
        for tasks whose `step` completes that future.
        """

    @abstractmethod
    def committed(self) -> None:
        """Called when the offsets of the last `prepare_commit` are stored."""

    @classmethod
    def writes_transactions(cls) -> bool:
        """Return whether the task writes exactly once if `context.transfer` is set.

        Such a task commits by itself: the worker calls `request_commit`, not `prepare_commit` and
        `committed`.
        """
        return False

    @classmethod
    def transforms_prefix(cls) -> str | None:
        """Return the prefix of the keys `key.converter`, `value.converter` and `header.converter`
        for reading the source's bytes before transformations; None: the task runs no
        transformations, and a connector with `transforms` is refused.

        A task that runs them finds them in `context.transforms`.
        """
        return None

    def request_commit(self) -> Future[None]:
        """Commit soon, regardless of the boundary. Only under exactly-once.

        The future completes when everything acknowledged so far is stored.
        """
        raise NotImplementedError

    @classmethod
    def only_adds(cls, before: Mapping[str, str], after: Mapping[str, str]) -> bool:
        """Return whether a task with config `before` keeps all its work with config `after`. Pure.

        Then it may continue while the worker group applies new task configs, and gets `after` when
        all workers have done so. Otherwise it ends first, so that no partition has two owners.
        """
        return False

    @classmethod
    def grows_exactly_once(cls) -> bool:
        """Return whether `only_adds` applies under exactly-once, if the connector has no other
        task.

        The only task keeps its transactional id, so no producer needs to be fenced.
        """
        return False

    def reconfigure(self, config: Mapping[str, str]) -> bool:
        """Apply a new config without stopping. Return False if the worker must restart the task."""
        return False

    @abstractmethod
    def pause(self) -> None:
        """Stop fetching and finish requests in flight, but keep resources. `step` is still
        called.
        """

    @abstractmethod
    def resume(self) -> None: ...

    @abstractmethod
    def drain(self, deadline: Deadline) -> None:
        """Stop fetching, and run until all produced records are acknowledged or the deadline
        passes.
        """

    @abstractmethod
    def stop(self) -> None:
        """Close everything. Called once, also after a failed `start`."""

    @abstractmethod
    def health(self) -> list[PartitionHealth]:
        """Return one entry for each assigned partition. Called from any thread."""

    def unhealthy(self) -> tuple[list[PartitionHealth], int]:
        """Return the partitions with an error, and how many are assigned in all. Called every few
        seconds, from any thread if the task has a `descriptor`. Override it if a task may have very
        many partitions.
        """
        found = self.health()
        return [each for each in found if each.error is not None], len(found)

    def trouble(self) -> str | None:
        """Return a problem of the whole task that it retries, or None.

        It is added to the trace of the task's status; `health` covers single partitions. Called
        every few seconds, from any thread if the task has a `descriptor`.
        """
        return None

    def counts(self) -> TransferCounts | None:
        """Return the task's record counts for metrics, or None. Called often, from any thread."""
        return None
