"""Encode and decode the records of the status topic, and keep the table of statuses.

Byte for byte Kafka Connect's (KafkaStatusBackingStore, 4.3.1). Keys are UTF-8 strings. Values are
schemaless JSON without blanks, and null for a deleted status:

    status-connector-<name>   {"state":"RUNNING","trace":null,"worker_id":"h:8083","generation":3,
    status-task-<name>-<n>     "version":"1.2.3"}
    status-topic-<topic>:connector-<name>
                              {"topic":{"name":"t","connector":"c","task":0,"discoverTimestamp":5}}

`StatusTable` has no thread or lock: its store has a lock.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from connect.data import json_codec
from connect.data.json_codec import JsonValue
from connect.errors import CorruptData
from connect.storage.instance_id import InstanceId, State, task_number

__all__ = [
    "InstanceStatus",
    "StatusTable",
    "TopicStatus",
    "UsedTopic",
    "encode_status",
    "encode_topic_status",
    "is_late_word",
    "status_key",
    "topic_key",
]

_log = logging.getLogger(__name__)

_CONNECTOR = "status-connector-"
_TASK = "status-task-"
_TOPIC = "status-topic-"
_TOPIC_SEPARATOR = ":connector-"


@dataclass(frozen=True, slots=True)
class InstanceStatus:
    """The status of a connector or task, as written by worker `worker_id` (`host:port`).

    `generation` is the worker's generation of the group (0 for none), `trace` the error of a
    failure, and `version` the plugin's.
    """

    state: State
    worker_id: str
    generation: int = 0
    trace: str | None = None
    version: str | None = None


@dataclass(frozen=True, slots=True)
class TopicStatus:
    """A topic that a connector uses, first reported by its task `task` at `discovered_ms`."""

    topic: str
    connector: str
    task: int
    discovered_ms: int


class UsedTopic(NamedTuple):
    """A topic that a connector uses."""

    connector: str
    topic: str


def status_key(instance: InstanceId) -> bytes:
    prefix = _TASK if instance.is_task else _CONNECTOR
    return f"{prefix}{instance}".encode()


def topic_key(connector: str, topic: str) -> bytes:
    return f"{_TOPIC}{topic}{_TOPIC_SEPARATOR}{connector}".encode()


def encode_status(status: InstanceStatus) -> bytes | None:
    """Encode a status. DESTROYED is never written; it becomes null, which deletes the status."""
    if status.state is State.DESTROYED:
        return None
    return json_codec.encode(
        {
            "state": status.state.value,
            "trace": status.trace,
            "worker_id": status.worker_id,
            "generation": status.generation,
            "version": status.version,
        }
    )


def encode_topic_status(status: TopicStatus) -> bytes:
    return json_codec.encode(
        {
            "topic": {
                "name": status.topic,
                "connector": status.connector,
                "task": status.task,
                "discoverTimestamp": status.discovered_ms,
            }
        }
    )


def is_late_word(value: bytes, status: InstanceStatus) -> bool:
    """Return whether a record is another worker's status with an older generation than `status`."""
    try:
        said = _decode_status(value)
    except CorruptData:
        return False
    return said.worker_id != status.worker_id and said.generation < status.generation


