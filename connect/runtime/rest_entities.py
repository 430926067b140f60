"""Answers of a herder, in the shapes of Kafka Connect's REST API (Java: runtime.rest.entities).

Where names and order of fields are those of the JSON, REST sends them as they are; for the others
`api.rest.models` has the shape.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

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
    """`type`: source, sink or unknown."""

    name: str
    config: Mapping[str, str]
    tasks: Sequence[TaskId]
    type: str


@dataclass(frozen=True, slots=True)
class TaskInfo:
    id: TaskId
    config: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class TaskStateInfo:
    """`version` None is shown as null; "undefined" is left out. `trace` None is left out."""

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
    """One source partition or sink partition, and its offset; None: to be deleted, or unknown."""

    partition: Mapping[str, OffsetValue] | None
    offset: Mapping[str, OffsetValue] | None


@dataclass(frozen=True, slots=True)
class PluginInfo:
    """`kind`: source, sink, converter, header_converter, transformation or predicate. `name` is
    the class as configs write it (Java's name where there is one)."""

    name: str
    kind: str
    version: str


@dataclass(frozen=True, slots=True)
class ConfigInfo:
    """`key` None: a value nothing defines. `order_in_group` counts from 1 within its group;
    `prefix` is put before the key's name (`transforms.a.`, `producer.override.`, ...)."""

    key: ConfigKey | None
    value: ConfigValue
    group: str | None = None
    order_in_group: int = -1
    prefix: str = ""


@dataclass(frozen=True, slots=True)
class ConfigInfos:
    """The outcome of a validation. `name` is the connector class."""

    name: str
    error_count: int
    groups: Sequence[str]
    configs: Sequence[ConfigInfo]


@dataclass(frozen=True, slots=True)
class LoggerLevel:
    """`last_modified`: epoch ms; None if it was never changed through the worker."""

    level: str | None
    last_modified: int | None


@dataclass(frozen=True, slots=True)
class WorkerHealth:
    """`ready`: startup is over. `stage`: what the herder is doing, for messages; None if nothing
    worth telling. `trouble`: what keeps it from its work, until that is over."""

    ready: bool
    stage: str | None = None
    trouble: str | None = None
