"""The store for a worker group's connector and task configs, target states and session key.

Herders use `ConfigStore`. `KafkaConfigStore` keeps everything on one partition of a compacted
topic, as Kafka Connect does, so that Java workers can share it. `config_records` defines the record
format, and `config_state` the state derived from it. `memory_status_store` has a store for one
process.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from contextlib import contextmanager
from typing import Protocol

from connect.clients.librdkafka.topic_log import LogRecord, TopicLog, TopicSpec
from connect.clients.transactions.atomic_writer import TransactionalSender
from connect.clients.transactions.remedies import TRANSACTION_TIMEOUT
from connect.clock import SYSTEM_CLOCK, Clock, Deadline
from connect.errors import ConfigError, ConnectError, CorruptData, DeadlineExceeded
from connect.plugin import RecordMetadata
from connect.storage import config_records
from connect.storage.config_records import LoggerLevel, RestartRequest, SessionKey
from connect.storage.config_state import (
    ClusterConfigState,
    ConfigEvent,
    ConfigStateBuilder,
    ConfigTransform,
    ConnectorConfigRemoved,
    ConnectorConfigUpdated,
    TargetStateChanged,
    TaskConfigsUpdated,
)
from connect.storage.instance_id import InstanceId, TargetState

__all__ = [
    "ConfigListener",
    "ConfigStore",
    "ConfigWriteFailed",
    "KafkaConfigStore",
    "PrivilegedWriteFailed",
    "WritePrivilegesMissing",
    "tell",
]

_log = logging.getLogger(__name__)

# Java's limit for a write including its read-back.
_WRITE_S = 30.0

_Record = tuple[bytes, bytes | None]


class ConfigWriteFailed(ConnectError):
    """A write to the config topic failed, or was not read back in time. It may have succeeded."""

    retriable = True


class PrivilegedWriteFailed(ConfigWriteFailed):
    """A leader-only write failed in its transaction; another worker may lead now.

    The write privileges are lost and must be claimed again.
    """


class WritePrivilegesMissing(ConnectError):
    """A leader-only write was attempted without `claim_write_privileges`."""


class ConfigListener(Protocol):
    """Receives changes of the config topic, including this worker's own.

    Called on the store's reading thread, in topic order, when the snapshot has the change. It must
    be quick. An exception ends the store.
    """

    def on_connector_config_update(self, connector: str) -> None: ...
    def on_connector_config_remove(self, connector: str) -> None: ...
    def on_task_config_update(self, tasks: Sequence[InstanceId]) -> None:
        """Handle a commit of these tasks' configs; if empty, only their number has changed."""

    def on_connector_target_state_change(self, connector: str) -> None: ...
    def on_session_key_update(self, key: SessionKey) -> None: ...
    def on_restart_request(self, request: RestartRequest) -> None: ...
    def on_logger_level(self, namespace: str, level: str) -> None: ...


class ConfigStore(Protocol):
    """The interface of config stores.

    Safe from any thread between `start` and `stop`, which its owner calls once each. Writes return
    when they are durable and read back, so that `snapshot` contains them; target states and logger
    levels only when durable. A write takes at most 30 s, and raises `ConfigWriteFailed`. Everything
    except target states and logger levels may be a leader-only write, which also raises
    `PrivilegedWriteFailed` and `WritePrivilegesMissing`.
    """

    def set_listener(self, listener: ConfigListener) -> None:
        """Set the listener before `start`. It gets no events for existing records; use
        `snapshot`.
        """

    def start(self, deadline: Deadline) -> None:
        """Open the store and read everything. Raises `ConfigError` for an unusable topic."""

    def snapshot(self) -> ClusterConfigState:
        """Return the state read so far. Cheap if nothing has changed."""

    def contains(self, connector: str) -> bool:
        """Return whether a connector of this name exists in the state read so far."""

    def refresh(self, deadline: Deadline) -> None:
        """Read the config topic to its current end. Raises `DeadlineExceeded`."""

    def claim_write_privileges(self, deadline: Deadline) -> None:
        """Fence other writers of leader-only records. Does nothing if the store does not fence."""

    def put_connector_config(
        self,
        connector: str,
        config: Mapping[str, str | None],
        target_state: TargetState | None = None,
    ) -> None:
        """Create a connector or change its config, and its target state if one is given."""

    def remove_connector_config(self, connector: str) -> None:
        """Delete a connector with everything stored of it."""

    def put_task_configs(self, connector: str, configs: Sequence[Mapping[str, str | None]]) -> None:
        """Set the connector's tasks, numbered from 0."""

    def put_target_state(self, connector: str, state: TargetState) -> None: ...
    def put_restart_request(self, request: RestartRequest) -> None: ...
    def put_session_key(self, key: SessionKey) -> None: ...
    def put_task_count_record(self, connector: str, tasks: int) -> None:
        """Record that zombies of this many tasks are fenced."""

    def put_logger_level(self, namespace: str, level: str) -> None: ...

    def stop(self, deadline: Deadline) -> None:
        """Close the store and give up the write privileges."""


