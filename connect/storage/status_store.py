"""The store for the statuses of connectors and tasks, and for the topics that connectors use.

Herders use `StatusStore`. `KafkaStatusStore` keeps the statuses on a compacted topic, as Kafka
Connect does; `memory_status_store` has a store for one process. `status_records` defines the record
format.
"""

from __future__ import annotations

import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from connect.clients.librdkafka.topic_log import LogRecord, TopicLog, TopicSpec
from connect.clock import SYSTEM_CLOCK, Clock, Deadline
from connect.errors import AuthenticationFailed, ConnectError, DeadlineExceeded
from connect.loop import BackgroundLoop, is_retriable
from connect.storage.instance_id import InstanceId, State
from connect.storage.status_records import (
    InstanceStatus,
    StatusTable,
    TopicStatus,
    encode_status,
    encode_topic_status,
    is_late_word,
    status_key,
    topic_key,
)

__all__ = ["KafkaStatusStore", "StatusStore"]

_log = logging.getLogger(__name__)

# The initial retry backoff of Java's clients.
_RETRY_S = 0.1
# The interval of the retry loop, which is woken when there is something to do.
_IDLE_S = 3600.0
_PRODUCER_PROPERTIES = {
    # Before every retry the store checks whether the status is still worth writing.
    "retries": "0",
    "max.in.flight.requests.per.connection": "5",
    # Java's default.
    "delivery.timeout.ms": "120000",
}


class StatusStore(ABC):
    """The base of status stores. A subclass writes, and keeps what was read in `_table`.

    Safe from any thread between `start` and `stop`, which its owner calls once each. Writes do not
    block, and become visible when they are read back. A failed write is retried until this worker
    writes a newer status of the same instance. If this worker has joined a newer generation, it is
    dropped too, unless the instance is still this worker's and no other worker wrote a newer one.
    """

    def __init__(self) -> None:
        # Guards the fields of a store.
        self._changed = threading.Condition()
        self._table = StatusTable()
        self._deleted: Callable[[InstanceId], None] = lambda _: None
        self._topic_deleted: Callable[[str, str], None] = lambda _, __: None

    def set_listener(self, deleted: Callable[[InstanceId], None]) -> None:
        """Set the listener before `start`, at most once.

        `deleted` is called, on any thread, when a deletion of a status was read, whoever wrote it;
        it must not block. Deleting a connector's status also deletes those of its tasks, with one
        call.
        """
        self._deleted = deleted

    def set_topic_listener(self, deleted: Callable[[str, str], None]) -> None:
        """Set the listener for deleted topics of connectors, as `set_listener` does for statuses.

        `deleted` gets the names of the connector and of the topic.
        """
        self._topic_deleted = deleted

    @abstractmethod
    def start(self, deadline: Deadline) -> None:
        """Open the store and read everything in it."""

    @abstractmethod
    def put(self, instance: InstanceId, status: InstanceStatus) -> None:
        """Write a status unconditionally. DESTROYED deletes it."""

    @abstractmethod
    def put_safe(self, instance: InstanceId, status: InstanceStatus) -> None:
        """Write a status unless another worker of a newer generation already wrote one."""

    @abstractmethod
    def put_topic(self, status: TopicStatus) -> None:
        """Record that a connector uses a topic."""

    def get(self, instance: InstanceId) -> InstanceStatus | None:
        with self._changed:
            return self._table.get(instance)

    def get_all(self, connector: str) -> dict[int, InstanceStatus]:
        """Return the statuses of a connector's tasks by number, in order."""
        with self._changed:
            return self._table.tasks_of(connector)

    def connectors(self) -> set[str]:
        """Return all connectors that have a status, or have a task with one, including those
        without a config.
        """
        with self._changed:
            return self._table.connectors()

    def get_topic(self, connector: str, topic: str) -> TopicStatus | None:
        with self._changed:
            return self._table.topics_of(connector).get(topic)

    def get_topics(self, connector: str) -> list[TopicStatus]:
        with self._changed:
            return list(self._table.topics_of(connector).values())

    @abstractmethod
    def delete_topic(self, connector: str, topic: str) -> None: ...

    def delete_topics(self, connector: str) -> None:
        """Delete the records of topics that the connector used, as far as read by now."""
        for status in self.get_topics(connector):
            self.delete_topic(connector, status.topic)

    @abstractmethod
    def flush(self, deadline: Deadline) -> bool:
        """Wait until all pending writes succeeded or were dropped. Return False after the
        deadline.
        """

    @abstractmethod
    def refresh(self, deadline: Deadline) -> None:
        """Wait until all earlier writes, by any worker, are visible. Raises `DeadlineExceeded`."""

    @abstractmethod
    def stop(self, deadline: Deadline) -> None:
        """Finish pending writes, as far as the deadline allows, and close."""


