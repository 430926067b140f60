"""Results of a herder, in the shapes of Kafka Connect's REST API (Java: runtime.rest.entities).

REST sends a result unchanged if its field names and their order are those of the JSON. For the
others `api.rest.models` defines the shape.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from connect.config.definition import ConfigKey, ConfigValue
from connect.plugin import OffsetValue

__all__ = [
    "ConfigInfo",
    "ConfigInfos",
    "ConnectorInfo",
    "ConnectorStateInfo",
    "LoggerLevel",
    "OffsetEntry",
    "PluginInfo",
    "TaskId",
    "TaskInfo",
    "TaskStateInfo",
    "WorkerHealth",
]


@dataclass(frozen=True, slots=True, order=True)
class TaskId:
    connector: str
    task: int


@dataclass(frozen=True, slots=True)
class ConnectorInfo:
    """A connector with its config and tasks. `type` is source, sink or unknown."""

    name: str
    config: Mapping[str, str] = field(repr=False)
    tasks: Sequence[TaskId]
    type: str


@dataclass(frozen=True, slots=True)
class TaskInfo:
    id: TaskId
    config: Mapping[str, str] = field(repr=False)


@dataclass(frozen=True, slots=True)
class TaskStateInfo:
    """A task's status. Fields that are None are omitted, and so is the `version` "undefined"."""

    id: int
    state: str
    worker_id: str
    trace: str | None = None
    version: str | None = None


@dataclass(frozen=True, slots=True)
class ConnectorStateInfo:
    """A connector's status with its tasks, sorted by id."""

    name: str
    state: str
    worker_id: str
    tasks: Sequence[TaskStateInfo]
    type: str
    trace: str | None = None
    version: str | None = None


@dataclass(frozen=True, slots=True)
class OffsetEntry:
    """A source or sink partition and its offset. `offset` None: to be deleted, or unknown."""

    partition: Mapping[str, OffsetValue] | None
    offset: Mapping[str, OffsetValue] | None


@dataclass(frozen=True, slots=True)
class PluginInfo:
    """A plugin. `kind` is source, sink, converter, header_converter, transformation or predicate.

    `name` is the class name in configs (Java's if there is one).
    """

    name: str
    kind: str
    version: str


@dataclass(frozen=True, slots=True)
class ConfigInfo:
    """A config key with its value. `key` None: the value's key is not defined.

    `order_in_group` counts from 1 within the group. `prefix` is added before the key's name
    (`transforms.a.`, `producer.override.`, ...).
    """

    key: ConfigKey | None
    value: ConfigValue
    group: str | None = None
    order_in_group: int = -1
    prefix: str = ""


@dataclass(frozen=True, slots=True)
class ConfigInfos:
    """The result of a validation. `name` is the connector class."""

    name: str
    error_count: int
    groups: Sequence[str]
    configs: Sequence[ConfigInfo]


@dataclass(frozen=True, slots=True)
class LoggerLevel:
    """A logger's level. `last_modified` is in epoch ms, or None if the worker never changed it."""

    level: str | None
    last_modified: int | None


@dataclass(frozen=True, slots=True)
class WorkerHealth:
    """A worker's health.

    `ready`: startup is over. `stage`: the herder's current activity for messages, or None.
    `trouble`: the error that keeps the herder from working, while it lasts. `outside`: why a worker
    that is ready has lost its group.
    """

    ready: bool
    stage: str | None = None
    trouble: str | None = None
    outside: str | None = None
