"""What the worker offers to running connectors and source tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Protocol

from connect.data.record import SourceOffset, SourcePartition, SourceRecord
from connect.plugin.stored import StoredOffset
from connect.topic_partition import TopicPartition

if TYPE_CHECKING:
    from connect.metrics.registry import MetricRegistry

__all__ = ["ConnectorContext", "TaskContext", "TransactionContext", "TransferTransactions"]


class ConnectorContext(Protocol):
    """What the worker offers to a running connector. Safe to call from any thread."""

    connector_name: str
    metrics: MetricRegistry
    committed_tasks: Sequence[Mapping[str, str]]
    """The configs of the tasks that there were when the connector was made, as they are kept."""

    def stored_offsets(self, partitions: Sequence[SourcePartition]) -> list[SourceOffset | None]:
        """The stored source offsets of these partitions, in their order; None where there is none,
        or where the connector has a topic of its own for them. Blocks, at most 90 s."""

    def request_task_reconfiguration(self) -> None:
        """Ask the worker to call `task_configs` again and give the tasks what it returns."""

    def raise_error(self, error: Exception) -> None:
        """Mark the connector FAILED with this error; its tasks go on."""

    def report_trouble(self, trouble: str | None) -> None:
        """Say what the connector cannot do for now, while it goes on trying: it stays RUNNING, and
        its status gets this as its trace. None: nothing any more. Cheap when told again."""


class TransactionContext(Protocol):
    """Where a task's transactions end, for a task that defines that (`transaction.boundary` is
    `connector`, under exactly-once). Safe to call from any thread.

    Without a record: after the batch that `poll` gives next, or has just given. With one: after
    that very record. What is aborted is never seen by readers of committed records; its source
    offsets are stored all the same. Asking for both fails the task.
    """

    def commit_transaction(self, record: SourceRecord | None = None) -> None: ...

    def abort_transaction(self, record: SourceRecord | None = None) -> None: ...


class TransferTransactions(Protocol):
    """How a transfer task writes exactly once: with the worker's producer id, in transactions that
    the task begins and ends, each with the source offsets of what is in it.

        add(partitions)                   their batches may be sent, stamped with `producer`
        produce the batches; all answered
        offset_records(offsets)           produced to `offsets_topic`, also a partition of it
        commit(records)                   once they are acknowledged, too

    For the task's thread; nothing blocks, and futures complete on any thread. They fail with an
    error whose `abortable` is true where `abort` is what remains to be done; any other is for
    good: the task raises it, and fails. What was not committed is read again from the last
    committed offsets on, be it here after `abort` or by the next run.
    """

    transactional_id: str
    offsets_topic: str
    timeout_s: float
    """`transaction.timeout.ms`: the broker aborts a transaction that is older, and fences us."""
    boundary_s: float | None
    """Where transactions are to end by `transaction.boundary`: after so many seconds. None: where
    the task likes, soon."""

    @property
    def producer(self) -> tuple[int, int]:
        """Producer id and epoch, the same from one commit to the next. Sequence numbers begin at 0
        with each new pair, and go on across transactions."""

    @property
    def trouble(self) -> str | None:
        """Why what was asked of the coordinator takes long; None where nothing does."""

    def add(self, partitions: Sequence[TopicPartition]) -> Future[Mapping[TopicPartition, int]]:
        """Kafka's error code of each; where one is refused, the others are not attempted (55)."""

    def offset_key(self, partition: SourcePartition) -> bytes:
        """The record key under which this partition's offset is stored. The record belongs to the
        partition of `offsets_topic` that Java's default partitioner gives it."""

    def offset_records(self, offsets: Sequence[StoredOffset]) -> list[tuple[bytes, bytes | None]]:
        """These offsets as (key, value), in their order. Once for each transaction, before
        `commit`."""

    def notes(self, partitions: Sequence[SourcePartition]) -> list[bytes | None]:
        """What the task noted in the header `OFFSET_NOTE` of the records with the offsets that
        `TaskContext.stored_offsets` gave last. None where there is none: whoever else stores an
        offset, as Java's worker or a user, notes nothing."""

    def commit(self, records: int) -> Future[None]:
        """End the transaction; `records` are those of the sources, for metrics."""

    def abort(self, why: str) -> Future[None]:
        """Abort the transaction. `producer` has a new id or epoch afterwards. Call only when every
        produce request was answered or has lost its connection."""

    def confirm(self) -> Future[None]:
        """For a task that has others write for it, under transactional ids of its own: done if no
        later run of the task had begun when this was asked; fails if one had. Ids that were claimed
        before, a later run claims after. Only while no transaction is open."""

    def note(self, records: int, ms: float) -> None:
        """For such a task, too: one of the others has committed a transaction of so many records,
        and that took `ms`. For metrics."""


class TaskContext(Protocol):
    """What the worker offers to a running task. Safe to call from any thread."""

    connector_name: str
    task_index: int
    worker_id: str
    metrics: MetricRegistry
    transactions: TransactionContext | None
    """None unless the worker writes exactly once and the task is to say where transactions end."""
    transfer: TransferTransactions | None
    """For a transfer task that can write exactly once, where the worker does so; else None."""

    def stored_offsets(self, partitions: Sequence[SourcePartition]) -> list[SourceOffset | None]:
        """The stored source offsets of these partitions, in their order; None where there is none.

        Blocks until the offset store has read its topic to the end (at most 90 s), then raises
        `DeadlineExceeded`.
        """

    def offset_marks(self, partitions: Sequence[SourcePartition]) -> list[int]:
        """A number for each of these partitions that grows whenever anybody, be it Java's worker
        or a user, stores or deletes its offset, as `stored_offsets` last found it; -1: nothing is
        known to have been stored. So a task can tell whether what it keeps itself was overtaken,
        unless the last offset was deleted so long ago that the topic forgot that."""

    def topic_used(self, topic: str) -> None:
        """A transfer task has written to this topic: it is shown among those that the connector
        uses. Cheap when told again. For record tasks the worker does it."""

    def request_commit(self) -> None:
        """Have `prepare_commit` of a transfer task called soon, whatever the interval; not under
        exactly-once. On the task's thread."""

    def producer_properties(self) -> Mapping[str, str]:
        """The Java properties of the data producer for the target: the worker's `producer.*`,
        then the connector's `producer.override.*`, with bootstrap.servers and client.id set."""
