"""What a plugin writer implements, and what the worker hands to it.

A plugin is a `Connector` that cuts its work into task configs, and a task class that does the work.
There are two kinds of source tasks, and one of sink tasks (`SinkTask`):

* `SourceTask` (record task): `poll()` returns records; the worker converts and produces them,
  tracks which were acknowledged, and stores their source offsets.
* `TransferTask`: the task moves the bytes itself. The worker gives it a thread, lifecycle,
  stored offsets, status and metrics, and calls it in turns: `step()` again and again, and
  `prepare_commit()` whenever source offsets are due.

Every method of a connector is called on the connector's own thread, every method of a task on the
task's own thread, unless its docstring says otherwise. All configs here are flat maps of strings,
already resolved through config providers, with Java's key names.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol

from connect.data.record import (
    Header,
    OffsetValue,
    SinkRecord,
    SourceOffset,
    SourcePartition,
    SourceRecord,
)
from connect.topic_partition import TopicPartition

if TYPE_CHECKING:
    from connect.clock import Deadline
    from connect.config.definition import ConfigDef, ConfigProblem
    from connect.metrics.registry import MetricRegistry

__all__ = [
    "OFFSET_NOTE",
    "AlteredOffset",
    "Connector",
    "ConnectorContext",
    "ErrantRecordReporter",
    "Header",
    "OffsetValue",
    "PartitionHealth",
    "RecordMetadata",
    "SinkConnector",
    "SinkRecord",
    "SinkTask",
    "SinkTaskContext",
    "SourceOffset",
    "SourcePartition",
    "SourceRecord",
    "SourceTask",
    "StoredOffset",
    "TaskContext",
    "TopicPartition",
    "TransferCounts",
    "TransferTask",
    "TransferTransactions",
]

StoredOffset = tuple[SourcePartition, SourceOffset | None]
AlteredOffset = tuple[SourcePartition | None, SourceOffset | None]
"""What a user wants changed; None as offset: deleted. A partition of None can only be deleted."""

OFFSET_NOTE = "connect.note"
"""The header in which a task that writes exactly once may note something with a stored offset, in
the same record. Java's workers and ours read keys and values only."""


@dataclass(frozen=True, slots=True)
class RecordMetadata:
    """Where the target broker put a record. `offset` is -1 when it did not say (acks=0)."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class PartitionHealth:
    """How one partition of a transfer task is doing. `error` None: moving, or caught up."""

    name: str
    lag_records: int | None
    lag_ms: int | None
    error: str | None = None
    details: Mapping[str, OffsetValue] = field(default_factory=dict)


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
        """End it without a trace; `producer` is another one then. Everything that was sent must
        have been answered, or have lost its connection."""

    def confirm(self) -> Future[None]:
        """For a task that has others write for it, under transactional ids of its own: done if no
        later run of the task had begun when this was asked; fails if one had. Ids that were claimed
        before, a later run claims after. Only while no transaction is open."""

    def note(self, records: int, ms: float) -> None:
        """For such a task, too: one of the others has committed a transaction of so many records,
        and that took `ms`. For metrics."""


class ConnectorContext(Protocol):
    """What the worker offers to a running connector. Safe to call from any thread."""

    connector_name: str
    metrics: MetricRegistry
    committed_tasks: Sequence[Mapping[str, str]]
    """The configs of the tasks that there were when the connector was made, as they are kept."""

    def stored_offsets(self, partitions: Sequence[SourcePartition]) -> list[SourceOffset | None]:
        """The stored source offsets of these partitions, in their order; None where there is none,
        or where the connector has a topic of its own for them. Blocks, at most a minute."""

    def request_task_reconfiguration(self) -> None:
        """Ask the worker to call `task_configs` again and give the tasks what it returns."""

    def raise_error(self, error: Exception) -> None:
        """Mark the connector FAILED with this error; its tasks go on."""

    def report_trouble(self, trouble: str | None) -> None:
        """Say what the connector cannot do for now, while it goes on trying: it stays RUNNING, and
        its status gets this as its trace. None: nothing any more. Cheap when told again."""


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

        Blocks until the offset store has read its topic to the end (at most a minute), then raises
        `DeadlineExceeded`.
        """

    def topic_used(self, topic: str) -> None:
        """A transfer task has written to this topic: it is shown among those that the connector
        uses. Cheap when told again. For record tasks the worker does it."""

    def producer_properties(self) -> Mapping[str, str]:
        """The Java properties of the data producer for the target: the worker's `producer.*`,
        then the connector's `producer.override.*`, with bootstrap.servers and client.id set."""


