"""The config store of distributed workers: a compacted topic with one partition."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import contextmanager

from connect.clients.librdkafka.topic_log import LogRecord, TopicLog, TopicSpec
from connect.clients.transactions.atomic_writer import TransactionalSender
from connect.clients.transactions.remedies import TRANSACTION_TIMEOUT
from connect.clock import SYSTEM_CLOCK, Clock, Deadline
from connect.errors import ConfigError, ConnectError, CorruptData, DeadlineExceeded
from connect.plugin import RecordMetadata
from connect.storage import config_records
from connect.storage.config_state import ConfigTransform
from connect.storage.config_store import (
    ConfigRecordBytes,
    ConfigStore,
    ConfigWriteFailed,
    PrivilegedWriteFailed,
    WritePrivilegesMissing,
    commit_record,
    task_records,
)

__all__ = ["KafkaConfigStore"]

_log = logging.getLogger(__name__)

# Java's limit for a write including its read-back.
_WRITE_S = 30.0


class KafkaConfigStore(ConfigStore):
    """Configs on a compacted topic with one partition.

    `client_properties` are Java client properties of the worker's cluster. The log uses their
    client id, and the leader's producer the same with `-leader` appended. With a
    `transactional_id`, leaders write in transactions and fence each other (Connect's exactly-once
    source support); their transaction.timeout.ms is that of the properties, or the limit of a
    write. Without it anyone may write. `read_committed` hides aborted transactions. `transform`
    resolves config provider references in snapshots. `make_log` and `make_leader` create the
    clients; simulations pass others.
    """

    def __init__(
        self,
        topic: TopicSpec,
        client_properties: Mapping[str, str],
        *,
        transactional_id: str | None = None,
        read_committed: bool = False,
        transform: ConfigTransform | None = None,
        clock: Clock = SYSTEM_CLOCK,
        make_log: Callable[..., TopicLog] = TopicLog,
        make_leader: Callable[[Mapping[str, str], str], TransactionalSender] = TransactionalSender,
    ) -> None:
        super().__init__(transform)
        self._make_leader = make_leader
        self._topic = topic.name
        self._properties = dict(client_properties)
        self._transactional_id = transactional_id
        self._clock = clock
        # Allows one privileged write at a time, and guards its producer.
        self._privileged = threading.Lock()
        self._leader: TransactionalSender | None = None
        self._log = make_log(
            topic.name,
            {k: v for k, v in client_properties.items() if k != TRANSACTION_TIMEOUT},
            self._take,
            create=topic,
            read_committed=read_committed,
            clock=clock,
        )

    def start(self, deadline: Deadline) -> None:
        self._log.start(deadline)
        if self._log.partitions != 1:
            raise ConfigError(
                f"Topic '{self._topic}' supplied via the 'config.storage.topic' property is"
                " required to have a single partition in order to guarantee consistency of"
                f" connector configurations, but found {self._log.partitions} partitions.",
                key="config.storage.topic",
                value=self._topic,
            )
        with self._builder_lock:
            self._builder.startup_complete()

    def refresh(self, deadline: Deadline) -> None:
        self._log.read_to_end(deadline)

    def claim_write_privileges(self, deadline: Deadline) -> None:
        if self._transactional_id is None:
            return
        with self._privileged:
            if self._leader is not None:
                return
            properties = dict(self._properties)
            properties["client.id"] = f"{properties.get('client.id', 'configs')}-leader"
            properties.setdefault(TRANSACTION_TIMEOUT, str(round(_WRITE_S * 1000)))
            leader = self._make_leader(properties, self._transactional_id)
            try:
                leader.claim(deadline)
            except ConnectError as error:
                leader.close(Deadline(0, self._clock))
                raise ConfigWriteFailed(
                    f"Failed to create and initialize fencable producer for config topic: {error}"
                ) from error
            self._leader = leader

    def put_task_configs(self, connector: str, configs: Sequence[Mapping[str, str | None]]) -> None:
        """Write all task configs, and commit them when they are read back, so that readers see all
        or none.
        """
        records = task_records(connector, configs)
        with _failing("Error writing task configurations to Kafka"):
            deadline = self._budget()
            self._log.read_to_end(deadline)
            if records:
                self._send_privileged(records, deadline)
                self._log.read_to_end(deadline)
            self._send_privileged([commit_record(connector, configs)], deadline)
            self._log.read_to_end(deadline)

    def stop(self, deadline: Deadline) -> None:
        if self._privileged.acquire(timeout=deadline.remaining()):
            try:
                self._relinquish()
            finally:
                self._privileged.release()
        else:
            _log.warning(
                "A write to topic %s did not finish in time; check through REST whether "
                "the last change was stored",
                self._topic,
            )
        self._log.stop(deadline)

    def _budget(self) -> Deadline:
        return Deadline(_WRITE_S, self._clock)

    def _write(self, failure: str, records: Sequence[ConfigRecordBytes]) -> None:
        with _failing(failure):
            deadline = self._budget()
            self._send_privileged(records, deadline)
            self._log.read_to_end(deadline)

    def _write_open(self, failure: str, records: Sequence[ConfigRecordBytes]) -> None:
        with _failing(failure):
            self._send(records, self._budget())

    def _send(self, records: Sequence[ConfigRecordBytes], deadline: Deadline) -> None:
        for sent in [self._log.send(key, value) for key, value in records]:
            _await(sent, self._topic, deadline)

    def _send_privileged(self, records: Sequence[ConfigRecordBytes], deadline: Deadline) -> None:
        if not self._privileged.acquire(timeout=deadline.remaining()):
            raise DeadlineExceeded("Earlier writes to the config topic did not finish in time")
        try:
            if self._transactional_id is None:
                self._send(records, deadline)
                return
            if self._leader is None:
                raise WritePrivilegesMissing(
                    "Cannot produce to config topic without claiming write privileges first"
                )
            try:
                self._leader.write(self._topic, records, deadline)
            except ConnectError as error:
                self._relinquish()
                raise PrivilegedWriteFailed(
                    f"Failed to perform fencable send to config topic: {error}"
                ) from error
        finally:
            self._privileged.release()

    def _relinquish(self) -> None:
        if self._leader is not None:
            self._leader.close(Deadline(0, self._clock))
            self._leader = None

    def _take(self, record: LogRecord) -> None:
        """Handle a record. Runs on the log's thread."""
        try:
            decoded = config_records.decode_record(record.key, record.value)
        except CorruptData as error:
            _log.error(
                "Ignoring the record at offset %d of topic %s: %s",
                record.offset,
                self._topic,
                error,
            )
            return
        with self._builder_lock:
            events = self._builder.apply(record.offset, decoded)
        self._tell(events)


def _await(sent: Future[RecordMetadata], topic: str, deadline: Deadline) -> None:
    try:
        sent.result(deadline.remaining())
    except FutureTimeout as error:
        raise DeadlineExceeded(
            f"The brokers did not acknowledge the write to topic {topic} in time"
        ) from error


@contextmanager
def _failing(message: str) -> Iterator[None]:
    """Convert errors of a block to `ConfigWriteFailed`, except those that a leader must handle."""
    try:
        yield
    except (ConfigWriteFailed, WritePrivilegesMissing):
        raise
    except ConnectError as error:
        raise ConfigWriteFailed(f"{message}: {error}") from error
