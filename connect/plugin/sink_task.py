"""Sink tasks: they take records."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Protocol

from connect.data.record import SinkRecord
from connect.topic_partition import TopicPartition

if TYPE_CHECKING:
    from connect.metrics.registry import MetricRegistry

__all__ = ["ErrantRecordReporter", "SinkTask", "SinkTaskContext"]


class ErrantRecordReporter(Protocol):
    """For records that a sink task cannot take while it can take others (KIP-610)."""

    def report(self, record: SinkRecord, error: Exception) -> Future[None]:
        """Hand over a record that `put` was given, and why it failed; then go on with the others.

        With `errors.tolerance=all` it is logged and written to the dead letter queue, as the
        connector's config says. The future is done when that is safe; nobody has to wait for it:
        no offset is committed earlier. With `errors.tolerance=none` this raises `TaskFailed`, and
        the task fails even when it goes on. Safe to call from any thread, until `put` or `flush`
        of the record's partition has returned.
        """


class SinkTaskContext(Protocol):
    """What the worker offers to a running sink task. For the task's thread only."""

    connector_name: str
    task_index: int
    worker_id: str
    metrics: MetricRegistry

    def assignment(self) -> frozenset[TopicPartition]:
        """The partitions whose records this task gets now."""

    def seek(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Go on at these offsets, after the call that is under way."""

    def retry_after(self, seconds: float) -> None:
        """When `put` raises `RetriableError` next, try again after this time."""

    def pause(self, partitions: Sequence[TopicPartition]) -> None:
        """Give no more records of these partitions, until `resume`."""

    def resume(self, partitions: Sequence[TopicPartition]) -> None:
        """Undo `pause`."""

    def request_commit(self) -> None:
        """Commit offsets soon, without waiting for the interval."""

    def errant_record_reporter(self) -> ErrantRecordReporter | None:
        """Where to report single records. None where the connector's config has neither a dead
        letter queue nor `errors.log.enable`: then raise, as before."""


class SinkTask(ABC):
    """Takes records. Lifecycle: initialize, start, then open, put, pre_commit and close as
    partitions come and go, stop; all on the task's thread."""

    context: SinkTaskContext

    def initialize(self, context: SinkTaskContext) -> None:
        self.context = context

    @abstractmethod
    def start(self, config: Mapping[str, str]) -> None: ...

    @abstractmethod
    def put(self, records: Sequence[SinkRecord]) -> None:
        """Take records, in the order of each partition. They may be kept until `flush`.

        `RetriableError`: the same records come again, a second later or when `retry_after` says.
        Any other exception fails the task.
        """

    def flush(self, offsets: Mapping[TopicPartition, int]) -> None:  # noqa: B027 - optional hook
        """Make everything that was put before these offsets (exclusive) durable."""

    def pre_commit(self, offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        """The offsets that may be committed; those in `offsets` are behind the last record put.

        An exception: the consumer goes back to the offsets committed last.
        """
        self.flush(offsets)
        return offsets

    def open(self, partitions: Sequence[TopicPartition]) -> None:  # noqa: B027 - optional hook
        """From now on records of these partitions come, too."""

    def close(self, partitions: Sequence[TopicPartition]) -> None:  # noqa: B027 - optional hook
        """Records of these partitions do not come any more; what could be was committed."""

    def stopping(self) -> None:  # noqa: B027 - optional hook
        """Stop was requested: a blocked `put` should return. Called from another thread."""

    @abstractmethod
    def stop(self) -> None:
        """Close everything. No other method is called afterwards."""
