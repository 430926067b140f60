"""In-memory config and status stores for one process.

For standalone workers and for tests. Nothing survives the process.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence

from connect.clock import Deadline
from connect.storage import config_records
from connect.storage.config_records import RestartRequest, SessionKey
from connect.storage.config_state import (
    ClusterConfigState,
    ConfigEvent,
    ConfigStateBuilder,
    ConfigTransform,
)
from connect.storage.config_store import ConfigListener, tell
from connect.storage.instance_id import InstanceId, State, TargetState
from connect.storage.status_records import InstanceStatus, StatusTable, TopicStatus

__all__ = ["MemoryConfigStore", "MemoryStatusStore"]


class MemoryConfigStore:
    """A `ConfigStore` whose listener is called on the writer's thread, before the write returns.

    It encodes and decodes the same records as the topic, so results are the same. The config offset
    counts the records.
    """

    def __init__(self, *, transform: ConfigTransform | None = None) -> None:
        self._lock = threading.Lock()
        self._builder = ConfigStateBuilder(transform)
        self._records = 0
        self._listener: ConfigListener | None = None

    def set_listener(self, listener: ConfigListener) -> None:
        self._listener = listener

    def start(self, deadline: Deadline) -> None:
        with self._lock:
            self._builder.startup_complete()

    def snapshot(self) -> ClusterConfigState:
        with self._lock:
            return self._builder.snapshot()

    def contains(self, connector: str) -> bool:
        return self.snapshot().contains(connector)

    def refresh(self, deadline: Deadline) -> None:
        """Return at once: the store is always up to date."""

    def claim_write_privileges(self, deadline: Deadline) -> None:
        """Return at once: there are no other writers."""

    def put_connector_config(
        self,
        connector: str,
        config: Mapping[str, str | None],
        target_state: TargetState | None = None,
    ) -> None:
        records: list[tuple[bytes, bytes | None]] = []
        if target_state is not None:
            key = config_records.target_state_key(connector)
            records.append((key, config_records.encode_target_state(target_state)))
        value = config_records.encode_config(config)
        self._write(*records, (config_records.connector_key(connector), value))

    def remove_connector_config(self, connector: str) -> None:
        self._write(
            (config_records.connector_key(connector), None),
            (config_records.target_state_key(connector), None),
        )

    def put_task_configs(self, connector: str, configs: Sequence[Mapping[str, str | None]]) -> None:
        tasks = [
            (
                config_records.task_key(InstanceId(connector, task)),
                config_records.encode_config(config),
            )
            for task, config in enumerate(configs)
        ]
        commit = config_records.encode_task_commit(len(configs))
        self._write(*tasks, (config_records.commit_key(connector), commit))

    def put_target_state(self, connector: str, state: TargetState) -> None:
        key = config_records.target_state_key(connector)
        self._write((key, config_records.encode_target_state(state)))

    def put_restart_request(self, request: RestartRequest) -> None:
        key = config_records.restart_key(request.connector)
        self._write((key, config_records.encode_restart_request(request)))

    def put_session_key(self, key: SessionKey) -> None:
        value = config_records.encode_session_key(key)
        self._write((config_records.session_key_key(), value))

    def put_task_count_record(self, connector: str, tasks: int) -> None:
        key = config_records.task_count_key(connector)
        self._write((key, config_records.encode_task_count(tasks)))

    def put_logger_level(self, namespace: str, level: str) -> None:
        key = config_records.logger_key(namespace)
        self._write((key, config_records.encode_logger_level(level)))

    def stop(self, deadline: Deadline) -> None:
        """Do nothing: there is nothing to close."""

    def _write(self, *records: tuple[bytes, bytes | None]) -> None:
        events: list[ConfigEvent] = []
        with self._lock:
            for key, value in records:
                record = config_records.decode_record(key, value)
                events.extend(self._builder.apply(self._records, record))
                self._records += 1
        # The lock is not held here: a listener may take its own, and other threads write while
        # holding theirs.
        if self._listener is not None:
            for event in events:
                tell(self._listener, event)


class MemoryStatusStore:
    """A `StatusStore` whose writes are visible at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._table = StatusTable()
        self._deleted: Callable[[InstanceId], None] = lambda _: None
        self._topic_deleted: Callable[[str, str], None] = lambda _, __: None

    def set_listener(self, deleted: Callable[[InstanceId], None]) -> None:
        self._deleted = deleted

    def set_topic_listener(self, deleted: Callable[[str, str], None]) -> None:
        self._topic_deleted = deleted

    def start(self, deadline: Deadline) -> None:
        """Do nothing: there is nothing to open."""

    def put(self, instance: InstanceId, status: InstanceStatus) -> None:
        with self._lock:
            self._table.put(instance, status)
        if status.state is State.DESTROYED:
            self._deleted(instance)

    def put_safe(self, instance: InstanceId, status: InstanceStatus) -> None:
        with self._lock:
            if self._table.may_write_safely(instance, status):
                self._table.put(instance, status)

    def put_topic(self, status: TopicStatus) -> None:
        with self._lock:
            self._table.put_topic(status)

    def get(self, instance: InstanceId) -> InstanceStatus | None:
        with self._lock:
            return self._table.get(instance)

    def get_all(self, connector: str) -> dict[int, InstanceStatus]:
        with self._lock:
            return self._table.tasks_of(connector)

    def connectors(self) -> set[str]:
        with self._lock:
            return self._table.connectors()

    def get_topic(self, connector: str, topic: str) -> TopicStatus | None:
        with self._lock:
            return self._table.topics_of(connector).get(topic)

    def get_topics(self, connector: str) -> list[TopicStatus]:
        with self._lock:
            return list(self._table.topics_of(connector).values())

    def delete_topic(self, connector: str, topic: str) -> None:
        with self._lock:
            self._table.remove_topic(connector, topic)
        self._topic_deleted(connector, topic)

    def delete_topics(self, connector: str) -> None:
        for status in self.get_topics(connector):
            self.delete_topic(connector, status.topic)

    def flush(self, deadline: Deadline) -> bool:
        """Return True: no writes are pending."""
        return True

    def refresh(self, deadline: Deadline) -> None:
        """Return at once: the store is always up to date."""

    def stop(self, deadline: Deadline) -> None:
        """Do nothing: there is nothing to close."""
