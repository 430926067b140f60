"""Transfer tasks: they move the bytes themselves."""

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
    """How one source partition of a transfer task is doing. A number that is None is not known.

    `lag_records` counts source offsets up to the end of the log; `lag_bytes` is an estimate of
    their size. `lag_ms` is the age of the newest copied record while more records wait. In
    `time_to_loss_ms`, the source may delete records that are not copied yet; None also means that
    no loss is expected. `error` None: it moves, or is caught up.
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
    """Records that a transfer task has read, and that the target has acknowledged, since it was
    made; and those between the two now."""

    read: int
    acknowledged: int
    under_way: int


class TransferTask(ABC):
    """Moves bytes from a source to a target by itself.

    The worker's loop, on the task's thread:

        initialize(context); start(config)
        until stop is requested:
            step(timeout)
            every offset.flush.interval.ms, if no commit is under way:
                future = prepare_commit()
            when that future is done: store its offsets; when they are stored: committed()
        drain(deadline); prepare_commit() once more, stored; committed(); stop()

    After `step` has raised, neither `step` nor `drain` is called again: `prepare_commit` once more,
    `deliver` until its future is done, then `committed` and `stop`.

    Under exactly-once, where `writes_transactions`: the task commits through `context.transfer`, in
    its steps and at the end of `drain`, and `reconfigure` is called for nothing but the connector's
    `live_keys` and, where `grows_exactly_once`, what `only_adds`.
    """

    context: TaskContext

    def initialize(self, context: TaskContext) -> None:
        self.context = context

    @abstractmethod
    def start(self, config: Mapping[str, str]) -> None:
        """Begin. Raise `ConnectError` to fail the task."""

    @abstractmethod
    def step(self, timeout: float) -> None:
        """One turn of the task's loop: do what is ready, or wait at most `timeout` seconds for
        something to become ready. An exception fails the task."""

    @abstractmethod
    def wake(self) -> None:
        """Make a waiting `step` return soon. Called from any thread."""

    def stopping(self) -> None:
        """A stop was asked for, `start` may still be under way: then what it waits for may be given
        up, by raising `Interrupted`. Called from any thread, after `initialize` under exactly-once
        and at any time otherwise, perhaps twice."""
        self.wake()

    @abstractmethod
    def prepare_commit(self) -> Future[list[StoredOffset]]:
        """Gather the source offsets that are safe to store: every earlier record was acknowledged
        by the target, and whatever else must be durable first is. Only what changed since the last
        commit. Completed on any thread."""

    def deliver(self) -> None:  # noqa: B027 - most tasks need none
        """Take the acknowledgements that the future of `prepare_commit` waits for, read and write
        nothing else, return at once. Called instead of `step` once the task has failed. For tasks
        whose `step` completes that future."""

    @abstractmethod
    def committed(self) -> None:
        """The offsets of the last `prepare_commit` are stored."""

    @classmethod
    def writes_transactions(cls) -> bool:
        """Whether the task writes exactly once where `context.transfer` is set. It commits by
        itself then: `prepare_commit` and `committed` are not called, `request_commit` is."""
        return False

    def request_commit(self) -> Future[None]:
        """Commit soon, whatever the boundary: what was acknowledged up to now is stored when the
        future is done. Only under exactly-once."""
        raise NotImplementedError

    @classmethod
    def only_adds(cls, before: Mapping[str, str], after: Mapping[str, str]) -> bool:
        """Whether a task with config `before` gives nothing up with config `after`. Then it may go
        on while a group of workers takes over new configs, and is offered `after` when all workers
        have done so; else it ends first, so that what it gives up has no two owners. Pure."""
        return False

    @classmethod
    def grows_exactly_once(cls) -> bool:
        """Whether `only_adds` counts under exactly-once, too, where the connector has no other
        task: this one's transactional id stays its own, so nobody has to be fenced out."""
        return False

    def reconfigure(self, config: Mapping[str, str]) -> bool:
        """Take a new config without stopping. False: the worker must restart the task instead."""
        return False

    @abstractmethod
    def pause(self) -> None:
        """Stop fetching, finish what is in flight, keep resources; `step` is still called."""

    @abstractmethod
    def resume(self) -> None: ...

    @abstractmethod
    def drain(self, deadline: Deadline) -> None:
        """Stop fetching and run the loop until everything produced is acknowledged, or the
        deadline passes."""

    @abstractmethod
    def stop(self) -> None:
        """Close everything. Called once, also after a failed `start`."""

    @abstractmethod
    def health(self) -> list[PartitionHealth]:
        """One entry for each assigned partition. Called from any thread."""

    def trouble(self) -> str | None:
        """What the task cannot do for now beyond what `health` says, while it goes on trying. It
        gets into the trace of its status. None: nothing. On the task's thread, every few seconds.
        """
        return None

    def counts(self) -> TransferCounts | None:
        """What it has moved so far, for metrics; None: it does not count. Called from any thread,
        and often."""
        return None
