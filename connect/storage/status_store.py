"""The store for the statuses of connectors and tasks, and for the topics that connectors use.

`StatusStore` is what herders use. `KafkaStatusStore` keeps them on a compacted topic, as Kafka
Connect does; a store for one process is in `memory_status_store`. Bytes and reading:
`status_records`."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Protocol

from connect.clients.librdkafka.topic_log import LogRecord, TopicLog, TopicSpec
from connect.clock import SYSTEM_CLOCK, Clock, Deadline
from connect.errors import ConnectError, DeadlineExceeded
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

# The first wait of Java's clients before they try again.
_RETRY_S = 0.1
# The retry loop is woken when there is something to do.
_IDLE_S = 3600.0
_PRODUCER_PROPERTIES = {
    # Whether a status is still worth writing is decided here before every try.
    "retries": "0",
    "max.in.flight.requests.per.connection": "5",
    # Java's default.
    "delivery.timeout.ms": "120000",
}


class StatusStore(Protocol):
    """Safe from any thread between `start` and `stop`, which its owner calls once each.

    Writing does not wait, and what was written shows when it was read back. A status that cannot
    be written is tried again as long as this worker has said nothing newer, neither of the same
    instance nor in a newer generation; then it is dropped.
    """

    def set_listener(self, deleted: Callable[[InstanceId], None]) -> None:
        """Before `start`, at most once. `deleted` is called, on any thread, when the deletion of a
        status was read, whoever wrote it; it must not wait. The end of a connector's status is the
        end of those of its tasks, and told of once."""

    def start(self, deadline: Deadline) -> None:
        """Open, and read everything."""

    def put(self, instance: InstanceId, status: InstanceStatus) -> None:
        """Write a status whatever others wrote. DESTROYED ends it."""

    def put_safe(self, instance: InstanceId, status: InstanceStatus) -> None:
        """Write a status unless another worker, of a newer generation, already wrote one."""

    def put_topic(self, status: TopicStatus) -> None:
        """Note that a connector uses a topic."""

    def get(self, instance: InstanceId) -> InstanceStatus | None: ...
    def get_all(self, connector: str) -> dict[int, InstanceStatus]:
        """The statuses of a connector's tasks by number, in order."""

    def connectors(self) -> set[str]:
        """All connectors that have a status, also those that are gone from the configs."""

    def get_topic(self, connector: str, topic: str) -> TopicStatus | None: ...
    def get_topics(self, connector: str) -> list[TopicStatus]: ...
    def delete_topic(self, connector: str, topic: str) -> None: ...
    def delete_topics(self, connector: str) -> None:
        """Forget which topics the connector used, as far as read by now."""

    def flush(self, deadline: Deadline) -> bool:
        """Wait until everything put was written or dropped. False: time ran out."""

    def refresh(self, deadline: Deadline) -> None:
        """Wait until what was written before, by anyone, shows. Raises `DeadlineExceeded`."""

    def stop(self, deadline: Deadline) -> None:
        """Write what waits, as far as the deadline allows, and close."""


@dataclass(frozen=True, slots=True)
class _Write:
    """One record to write. `instance` None: about a topic, and wanted always."""

    key: bytes
    value: bytes | None
    instance: InstanceId | None = None
    status: InstanceStatus | None = None
    safe: bool = False
    sequence: int = 0


@dataclass(slots=True)
class _Standing:
    """The last status that this worker wrote for an instance it runs. `seen`: it was read back."""

    instance: InstanceId
    status: InstanceStatus
    value: bytes
    seen: bool = False


