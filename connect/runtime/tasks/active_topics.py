"""The topics that connectors use, as the workers of a group record them (KIP-558)."""

from __future__ import annotations

from connect.clock import Clock
from connect.runtime.states import InstanceId
from connect.storage.status_records import TopicStatus
from connect.storage.status_store import StatusStore

__all__ = ["ActiveTopics"]


class ActiveTopics:
    """Records each topic once, and once more after anyone in the group has reset it. Thread-safe.

    Tasks call `used` for every record or batch, so it takes a lock only for the first one.
    """

    def __init__(self, store: StatusStore, clock: Clock) -> None:
        """Create the list. The store must not have been started."""
        self._store = store
        self._clock = clock
        self._recorded: set[tuple[str, str]] = set()
        store.set_topic_listener(self._deleted)

    def used(self, task: InstanceId, topic: str) -> None:
        """Record that a task uses a topic."""
        used = (task.connector, topic)
        if used in self._recorded:
            return
        # Before the store is asked: a reset that comes after its answer removes the entry again.
        self._recorded.add(used)
        if self._store.get_topic(task.connector, topic) is None:
            now = self._clock.now_ms()
            self._store.put_topic(TopicStatus(topic, task.connector, task.task, now))

    def of(self, connector: str) -> list[str]:
        """Return the names of the topics that a connector uses, sorted."""
        return sorted(status.topic for status in self._store.get_topics(connector))

    def reset(self, connector: str) -> None:
        """Forget a connector's topics, on all workers. Topics that are still in use are recorded
        again."""
        self._store.delete_topics(connector)

    def _deleted(self, connector: str, topic: str) -> None:
        self._recorded.discard((connector, topic))
