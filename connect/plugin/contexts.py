"""Contexts that the worker passes to connectors and source tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, NamedTuple, Protocol

from connect.data.record import SourceOffset, SourcePartition, SourceRecord
from connect.plugin.stored import StoredOffset
from connect.topic_partition import TopicPartition

if TYPE_CHECKING:
    from connect.metrics.registry import MetricRegistry

__all__ = [
    "ConnectorContext",
    "RawRecord",
    "RecordTransform",
    "RecordTransforms",
    "TaskContext",
    "TransactionContext",
    "TransferTransactions",
]


class RawRecord(NamedTuple):
    """A record as bytes. `timestamp_ms` -1: none."""

    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


class RecordTransform(Protocol):
    """The transformations of the records of one topic. For the task's thread."""

    def apply(self, partition: int, offset: int, record: RawRecord) -> RawRecord | None:
        """Return the record for the target; None: it was dropped, or it failed and is skipped.

        Raises `TaskFailed` for a record that failed if that is not tolerated, and `Interrupted` if
        the task stops while the record is being retried.
        """


class RecordTransforms(Protocol):
    """The connector's transformations for a transfer task, which moves bytes."""

    @property
    def may_wait(self) -> bool:
        """Whether transforming a record may wait, for example for an answer of a server: a
        transformation, predicate or converter is not one of Kafka's own, which only compute."""

    def of_topic(self, source: str, target: str) -> tuple[str, RecordTransform | None]:
        """Return the topic that records of `source` go to instead of `target`, which is the name
        that the chain gets, and what happens to them; None: they stay as they are.

        Raises `ConfigError` if the topic differs from record to record.
        """

    def add_errors(self, counted: Mapping[str, float]) -> None:
        """Add counts of `task-error-metrics`, of transformations that ran in another process."""


class ConnectorContext(Protocol):
    """The worker's services for a running connector. Safe to call from any thread."""

    connector_name: str
    metrics: MetricRegistry
    """For the connector's own metrics. What it does not remove is removed when it ends."""
    committed_tasks: Sequence[Mapping[str, str]]
    """The stored task configs at the time when the connector was created."""

    def stored_offsets(self, partitions: Sequence[SourcePartition]) -> list[SourceOffset | None]:
        """Return the stored source offsets of these partitions in order, None if there is none.

        Blocks for at most 90 s. The result is None for all partitions if the connector has its own
        offsets topic.
        """

    def request_task_reconfiguration(self) -> None:
        """Ask the worker to call `task_configs` again and to update the tasks."""

    def raise_error(self, error: Exception) -> None:
        """Mark the connector FAILED with this error. Its tasks continue."""

    def report_trouble(self, trouble: str | None) -> None:
        """Report a problem that the connector retries; it stays RUNNING, with this text as its
        trace.

        None clears the problem. Repeated reports are cheap.
        """


class TransactionContext(Protocol):
    """Sets transaction boundaries for a task with `transaction.boundary=connector` (exactly-once).

    Safe to call from any thread. Without a record, a call applies after the next batch of `poll`,
    or the one just returned; with a record, after that record. Consumers of committed records never
    see aborted ones, but their source offsets are stored all the same. Requesting both a commit and
    an abort fails the task.
    """

    def commit_transaction(self, record: SourceRecord | None = None) -> None: ...

    def abort_transaction(self, record: SourceRecord | None = None) -> None: ...