@dataclass(frozen=True, slots=True)
class _Write:
    """One record to write. `instance` None: a topic's record, which is always worth writing."""

    key: bytes
    value: bytes | None
    instance: InstanceId | None = None
    status: InstanceStatus | None = None
    safe: bool = False
    sequence: int = 0


@dataclass(slots=True)
class _Standing:
    """This worker's last status of an instance it runs. `seen`: it was read back."""

    instance: InstanceId
    status: InstanceStatus
    value: bytes
    seen: bool = False


class KafkaStatusStore(StatusStore):
    """Statuses on a compacted topic.

    `client_properties` are Java client properties of the worker's cluster.
    """

    def __init__(
        self,
        topic: TopicSpec,
        client_properties: Mapping[str, str],
        *,
        clock: Clock = SYSTEM_CLOCK,
        make_log: Callable[..., TopicLog] = TopicLog,
    ) -> None:
        """Create the store. `make_log` creates the log; simulations pass another one."""
        super().__init__()
        self._clock = clock
        self._topic = topic.name
        # Guarded by `_changed`. Sends do not block, and happen under the lock to keep their order.
        self._generation = 0
        self._sequence = 0
        self._newest: dict[InstanceId, int] = {}
        self._standing: dict[bytes, _Standing] = {}
        self._unsettled = 0
        self._failed: list[_Write] = []
        self._refused: str | None = None
        self._stopping = False
        self._log = make_log(
            topic.name,
            client_properties,
            self._take,
            create=topic,
            producer_properties=_PRODUCER_PROPERTIES,
            clock=clock,
        )
        self._retries = BackgroundLoop(
            f"status-retry-{topic.name}", self._retry, interval_s=_IDLE_S, clock=clock
        )

    def start(self, deadline: Deadline) -> None:
        self._log.start(deadline)
        self._retries.start()

    def put(self, instance: InstanceId, status: InstanceStatus) -> None:
        self._put(instance, status, safe=False)

    def put_safe(self, instance: InstanceId, status: InstanceStatus) -> None:
        self._put(instance, status, safe=True)

    def put_topic(self, status: TopicStatus) -> None:
        key = topic_key(status.connector, status.topic)
        self._submit(_Write(key, encode_topic_status(status)))

    def connectors(self) -> set[str]:
        with self._changed:
            written = {instance.connector for instance in self._newest}
            return self._table.connectors() | written

    def delete_topic(self, connector: str, topic: str) -> None:
        self._submit(_Write(topic_key(connector, topic), None))

    def flush(self, deadline: Deadline) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: self._unsettled == 0, deadline.remaining())

    def refresh(self, deadline: Deadline) -> None:
        """Wait until all earlier writes, by any worker, are visible. Raises `DeadlineExceeded`."""
        if not self.flush(deadline):
            raise DeadlineExceeded("Writing statuses did not finish in time")
        self._log.read_to_end(deadline)

    def stop(self, deadline: Deadline) -> None:
        with self._changed:
            # The brokers take nothing more until someone changes a password.
            self._stopping = True
        self.flush(deadline)
        self._retries.stop(deadline.remaining())
        self._log.stop(deadline)

    def _put(self, instance: InstanceId, status: InstanceStatus, *, safe: bool) -> None:
        with self._changed:
            if not safe or status.generation > self._generation:
                # Otherwise the status is about an instance that this worker lost in an earlier
                # generation.
                self._generation = status.generation
            if safe and not self._table.may_write_safely(instance, status):
                return
            self._sequence += 1
            self._newest[instance] = self._sequence
            key, value = status_key(instance), encode_status(status)
            if value is None or status.state is State.UNASSIGNED:
                self._standing.pop(key, None)
            else:
                self._standing[key] = _Standing(instance, status, value)
            self._submit(_Write(key, value, instance, status, safe, self._sequence))

    def _submit(self, write: _Write) -> None:
        with self._changed:
            self._unsettled += 1
            self._send(write)

    def _send(self, write: _Write) -> None:
        try:
            sent = self._log.send(write.key, write.value)
        except ConnectError as error:
            self._settle(write, error)
            return
        sent.add_done_callback(lambda done: self._settle(write, done.exception()))

    def _settle(self, write: _Write, error: BaseException | None) -> None:
        """Handle the result of a write. Runs mostly on the producer's thread."""
        refused = isinstance(error, AuthenticationFailed)
        passing = refused or (error is not None and is_retriable(error))
        with self._changed:
            self._say_refused(str(error) if refused else None)
            if passing and self._wanted(write) and not (refused and self._stopping):
                _log.debug("Retrying to write status %r: %s", write.key, error)
                self._failed.append(write)
                self._retries.wake()
                return
            self._unsettled -= 1
            self._changed.notify_all()
        if passing:
            _log.debug("Dropping status %r, which could not be written: %s", write.key, error)
        elif error is not None:
            # As in Java, the worker continues without the status, which does no harm to the
            # instance.
            self._say_lost(write, error)

    def _say_lost(self, write: _Write, error: BaseException) -> None:
        """Log that a status is not written, nor tried again."""
        if self._stopping:
            _log.warning(
                "Status %s was not written to topic %s before this worker stopped: %s. Nothing has"
                " to be done: the worker that takes over writes the next one",
                write.key.decode(),
                self._topic,
                error,
            )
        else:
            _log.error(
                "Cannot write status %s to topic %s: %s. REST shows the status before it until the"
                " next one is written; check the topic's configs and this worker's ACLs on it",
                write.key.decode(),
                self._topic,
                error,
            )

    def _say_refused(self, refused: str | None) -> None:
        """Log a refused login once, until a write succeeds or fails otherwise."""
        if refused is not None and refused != self._refused:
            _log.error("Statuses cannot be written, trying again: %s", refused)
        self._refused = refused

    def _wanted(self, write: _Write) -> bool:
        if write.instance is None or write.status is None:
            return True
        if self._newest.get(write.instance) != write.sequence:
            return False
        # A status of an earlier generation stays true while the instance runs here.
        current = self._generation == write.status.generation
        if current and not write.safe:
            return True
        return (current or write.key in self._standing) and self._table.may_write_safely(
            write.instance, write.status
        )

    def _retry(self) -> None:
        """Retry failed writes. Runs on the retry loop's thread."""
        if not self._failed:
            return
        self._retries.stopping.wait(_RETRY_S)
        self._write_again()

    def _write_again(self) -> None:
        with self._changed:
            failed, self._failed = self._failed, []
            for write in failed:
                if self._wanted(write):
                    self._send(write)
                else:
                    self._settle(write, None)

    def _take(self, record: LogRecord) -> None:
        """Handle a record. Runs on the log's thread."""
        with self._changed:
            ended = self._table.apply(record.key, record.value)
            if isinstance(ended, InstanceId):
                self._forget(ended)
            if record.key is not None and record.value is not None:
                self._insist(record.key, record.value)
        # The lock is not held here: other threads write statuses while holding theirs.
        if isinstance(ended, InstanceId):
            self._deleted(ended)
        elif ended is not None:
            self._topic_deleted(*ended)

    def _insist(self, key: bytes, value: bytes) -> None:
        """Write this worker's status again after a stale status of another worker.

        A partitioned worker may report late a status of an instance that it lost long before.
        Without another write, compaction would keep that stale status.
        """
        standing = self._standing.get(key)
        if standing is None:
            return
        if value == standing.value:
            standing.seen = True
        elif standing.seen and is_late_word(value, standing.status):
            _log.info("Writing status %r again after another worker wrote an older one", key)
            status = replace(standing.status, generation=self._generation)
            self._put(standing.instance, status, safe=False)

    def _forget(self, ended: InstanceId) -> None:
        tasks = [] if ended.is_task else [t for t in self._newest if t.connector == ended.connector]
        for each in (ended, *tasks):
            self._newest.pop(each, None)
            key = status_key(each)
            standing = self._standing.get(key)
            # A status that was not read back yet comes after the deletion, and stands.
            if standing is not None and standing.seen:
                del self._standing[key]