class StatusTable:
    """The newest status of every connector, task and topic. Logs and ignores invalid records."""

    def __init__(self) -> None:
        self._connectors: dict[str, InstanceStatus] = {}
        self._tasks: dict[str, dict[int, InstanceStatus]] = {}
        self._topics: dict[str, dict[str, TopicStatus]] = {}

    def apply(self, key: bytes | None, value: bytes | None) -> InstanceId | UsedTopic | None:
        """Apply a record. Return the instance or the topic whose status it deleted, if any."""
        name = "" if key is None else key.decode(errors="replace")
        try:
            if name.startswith(_CONNECTOR) and len(name) > len(_CONNECTOR):
                return self._read_instance(InstanceId(name[len(_CONNECTOR) :]), value)
            if name.startswith(_TASK):
                task = _parse_task(name[len(_TASK) :])
                return None if task is None else self._read_instance(task, value)
            if name.startswith(_TOPIC):
                return self._read_topic(name, value)
        except CorruptData as error:
            _log.error("Ignoring the status record %s: %s", name, error)
            return None
        _log.warning("Ignoring a record of the status topic: key %r is unknown", name)
        return None

    def put(self, instance: InstanceId, status: InstanceStatus) -> None:
        """Set a status without applying the generation rule."""
        if status.state is State.DESTROYED:
            self._remove(instance)
        elif instance.is_task:
            self._tasks.setdefault(instance.connector, {})[instance.task] = status
        else:
            self._connectors[instance.connector] = status

    def put_topic(self, status: TopicStatus) -> None:
        self._topics.setdefault(status.connector, {})[status.topic] = status

    def remove_topic(self, connector: str, topic: str) -> None:
        self._topics.get(connector, {}).pop(topic, None)

    def may_write_safely(self, instance: InstanceId, status: InstanceStatus) -> bool:
        """Return whether no worker of a newer generation has written a status of the instance."""
        current = self.get(instance)
        return (
            current is None
            or current.worker_id == status.worker_id
            or current.generation <= status.generation
        )

    def get(self, instance: InstanceId) -> InstanceStatus | None:
        if instance.is_task:
            return self._tasks.get(instance.connector, {}).get(instance.task)
        return self._connectors.get(instance.connector)

    def tasks_of(self, connector: str) -> dict[int, InstanceStatus]:
        """Return the task statuses by number, in order."""
        return dict(sorted(self._tasks.get(connector, {}).items()))

    def connectors(self) -> set[str]:
        """Return the connectors that have a status, or have a task with one."""
        return self._connectors.keys() | {name for name, tasks in self._tasks.items() if tasks}

    def topics_of(self, connector: str) -> dict[str, TopicStatus]:
        return dict(self._topics.get(connector, {}))

    def _read_instance(self, instance: InstanceId, value: bytes | None) -> InstanceId | None:
        if value is None:
            self._remove(instance)
            return instance
        status = _decode_status(value)
        if instance.is_task and status.state is State.UNASSIGNED:
            # The other worker lost the task and has not noticed yet that this one runs it.
            current = self.get(instance)
            if (
                current is not None
                and current.state is State.RUNNING
                and current.generation >= status.generation
            ):
                return None
        self.put(instance, status)
        return None

    def _remove(self, instance: InstanceId) -> None:
        if instance.is_task:
            self._tasks.get(instance.connector, {}).pop(instance.task, None)
        else:
            self._connectors.pop(instance.connector, None)
            self._tasks.pop(instance.connector, None)

    def _read_topic(self, name: str, value: bytes | None) -> UsedTopic | None:
        colon = name.find(":")
        topic, connector = name[len(_TOPIC) : colon], name[colon + len(_TOPIC_SEPARATOR) :]
        if colon < 0 or not topic or not connector:
            _log.warning("Ignoring a record of the status topic: key %r is unknown", name)
        elif value is None:
            self.remove_topic(connector, topic)
            return UsedTopic(connector, topic)
        else:
            self._topics.setdefault(connector, {})[topic] = _decode_topic_status(value)
        return None


def _parse_task(name: str) -> InstanceId | None:
    connector, dash, number = name.rpartition("-")
    task = task_number(number)
    if not dash or task is None:
        _log.warning(
            "Ignoring a record of the status topic: key '%s%s' does not name a task", _TASK, name
        )
        return None
    return InstanceId(connector, task)


def _decode_status(value: bytes) -> InstanceStatus:
    content = _object(json_codec.decode(value))
    text = content.get("state")
    try:
        state = State(text)
    except ValueError as error:
        raise CorruptData(f"{text!r} is not a state") from error
    return InstanceStatus(
        state,
        worker_id=_optional_text(content, "worker_id") or "",
        generation=_integer(content, "generation"),
        trace=_optional_text(content, "trace"),
        version=_optional_text(content, "version"),
    )


def _decode_topic_status(value: bytes) -> TopicStatus:
    content = _object(_object(json_codec.decode(value)).get("topic"))
    return TopicStatus(
        topic=_optional_text(content, "name") or "",
        connector=_optional_text(content, "connector") or "",
        task=_integer(content, "task"),
        discovered_ms=_integer(content, "discoverTimestamp"),
    )


def _object(value: JsonValue) -> Mapping[str, JsonValue]:
    if not isinstance(value, Mapping):
        raise CorruptData(f"expected a JSON object, got {type(value).__name__}")
    return value


def _integer(content: Mapping[str, JsonValue], name: str) -> int:
    number = content.get(name)
    if not isinstance(number, int) or isinstance(number, bool):
        raise CorruptData(f"{name} is {number!r}, not an integer")
    return number


def _optional_text(content: Mapping[str, JsonValue], name: str) -> str | None:
    text = content.get(name)
    if text is not None and not isinstance(text, str):
        raise CorruptData(f"{name} is {text!r}, not a string")
    return text
