"""The sink task interface: a sink task writes records to an external system."""

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
    """Reports single records that a sink task cannot write (KIP-610)."""

    def report(self, record: SinkRecord, error: Exception) -> Future[None]:
        """Report a record of `put` with the reason of its failure, and continue with the others.

        With `errors.tolerance=all` it is logged and written to the dead letter queue, as the
        connector's config says. The future completes when that is durable. The task need not wait
        for it: no offset is committed earlier. With `errors.tolerance=none` this raises
        `TaskFailed`, and the task fails even if it catches the error. Safe to call from any thread,
        until `put` or `flush` of the record's partition has returned.
        """


class SinkTaskContext(Protocol):
    """The worker's services for a running sink task. For the task's thread only."""

    connector_name: str
    task_index: int
    worker_id: str
    metrics: MetricRegistry

    def assignment(self) -> frozenset[TopicPartition]:
        """Return the partitions that are assigned to this task."""

    def seek(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Continue at these offsets after the current call."""

    def retry_after(self, seconds: float) -> None:
        """Set the wait before the next retry, for when `put` raises `RetriableError`."""

    def pause(self, partitions: Sequence[TopicPartition]) -> None:
        """Stop delivering records of these partitions until `resume`."""

    def resume(self, partitions: Sequence[TopicPartition]) -> None:
        """Resume delivery of these partitions."""

    def request_commit(self) -> None:
        """Commit offsets soon, before the interval ends."""

    def errant_record_reporter(self) -> ErrantRecordReporter | None:
        """Return the reporter of single failed records.

        Returns None if the connector's config has neither a dead letter queue nor
        `errors.log.enable`; then raise an exception.
        """


class SinkTask(ABC):
    """Writes records to an external system.

    Lifecycle: initialize, start, then open, put, pre_commit and close as partitions are assigned
    and revoked, then stop. All on the task's thread.
    """

    context: SinkTaskContext

    def initialize(self, context: SinkTaskContext) -> None:
        self.context = context

    @abstractmethod
    def start(self, config: Mapping[str, str]) -> None: ...

    @abstractmethod
    def put(self, records: Sequence[SinkRecord]) -> None:
        """Accept records, in order within each partition. They may be buffered until `flush`.

        After a `RetriableError` the same records are delivered again, a second later or as set with
        `retry_after`. Any other exception fails the task.
        """

    def flush(self, offsets: Mapping[TopicPartition, int]) -> None:  # noqa: B027 - optional hook
        """Make all records before these offsets (exclusive) durable."""

    def pre_commit(self, offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        """Return the offsets that may be committed; `offsets` are those after the last record of
        `put`.

        After an exception the consumer returns to the last committed offsets.
        """
        self.flush(offsets)
        return offsets

    def open(self, partitions: Sequence[TopicPartition]) -> None:  # noqa: B027 - optional hook
        """Prepare for records of these newly assigned partitions."""

    def close(self, partitions: Sequence[TopicPartition]) -> None:  # noqa: B027 - optional hook
        """Release these revoked partitions. Their possible commits are done."""

    def stopping(self) -> None:  # noqa: B027 - optional hook
        """Called on another thread when a stop is requested: a blocked `put` should return."""

    @abstractmethod
    def stop(self) -> None:
        """Close everything. Called once, after `initialize` and also after a failed `start`. No
        other method is called afterwards.
        """