class TransferTransactions(Protocol):
    """The worker's transactions for a transfer task that writes exactly once.

    The task uses the worker's producer id, and begins and ends its transactions. Each transaction
    contains the source offsets of its records:

        add(partitions)                   then batches may be sent, stamped with `producer`
        produce the batches               wait for all responses
        offset_records(offsets)           add the partition of `offsets_topic`, then produce them
        commit(records)                   after the offsets were acknowledged, too

    For the task's thread. Nothing blocks, and futures complete on any thread. If an error's
    `abortable` is true, the task must call `abort`; any other error is fatal, and the task must
    raise it. After `abort`, or in its next run, the task reads again from the last committed
    offsets.
    """

    transactional_id: str
    offsets_topic: str
    timeout_s: float
    """`transaction.timeout.ms`: the broker aborts an older transaction, and fences the producer."""
    boundary_s: float | None
    """The interval of commits in seconds, from `transaction.boundary`. None lets the task
    choose.
    """

    @property
    def producer(self) -> tuple[int, int]:
        """Producer id and epoch, which stay the same between commits.

        Sequence numbers start at 0 for each new pair, and continue across transactions.
        """

    @property
    def trouble(self) -> str | None:
        """Why a request to the coordinator is slow, or None."""

    def add(self, partitions: Sequence[TopicPartition]) -> Future[Mapping[TopicPartition, int]]:
        """Add partitions. Return Kafka's error code of each.

        If one is refused, the others are not attempted (code 55).
        """

    def offset_key(self, partition: SourcePartition) -> bytes:
        """Return the record key under which this partition's offset is stored.

        Java's default partitioner decides the partition of `offsets_topic` by this key.
        """

    def offset_records(self, offsets: Sequence[StoredOffset]) -> list[tuple[bytes, bytes | None]]:
        """Return these offsets as (key, value), in order. Call it once per transaction, before
        `commit`.
        """

    def notes(self, partitions: Sequence[SourcePartition]) -> list[bytes | None]:
        """Return the notes that the task stored with the offsets of the last
        `TaskContext.stored_offsets`.

        A note is the header `OFFSET_NOTE` of the offset's record. It is None if another writer,
        such as a Java worker or a user, stored the offset.
        """

    def commit(self, records: int) -> Future[None]:
        """Commit the transaction. `records` is its number of source records, for metrics."""

    def abort(self, why: str) -> Future[None]:
        """Abort the transaction. `producer` has a new id or epoch afterwards.

        Call it only when every produce request has a response or its connection is lost.
        """

    def confirm(self) -> Future[None]:
        """Check that no later run of the task has begun; fails if one has.

        For a task whose helpers write with transactional ids of their own. A later run claims the
        ids that were claimed before this call. Only while no transaction is open.
        """

    def note(self, records: int, ms: float) -> None:
        """Record in the metrics that a helper committed a transaction with `records` records in
        `ms`.
        """


class TaskContext(Protocol):
    """The worker's services for a running task. Safe to call from any thread."""

    connector_name: str
    task_index: int
    worker_id: str
    metrics: MetricRegistry
    """For the task's own metrics. What it does not remove is removed when it ends."""
    transactions: TransactionContext | None
    """Set if the worker writes exactly once and the task defines transaction boundaries; else
    None.
    """
    transfer: TransferTransactions | None
    """Set if the worker writes exactly once and this transfer task can; else None."""
    transforms: RecordTransforms | None
    """The connector's transformations if this is a transfer task that runs them
    (`TransferTask.transforms_prefix`); None: it has none.
    """

    def stored_offsets(self, partitions: Sequence[SourcePartition]) -> list[SourceOffset | None]:
        """Return the stored source offsets of these partitions in order, None if there is none.

        Blocks until the offset store has read its topic to the end. Raises `DeadlineExceeded` after
        90 s.
        """

    def offset_marks(self, partitions: Sequence[SourcePartition]) -> list[int]:
        """Return a number for each partition that increases whenever its offset is stored or
        deleted.

        The numbers are as of the last `stored_offsets`, and count writes by anyone, also by Java
        workers and users; -1 means that no write is known. With them a task can detect that its own
        copy of an offset is stale, unless the offset was deleted so long ago that compaction
        removed the tombstone.
        """

    def topic_used(self, topic: str) -> None:
        """Report that a transfer task has written to this topic, for the connector's list of active
        topics.

        Repeated reports are cheap. For record tasks the worker does it.
        """

    def request_commit(self) -> None:
        """Have `prepare_commit` of a transfer task called soon, whatever the interval; not under
        exactly-once. On the task's thread."""

    def producer_properties(self) -> Mapping[str, str]:
        """Return the Java properties of the data producer for the target.

        They are the worker's `producer.*`, then the connector's `producer.override.*`, with
        bootstrap.servers and client.id set.
        """
