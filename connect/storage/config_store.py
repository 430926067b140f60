"""The store for a worker group's connector and task configs, target states and session key.

Herders use `ConfigStore`. `KafkaConfigStore` keeps everything on one partition of a compacted
topic, as Kafka Connect does, so that Java workers can share it. `config_records` defines the record
format, and `config_state` the state derived from it. `memory_status_store` has a store for one
process.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Protocol

from connect.clock import Deadline
from connect.errors import ConnectError
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
    "ConfigRecordBytes",
    "ConfigStore",
    "ConfigWriteFailed",
    "PrivilegedWriteFailed",
    "WritePrivilegesMissing",
    "commit_record",
    "task_records",
]

ConfigRecordBytes = tuple[bytes, bytes | None]
"""The key and the value of a record of the config topic."""


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


class ConfigStore(ABC):
    """The base of config stores. A subclass writes records, and applies those that were read.

    Safe from any thread between `start` and `stop`, which its owner calls once each. Writes return
    when they are durable and read back, so that `snapshot` contains them; target states and logger
    levels only when durable. A write takes at most 30 s, and raises `ConfigWriteFailed`. Everything
    except target states and logger levels may be a leader-only write, which also raises
    `PrivilegedWriteFailed` and `WritePrivilegesMissing`.
    """

    def __init__(self, transform: ConfigTransform | None) -> None:
        self._builder = ConfigStateBuilder(transform)
        self._builder_lock = threading.Lock()
        self._listener: ConfigListener | None = None

    def set_listener(self, listener: ConfigListener) -> None:
        """Set the listener before `start`. It gets no events for existing records; use
        `snapshot`.
        """
        self._listener = listener

    @abstractmethod
    def start(self, deadline: Deadline) -> None:
        """Open the store and read everything. Raises `ConfigError` for an unusable topic."""

    def snapshot(self) -> ClusterConfigState:
        """Return the state read so far. Cheap if nothing has changed."""
        with self._builder_lock:
            return self._builder.snapshot()

    def contains(self, connector: str) -> bool:
        """Return whether a connector of this name exists in the state read so far."""
        return self.snapshot().contains(connector)

    @abstractmethod
    def refresh(self, deadline: Deadline) -> None:
        """Read the config topic to its current end. Raises `DeadlineExceeded`."""

    @abstractmethod
    def claim_write_privileges(self, deadline: Deadline) -> None:
        """Fence other writers of leader-only records. Does nothing if the store does not fence."""

    def put_connector_config(
        self,
        connector: str,
        config: Mapping[str, str | None],
        target_state: TargetState | None = None,
    ) -> None:
        """Create a connector or change its config, and its target state if one is given."""
        records: list[ConfigRecordBytes] = []
        if target_state is not None:
            records.append(_target_state_record(connector, target_state))
        value = config_records.encode_config(config)
        records.append((config_records.connector_key(connector), value))
        self._write("Error writing connector configuration to Kafka", records)

    def remove_connector_config(self, connector: str) -> None:
        """Delete a connector with everything stored of it."""
        keys = (config_records.connector_key(connector), config_records.target_state_key(connector))
        failure = "Error removing connector configuration from Kafka"
        self._write(failure, [(key, None) for key in keys])

    @abstractmethod
    def put_task_configs(self, connector: str, configs: Sequence[Mapping[str, str | None]]) -> None:
        """Set the connector's tasks, numbered from 0."""

    def put_target_state(self, connector: str, state: TargetState) -> None:
        self._write_open(
            "Error writing target state to Kafka", [_target_state_record(connector, state)]
        )

    def put_restart_request(self, request: RestartRequest) -> None:
        key = config_records.restart_key(request.connector)
        self._write(
            "Error writing restart request to Kafka",
            [(key, config_records.encode_restart_request(request))],
        )

    def put_session_key(self, key: SessionKey) -> None:
        record = (config_records.session_key_key(), config_records.encode_session_key(key))
        self._write("Error writing session key to Kafka", [record])

    def put_task_count_record(self, connector: str, tasks: int) -> None:
        """Record that zombies of this many tasks are fenced."""
        key = config_records.task_count_key(connector)
        self._write(
            "Error writing task count record to Kafka",
            [(key, config_records.encode_task_count(tasks))],
        )

    def put_logger_level(self, namespace: str, level: str) -> None:
        key = config_records.logger_key(namespace)
        self._write_open(
            "Error writing logger level to Kafka",
            [(key, config_records.encode_logger_level(level))],
        )

    @abstractmethod
    def stop(self, deadline: Deadline) -> None:
        """Close the store and give up the write privileges."""

    @abstractmethod
    def _write(self, failure: str, records: Sequence[ConfigRecordBytes]) -> None:
        """Write records as the leader. `failure`: begins the text of an error."""

    @abstractmethod
    def _write_open(self, failure: str, records: Sequence[ConfigRecordBytes]) -> None:
        """Write records that every worker may write. `failure` as for `_write`."""

    def _tell(self, events: Sequence[ConfigEvent]) -> None:
        if self._listener is not None:
            for event in events:
                _tell(self._listener, event)


def _tell(listener: ConfigListener, event: ConfigEvent) -> None:
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


def _target_state_record(connector: str, state: TargetState) -> tuple[bytes, bytes]:
    return config_records.target_state_key(connector), config_records.encode_target_state(state)


def task_records(
    connector: str, configs: Sequence[Mapping[str, str | None]]
) -> list[ConfigRecordBytes]:
    """Return the records of a connector's task configs."""
    return [
        (config_records.task_key(InstanceId(connector, task)), config_records.encode_config(config))
        for task, config in enumerate(configs)
    ]


def commit_record(connector: str, configs: Sequence[object]) -> ConfigRecordBytes:
    """Return the record that makes these task configs valid."""
    return config_records.commit_key(connector), config_records.encode_task_commit(len(configs))
