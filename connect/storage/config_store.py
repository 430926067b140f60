"""The store for a worker group's connector and task configs, target states and session key.

`ConfigStore` is what herders use. `KafkaConfigStore` keeps everything on one partition of a
compacted topic, as Kafka Connect does, so that its workers and ours share it. What the records say
is `config_records`' business, what they add up to `config_state`'s. A store for one process is in
`memory_status_store`.
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

# Java gives every write with its reading back so long.
_WRITE_S = 30.0

_Record = tuple[bytes, bytes | None]


class ConfigWriteFailed(ConnectError):
    """A write to the config topic failed, or was not read back in time: it may have happened."""

    retriable = True


class PrivilegedWriteFailed(ConfigWriteFailed):
    """A write that only the leader may do failed in its transaction; perhaps another worker leads
    now. The privileges are gone: claim them anew."""


class WritePrivilegesMissing(ConnectError):
    """A write that needs `claim_write_privileges` first."""


class ConfigListener(Protocol):
    """Hears of changes, also of this worker's own. Called on the store's reading thread, in the
    topic's order, after the snapshot has the change: it must be quick. An exception ends the store.
    """

    def on_connector_config_update(self, connector: str) -> None: ...
    def on_connector_config_remove(self, connector: str) -> None: ...
    def on_task_config_update(self, tasks: Sequence[InstanceId]) -> None:
        """Task configs were committed: of these tasks, or (none) just their number."""

    def on_connector_target_state_change(self, connector: str) -> None: ...
    def on_session_key_update(self, key: SessionKey) -> None: ...
    def on_restart_request(self, request: RestartRequest) -> None: ...
    def on_logger_level(self, namespace: str, level: str) -> None: ...


class ConfigStore(Protocol):
    """Safe from any thread between `start` and `stop`, which its owner calls once each.

    Writes return when they are durable and read back, so that `snapshot` has them; but target
    states and logger levels only when durable. They take 30 s at most, and raise
    `ConfigWriteFailed`, or `PrivilegedWriteFailed` and `WritePrivilegesMissing` where only a leader
    with privileges may write: everything but target states and logger levels.
    """

    def set_listener(self, listener: ConfigListener) -> None:
        """Before `start`, which tells it nothing: whoever starts the store takes a snapshot."""

    def start(self, deadline: Deadline) -> None:
        """Open, and read everything. Raises `ConfigError` for a topic that is not fit."""

    def snapshot(self) -> ClusterConfigState:
        """What was read until now. Cheap as long as nothing changes."""

    def contains(self, connector: str) -> bool:
        """Whether there is a connector of this name, as far as read."""

    def refresh(self, deadline: Deadline) -> None:
        """Read the config topic to its current end. Raises `DeadlineExceeded`."""

    def claim_write_privileges(self, deadline: Deadline) -> None:
        """Fence out other writers of leader-only records, if the store supports fencing; else do
        nothing."""

    def put_connector_config(
        self,
        connector: str,
        config: Mapping[str, str | None],
        target_state: TargetState | None = None,
    ) -> None:
        """Create a connector or change its config; with a target state, both at once."""

    def remove_connector_config(self, connector: str) -> None:
        """Delete a connector with its target state; what else is kept of it goes, too."""

    def put_task_configs(self, connector: str, configs: Sequence[Mapping[str, str | None]]) -> None:
        """Give the connector exactly these tasks, numbered from 0."""

    def put_target_state(self, connector: str, state: TargetState) -> None: ...
    def put_restart_request(self, request: RestartRequest) -> None: ...
    def put_session_key(self, key: SessionKey) -> None: ...
    def put_task_count_record(self, connector: str, tasks: int) -> None:
        """Record that zombies of this many tasks are fenced out."""

    def put_logger_level(self, namespace: str, level: str) -> None: ...

    def stop(self, deadline: Deadline) -> None:
        """Close, and give privileges up."""


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

    `client_properties` are Java client properties of the worker's cluster; their client id is the
    log's, and with `-leader` behind it the leader's producer's. `transactional_id`: leaders write
    in transactions of this id and fence each other out (Connect's exactly-once source support),
    whose transaction.timeout.ms is that of the properties, or as long as a write may take; None:
    anyone may write. `read_committed`: transactions that were aborted are not seen.
    `transform` resolves references to config providers in snapshots. `make_log` and `make_leader`
    make the clients; simulations have others.
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
        # One privileged write at a time; it also guards the producer that does it.
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
        """The commit follows when all configs were read back, so that nobody sees half of them."""
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
        """On the log's thread."""
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
    """Say what was being written; what a leader has to know passes as it is."""
    try:
        yield
    except (ConfigWriteFailed, WritePrivilegesMissing):
        raise
    except ConnectError as error:
        raise ConfigWriteFailed(f"{message}: {error}") from error
