"""Opens the topics that a translator follows, on real clusters.

`InProcessTranslator` gets its topics from a `TranslationLogs`. Tests and the simulator pass another
one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Protocol

from connect.clients.librdkafka.admin import Admin
from connect.clients.librdkafka.record_lookup import read_records
from connect.clients.librdkafka.topic_log import LogRecord, TopicLog
from connect.clock import Deadline
from connect.errors import ConnectError

__all__ = ["FollowedLog", "KafkaTranslationLogs", "TranslationLogs"]

_FETCH_S = 30.0
_CLOSE_S = 2.0


class FollowedLog(Protocol):
    """A topic that is read continuously."""

    def read_to_end(self, deadline: Deadline) -> None:
        """Wait until all records from before the call are read. Raises `ConnectError`."""

    def stop(self, deadline: Deadline) -> None:
        """Stop reading. Ends a call on another thread."""


class TranslationLogs(Protocol):
    """Opens topics with one partition each, on one cluster. One owner, apart from the logs' own
    threads."""

    def topic_ids(self, topics: Collection[str], deadline: Deadline) -> Mapping[str, str]:
        """Return the IDs of those topics that exist. A re-created topic has another ID. Raises
        `ConnectError`."""

    def follow(
        self, topic: str, on_record: Callable[[LogRecord], None], deadline: Deadline
    ) -> FollowedLog:
        """Return a log of the topic, read to its end. Waits for a topic that does not exist. Raises
        `ConnectError`."""

    def fetch(
        self, topic: str, offsets: Collection[int]
    ) -> Mapping[int, tuple[bytes, bytes | None]]:
        """Return key and value of the records at these offsets that still exist. Raises
        `ConnectError`."""

    def close(self, deadline: Deadline) -> None:
        """Stop all logs and end calls on other threads."""


class KafkaTranslationLogs:
    """`TranslationLogs` of a cluster, from Java consumer properties."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._properties = properties
        self._admin = Admin(properties)
        self._logs: list[TopicLog] = []

    def topic_ids(self, topics: Collection[str], deadline: Deadline) -> Mapping[str, str]:
        found = self._admin.describe_topics(topics, max(1.0, deadline.remaining()), "Read")
        return {name: description.topic_id for name, description in found.items()}

    def follow(
        self, topic: str, on_record: Callable[[LogRecord], None], deadline: Deadline
    ) -> TopicLog:
        log = TopicLog(topic, self._properties, on_record)
        self._logs.append(log)
        try:
            log.start(deadline)
        except ConnectError:
            self._logs.remove(log)
            log.stop(Deadline(_CLOSE_S))
            raise
        return log

    def fetch(
        self, topic: str, offsets: Collection[int]
    ) -> Mapping[int, tuple[bytes, bytes | None]]:
        return read_records(self._properties, topic, 0, offsets, Deadline(_FETCH_S))

    def close(self, deadline: Deadline) -> None:
        for log in tuple(self._logs):
            log.stop(deadline)
        self._admin.close()