class KafkaStatusStore:
    """Statuses on a compacted topic. `client_properties` are Java client properties of the worker's
    cluster."""

    def __init__(
        self,
        topic: TopicSpec,
        client_properties: Mapping[str, str],
        *,
        clock: Clock = SYSTEM_CLOCK,
        make_log: Callable[..., TopicLog] = TopicLog,
    ) -> None:
        """`make_log` makes the client; simulations have another."""
        self._clock = clock
        # Guards everything below. Sending never waits, and is done under it to keep the order.
        self._changed = threading.Condition()
        self._table = StatusTable()
        self._generation = 0
        self._sequence = 0
        self._newest: dict[InstanceId, int] = {}
        self._standing: dict[bytes, _Standing] = {}
        self._unsettled = 0
        self._failed: list[_Write] = []
        self._deleted: Callable[[InstanceId], None] = lambda _: None
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

    def set_listener(self, deleted: Callable[[InstanceId], None]) -> None:
        self._deleted = deleted

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

    def get(self, instance: InstanceId) -> InstanceStatus | None:
        with self._changed:
            return self._table.get(instance)

    def get_all(self, connector: str) -> dict[int, InstanceStatus]:
        with self._changed:
            return self._table.tasks_of(connector)

    def connectors(self) -> set[str]:
        with self._changed:
            written = {instance.connector for instance in self._newest if not instance.is_task}
            return self._table.connectors() | written

    def get_topic(self, connector: str, topic: str) -> TopicStatus | None:
        with self._changed:
            return self._table.topics_of(connector).get(topic)

    def get_topics(self, connector: str) -> list[TopicStatus]:
        with self._changed:
            return list(self._table.topics_of(connector).values())

    def delete_topic(self, connector: str, topic: str) -> None:
        self._submit(_Write(topic_key(connector, topic), None))

    def delete_topics(self, connector: str) -> None:
        for status in self.get_topics(connector):
            self.delete_topic(connector, status.topic)

    def flush(self, deadline: Deadline) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: self._unsettled == 0, deadline.remaining())

    def refresh(self, deadline: Deadline) -> None:
        """Wait until what was written before, by anyone, shows. Raises `DeadlineExceeded`."""
        if not self.flush(deadline):
            raise DeadlineExceeded("Writing statuses did not finish in time")
        self._log.read_to_end(deadline)

    def stop(self, deadline: Deadline) -> None:
        self.flush(deadline)
        self._retries.stop(deadline.remaining())
        self._log.stop(deadline)

    def _put(self, instance: InstanceId, status: InstanceStatus, *, safe: bool) -> None:
        with self._changed:
            if not safe or status.generation > self._generation:
                # Otherwise it is a word on what this worker lost in an earlier generation.
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
        """On the producer's thread, mostly."""
        passing = error is not None and is_retriable(error)
        with self._changed:
            if passing and self._wanted(write):
                _log.debug("Retrying to write status %r: %s", write.key, error)
                self._failed.append(write)
                self._retries.wake()
                return
            self._unsettled -= 1
            self._changed.notify_all()
        if passing:
            _log.debug(
                "Dropping outdated status %r, which could not be written: %s", write.key, error
            )
        elif error is not None:
            # Java, too, goes on without the status: what it is about is not harmed.
            _log.error("Cannot write status %r: %s", write.key, error)

    def _wanted(self, write: _Write) -> bool:
        if write.instance is None or write.status is None:
            return True
        return (
            self._newest.get(write.instance) == write.sequence
            and self._generation == write.status.generation
            and (not write.safe or self._table.may_write_safely(write.instance, write.status))
        )

    def _retry(self) -> None:
        """On the retry loop's thread, when something failed."""
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
        """On the log's thread."""
        with self._changed:
            ended = self._table.apply(record.key, record.value)
            if ended is not None:
                self._forget(ended)
            if record.key is not None and record.value is not None:
                self._insist(record.key, record.value)
        if ended is not None:
            # Without the lock: others write statuses while they hold theirs.
            self._deleted(ended)

    def _insist(self, key: bytes, value: bytes) -> None:
        """A worker that was cut off says late what it had given up long before. Who runs it now
        says so again; otherwise the topic's last word, which compaction keeps, would be wrong."""
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
        self._newest.pop(ended, None)
        self._standing.pop(status_key(ended), None)
        if not ended.is_task:
            for task in [task for task in self._newest if task.connector == ended.connector]:
                del self._newest[task]
                self._standing.pop(status_key(task), None)
