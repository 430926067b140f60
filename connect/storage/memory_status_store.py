"""In-memory config and status stores for one process.

For standalone workers and for tests. Nothing survives the process.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from connect.clock import Deadline
from connect.storage import config_records
from connect.storage.config_state import (
    ConfigEvent,
    ConfigTransform,
)
from connect.storage.config_store import (
    ConfigRecordBytes,
    ConfigStore,
    commit_record,
    task_records,
)
from connect.storage.instance_id import InstanceId, State
from connect.storage.status_records import InstanceStatus, TopicStatus
from connect.storage.status_store import StatusStore

__all__ = ["MemoryConfigStore", "MemoryStatusStore"]


class MemoryConfigStore(ConfigStore):
    """A `ConfigStore` whose listener is called on the writer's thread, before the write returns.

    It encodes and decodes the same records as the topic, so results are the same. The config offset
    counts the records.
    """

    def __init__(self, *, transform: ConfigTransform | None = None) -> None:
        super().__init__(transform)
        self._records = 0

    def start(self, deadline: Deadline) -> None:
        with self._builder_lock:
            self._builder.startup_complete()

    def refresh(self, deadline: Deadline) -> None:
        """Return at once: the store is always up to date."""

    def claim_write_privileges(self, deadline: Deadline) -> None:
        """Return at once: there are no other writers."""

    def put_task_configs(self, connector: str, configs: Sequence[Mapping[str, str | None]]) -> None:
        self._write("", [*task_records(connector, configs), commit_record(connector, configs)])

    def stop(self, deadline: Deadline) -> None:
        """Do nothing: there is nothing to close."""

    def _write(self, failure: str, records: Sequence[ConfigRecordBytes]) -> None:
        events: list[ConfigEvent] = []
        with self._builder_lock:
            for key, value in records:
                record = config_records.decode_record(key, value)
                events.extend(self._builder.apply(self._records, record))
                self._records += 1
        # The lock is not held here: a listener may take its own, and other threads write while
        # holding theirs.
        self._tell(events)

    _write_open = _write


class MemoryStatusStore(StatusStore):
    """A `StatusStore` whose writes are visible at once."""

    def start(self, deadline: Deadline) -> None:
        """Do nothing: there is nothing to open."""

    def put(self, instance: InstanceId, status: InstanceStatus) -> None:
        with self._changed:
            self._table.put(instance, status)
        if status.state is State.DESTROYED:
            self._deleted(instance)

    def put_safe(self, instance: InstanceId, status: InstanceStatus) -> None:
        with self._changed:
            if self._table.may_write_safely(instance, status):
                self._table.put(instance, status)

    def put_topic(self, status: TopicStatus) -> None:
        with self._changed:
            self._table.put_topic(status)

    def delete_topic(self, connector: str, topic: str) -> None:
        with self._changed:
            self._table.remove_topic(connector, topic)
        self._topic_deleted(connector, topic)

    def flush(self, deadline: Deadline) -> bool:
        """Return True: no writes are pending."""
        return True

    def refresh(self, deadline: Deadline) -> None:
        """Return at once: the store is always up to date."""

    def stop(self, deadline: Deadline) -> None:
        """Do nothing: there is nothing to close."""