class Connector(ABC):
    """Cuts the work into tasks. Lifecycle: initialize, start, task_configs (any number), stop."""

    context: ConnectorContext

    def initialize(self, context: ConnectorContext) -> None:
        self.context = context

    @classmethod
    @abstractmethod
    def config_def(cls) -> ConfigDef:
        """The connector's own config keys."""

    @classmethod
    def version(cls) -> str:
        """The plugin's version, for REST and status; `undefined` where it has none."""
        return "undefined"

    @classmethod
    def connector_type(cls) -> Literal["source", "sink"]:
        """Which way records go."""
        return "source"

    @classmethod
    def validate(cls, config: Mapping[str, str]) -> Sequence[ConfigProblem]:
        """What is wrong with a config beyond what `config_def` finds: rules between keys, things
        that do not exist. Called on any thread, before there is an instance; must not take long."""
        return ()

    @classmethod
    def alter_offsets(
        cls,
        config: Mapping[str, str],
        offsets: Sequence[AlteredOffset],
    ) -> bool:
        """The user is about to change these offsets of the stopped connector (KIP-875); an offset
        of None deletes one. Raise `BadRequest` or another `ConnectError` to refuse.

        True: nothing else has to be done. False: it may be that the connector keeps offsets
        elsewhere, too, which the user has to change there; the answer says so.
        """
        return False

    @classmethod
    def exactly_once_support(cls, config: Mapping[str, str]) -> bool | None:
        """Whether tasks with this config give each record once, given that their offsets are stored
        with them (KIP-618). None: the connector does not say; users have to know. Called like
        `validate`, where `exactly.once.support` is `required`."""
        return None

    @classmethod
    def can_define_transaction_boundaries(cls, config: Mapping[str, str]) -> bool:
        """Whether the tasks use `TaskContext.transactions`: otherwise `transaction.boundary` may
        not be `connector`."""
        return False

    @classmethod
    def live_keys(cls) -> frozenset[str]:
        """Keys whose values the tasks, being transfer tasks, take over while they run. Where
        nothing else of the config has changed the connector is not told, and the tasks are
        (`TransferTask.reconfigure`). Tasks have these values from the connector's config, not from
        what `task_configs` says."""
        return frozenset()

    @abstractmethod
    def start(self, config: Mapping[str, str]) -> None:
        """Begin. Must return within seconds; long work goes to a thread the connector owns."""

    @abstractmethod
    def task_class(self) -> type[SourceTask] | type[TransferTask] | type[SinkTask]:
        """The class of this connector's tasks."""

    @classmethod
    def task_class_for(
        cls, task_config: Mapping[str, str]
    ) -> type[SourceTask] | type[TransferTask] | type[SinkTask] | None:
        """The class for a task with this config, which may be of another worker's making; None:
        that of every instance's `task_class`. For connectors whose task class depends on their
        config; its names in task configs should be the same then. Called like `validate`."""
        return None

    @abstractmethod
    def task_configs(self, max_tasks: int) -> list[dict[str, str]] | None:
        """At most `max_tasks` task configs. May be called again after any
        `request_task_reconfiguration`. Index i of the list becomes task i.

        None: not known yet. Tasks that run, say from before the connector came to this worker, go
        on as they are until the connector requests a reconfiguration."""

    @abstractmethod
    def stop(self) -> None:
        """End, and close everything that `start` opened. Called once, also after a failed start."""


class SourceTask(ABC):
    """Gives records. Lifecycle: initialize, start, poll..., stop; all on the task's thread."""

    context: TaskContext

    def initialize(self, context: TaskContext) -> None:
        self.context = context

    @abstractmethod
    def start(self, config: Mapping[str, str]) -> None: ...

    @abstractmethod
    def poll(self) -> Sequence[SourceRecord] | None:
        """The next records, or None when there are none now. May block up to about a second,
        or until `stopping()` was called."""

    def commit_record(  # noqa: B027 - optional hook
        self, record: SourceRecord, metadata: RecordMetadata | None
    ) -> None:
        """A record was acknowledged (metadata; called on the producer's callback thread), or it was
        not produced (None): dropped by a transformation or skipped because of an error (on the
        task's thread), or not taken by Kafka under `errors.tolerance=all` (on the producer's). The
        record is the one that `poll` gave, whatever transformations made of it."""

    def commit(self) -> None:  # noqa: B027 - optional hook
        """Source offsets up to everything acknowledged so far were stored."""

    def stopping(self) -> None:  # noqa: B027 - optional hook
        """Stop was requested: a blocked `poll` should return. Called from another thread."""

    def trouble(self) -> str | None:
        """What the task cannot do for now, while it goes on trying: it stays RUNNING, and its
        status gets this as its trace. None: nothing. On the task's thread, every few seconds."""
        return None

    @abstractmethod
    def stop(self) -> None:
        """Close everything. No other method is called afterwards."""


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


class SinkConnector(Connector):
    """A connector whose tasks take the records of `topics`, or of those that `topics.regex`
    matches, through a consumer group of its own that the worker runs."""

    @classmethod
    def connector_type(cls) -> Literal["source", "sink"]:
        return "sink"

    @abstractmethod
    def task_class(self) -> type[SinkTask]: ...


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


TaskFactory = Callable[[], "SourceTask | TransferTask | SinkTask"]