def tell(listener: ConfigListener, event: ConfigEvent) -> None:
    """Call the listener's method for this event."""
    match event:
        case ConnectorConfigUpdated(connector):
            listener.on_connector_config_update(connector)
        case ConnectorConfigRemoved(connector):
            listener.on_connector_config_remove(connector)
        case TaskConfigsUpdated(tasks):
            listener.on_task_config_update(tasks)
        case TargetStateChanged(connector):
            listener.on_connector_target_state_change(connector)
        case SessionKey():
            listener.on_session_key_update(event)
        case RestartRequest():
            listener.on_restart_request(event)
        case LoggerLevel(namespace, level):
            listener.on_logger_level(namespace, level)


class KafkaConfigStore:
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
        self._make_leader = make_leader
        self._topic = topic.name
        self._properties = dict(client_properties)
        self._transactional_id = transactional_id
        self._clock = clock
        self._builder = ConfigStateBuilder(transform)
        self._builder_lock = threading.Lock()
        self._listener: ConfigListener | None = None
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

    def set_listener(self, listener: ConfigListener) -> None:
        self._listener = listener

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

    def snapshot(self) -> ClusterConfigState:
        with self._builder_lock:
            return self._builder.snapshot()

    def contains(self, connector: str) -> bool:
        return self.snapshot().contains(connector)

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

    def put_connector_config(
        self,
        connector: str,
        config: Mapping[str, str | None],
        target_state: TargetState | None = None,
    ) -> None:
        records: list[_Record] = []
        if target_state is not None:
            records.append(_target_state_record(connector, target_state))
        value = config_records.encode_config(config)
        records.append((config_records.connector_key(connector), value))
        self._write("connector configuration", records)

    def remove_connector_config(self, connector: str) -> None:
        keys = (config_records.connector_key(connector), config_records.target_state_key(connector))
        with _failing("Error removing connector configuration from Kafka"):
            deadline = self._budget()
            self._send_privileged([(key, None) for key in keys], deadline)
            self._log.read_to_end(deadline)

    def put_task_configs(self, connector: str, configs: Sequence[Mapping[str, str | None]]) -> None:
        """Write all task configs, and commit them when they are read back, so that readers see all
        or none.
        """
        records: list[_Record] = [
            (
                config_records.task_key(InstanceId(connector, task)),
                config_records.encode_config(config),
            )
            for task, config in enumerate(configs)
        ]
        commit = (
            config_records.commit_key(connector),
            config_records.encode_task_commit(len(configs)),
        )
        with _failing("Error writing task configurations to Kafka"):
            deadline = self._budget()
            self._log.read_to_end(deadline)
            if records:
                self._send_privileged(records, deadline)
                self._log.read_to_end(deadline)
            self._send_privileged([commit], deadline)
            self._log.read_to_end(deadline)

    def put_target_state(self, connector: str, state: TargetState) -> None:
        self._send_open("target state", *_target_state_record(connector, state))

    def put_restart_request(self, request: RestartRequest) -> None:
        key = config_records.restart_key(request.connector)
        self._write("restart request", [(key, config_records.encode_restart_request(request))])

    def put_session_key(self, key: SessionKey) -> None:
        record = (config_records.session_key_key(), config_records.encode_session_key(key))
        self._write("session key", [record])

    def put_task_count_record(self, connector: str, tasks: int) -> None:
        key = config_records.task_count_key(connector)
        self._write("task count record", [(key, config_records.encode_task_count(tasks))])

    def put_logger_level(self, namespace: str, level: str) -> None:
        key = config_records.logger_key(namespace)
        self._send_open("logger level", key, config_records.encode_logger_level(level))

    def stop(self, deadline: Deadline) -> None:
        if self._privileged.acquire(timeout=deadline.remaining()):
            try:
                self._relinquish()
            finally:
                self._privileged.release()
        else:
            _log.warning("A write to topic %s did not finish in time", self._topic)
        self._log.stop(deadline)

    def _budget(self) -> Deadline:
        return Deadline(_WRITE_S, self._clock)

    def _write(self, what: str, records: Sequence[_Record]) -> None:
        with _failing(f"Error writing {what} to Kafka"):
            deadline = self._budget()
            self._send_privileged(records, deadline)
            self._log.read_to_end(deadline)

    def _send_open(self, what: str, key: bytes, value: bytes | None) -> None:
        with _failing(f"Error writing {what} to Kafka"):
            _await(self._log.send(key, value), self._budget())

    def _send_privileged(self, records: Sequence[_Record], deadline: Deadline) -> None:
        if not self._privileged.acquire(timeout=deadline.remaining()):
            raise DeadlineExceeded("Earlier writes to the config topic did not finish in time")
        try:
            if self._transactional_id is None:
                for sent in [self._log.send(key, value) for key, value in records]:
                    _await(sent, deadline)
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
        if self._listener is not None:
            for event in events:
                tell(self._listener, event)


def _target_state_record(connector: str, state: TargetState) -> tuple[bytes, bytes]:
    return config_records.target_state_key(connector), config_records.encode_target_state(state)


def _await(sent: Future[RecordMetadata], deadline: Deadline) -> None:
    try:
        sent.result(deadline.remaining())
    except FutureTimeout as error:
        raise DeadlineExceeded("The brokers did not acknowledge the write in time") from error


@contextmanager
def _failing(message: str) -> Iterator[None]:
    """Convert errors of a block to `ConfigWriteFailed`, except those that a leader must handle."""
    try:
        yield
    except (ConfigWriteFailed, WritePrivilegesMissing):
        raise
    except ConnectError as error:
        raise ConfigWriteFailed(f"{message}: {error}") from error
