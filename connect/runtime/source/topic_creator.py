"""Creates a source connector's new topics before their first record."""

from __future__ import annotations

import logging
from collections.abc import Callable

from connect.clients.errors import not_authorized, refused_or_unsupported
from connect.clients.librdkafka.admin import Admin
from connect.clients.librdkafka.descriptions import TopicDescription
from connect.errors import ConnectError, DeadlineExceeded, TaskFailed
from connect.runtime.source.topic_creation import TopicGroup, TopicGroups

__all__ = ["TopicCreator"]

_log = logging.getLogger(__name__)

# The task's thread waits for this long; a slower description is retried.
_DESCRIBE_S = 10.0
_CREATE_S = 60.0


class TopicCreator:
    """Creates the topics of one task, on its thread. Existing topics stay as they are.

    `open_admin` creates the admin client on first use; this creator closes it.
    """

    def __init__(self, groups: TopicGroups, open_admin: Callable[[], Admin]) -> None:
        self._groups = groups
        self._open_admin = open_admin
        self._admin: Admin | None = None
        self._known: set[str] = set()

    def ensure(self, topic: str) -> None:
        """Return when the topic exists. The cluster is queried once per topic.

        Raises `TaskFailed` if the topic cannot be created, and `DeadlineExceeded`, which is
        retriable, if the cluster does not answer.
        """
        if topic in self._known:
            return
        _log.info("Checking whether topic %s exists before the task's first write to it", topic)
        if self._admin is None:
            self._admin = self._open_admin()
        if not self._described(self._admin, topic):
            self._create(self._admin, topic, self._groups.group_of(topic))
        self._known.add(topic)

    def close(self) -> None:
        """Close the admin client. May be called again."""
        if self._admin is not None:
            self._admin.close()

    def _described(self, admin: Admin, topic: str) -> TopicDescription | None:
        try:
            return admin.describe_topics([topic], _DESCRIBE_S).get(topic)
        except DeadlineExceeded:
            raise
        except ConnectError as error:
            if not_authorized(error):
                raise TaskFailed(
                    f"Not authorized to describe topic(s) '{topic}': {error}; to write to it, "
                    f"grant Write on topic {topic}"
                ) from error
            text = f"Error while attempting to describe topics '{topic}'"
            raise TaskFailed(f"{text}: {error}") from error

    def _create(self, admin: Admin, topic: str, group: TopicGroup) -> None:
        _log.info(
            "Creating topic %s with the settings of topic creation group %s", topic, group.name
        )
        try:
            created = admin.create_topic(
                topic, group.partitions, group.replication_factor, group.configs, timeout=_CREATE_S
            )
        except ConnectError as error:
            raise _creation_failed(topic, group, error) from error
        if created:
            _log.info("Created topic %s: %s", topic, group)
        else:
            _log.info("Topic %s was already created by another client", topic)


def _creation_failed(topic: str, group: TopicGroup, error: ConnectError) -> TaskFailed:
    if refused_or_unsupported(error):
        return TaskFailed(
            f"Task failed to create new topic {topic} ({group}). Ensure that the task is authorized"
            f" to create topics or that the topic exists and restart the task: {error}"
        )
    if isinstance(error, DeadlineExceeded):
        return TaskFailed(
            f"Timed out while checking for or creating topic(s) '{topic}'. This could indicate a"
            " connectivity issue, unavailable topic partitions, or if this is your first use of the"
            f" topic it may have taken too long to create: {error}"
        )
    return TaskFailed(f"Unable to create topic(s) '{topic}': {error}")
