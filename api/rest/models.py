"""Requests and responses of the REST API: Kafka Connect's JSON, with its field names and order.

The `of` methods create response models from the herder's data. `json_bytes` encodes models, and
lists and maps of them, as compact UTF-8.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Self

from pydantic import BaseModel, ConfigDict, Field
from pydantic_core import to_json

from connect.config.definition import REQUIRED
from connect.config.types import format_value
from connect.plugin import OffsetValue
from connect.runtime import rest_entities as entities

__all__ = [
    "ConfigInfo",
    "ConfigInfos",
    "ConfigKeyInfo",
    "ConnectorInfo",
    "ConnectorOffset",
    "ConnectorOffsets",
    "ConnectorState",
    "ConnectorStateInfo",
    "ConnectorTaskId",
    "ConnectorTopics",
    "CreateConnectorRequest",
    "ErrorMessage",
    "ExpandedConnector",
    "LoggerLevel",
    "LoggerRequest",
    "Message",
    "PluginInfo",
    "ServerInfo",
    "TaskInfo",
    "TaskState",
    "WorkerStatus",
    "json_bytes",
]

UNDEFINED = "undefined"
"""Value for a plugin's version that is not shown."""


def json_bytes(value: object) -> bytes:
    """Encode models, and lists and maps of them, as JSON."""
    return to_json(value, by_alias=True)


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, populate_by_name=True, extra="forbid")


def _absent(value: object) -> bool:
    return not value


def _undefined(value: object) -> bool:
    return value == UNDEFINED


class ErrorMessage(_Model):
    """The body of every error."""

    error_code: int
    message: str


class Message(_Model):
    message: str


class ServerInfo(_Model):
    version: str
    commit: str
    kafka_cluster_id: str


class WorkerStatus(_Model):
    """The body of `/health` (KIP-1017). `status`: healthy, starting or unhealthy."""

    status: str
    message: str


class CreateConnectorRequest(_Model):
    """The body of POST /connectors. `initial_state`: RUNNING, PAUSED or STOPPED, in any case."""

    name: str | None = None
    config: dict[str, str | None] | None = None
    initial_state: str | None = None


class ConnectorTaskId(_Model):
    connector: str
    task: int


class ConnectorInfo(_Model):
    name: str
    config: Mapping[str, str | None]
    tasks: Sequence[ConnectorTaskId]
    type: str

    @classmethod
    def of(cls, info: entities.ConnectorInfo) -> Self:
        tasks = [ConnectorTaskId(connector=task.connector, task=task.task) for task in info.tasks]
        return cls(name=info.name, config=info.config, tasks=tasks, type=info.type)


class ConnectorState(_Model):
    state: str
    worker_id: str
    version: str | None = Field(None, exclude_if=_undefined)
    trace: str | None = Field(None, exclude_if=_absent)


class TaskState(_Model):
    id: int
    state: str
    worker_id: str
    version: str | None = Field(None, exclude_if=_undefined)
    trace: str | None = Field(None, exclude_if=_absent)

    @classmethod
    def of(cls, task: entities.TaskStateInfo) -> Self:
        return cls(
            id=task.id,
            state=task.state,
            worker_id=task.worker_id,
            version=task.version,
            trace=task.trace,
        )


class ConnectorStateInfo(_Model):
    name: str
    connector: ConnectorState
    tasks: Sequence[TaskState]
    type: str

    @classmethod
    def of(cls, info: entities.ConnectorStateInfo) -> Self:
        connector = ConnectorState(
            state=info.state, worker_id=info.worker_id, version=info.version, trace=info.trace
        )
        return cls(
            name=info.name,
            connector=connector,
            tasks=[TaskState.of(task) for task in info.tasks],
            type=info.type,
        )


class ExpandedConnector(_Model):
    """One connector of a list with `expand`. Only the requested parts are set."""

    status: ConnectorStateInfo | None = Field(None, exclude_if=_absent)
    info: ConnectorInfo | None = Field(None, exclude_if=_absent)


class TaskInfo(_Model):
    id: ConnectorTaskId
    config: Mapping[str, str]

    @classmethod
    def of(cls, info: entities.TaskInfo) -> Self:
        task = ConnectorTaskId(connector=info.id.connector, task=info.id.task)
        return cls(id=task, config=info.config)


class ConnectorOffset(_Model):
    """The offset of one partition. A null `offset` in a request deletes the stored offset."""

    partition: Mapping[str, OffsetValue] | None = None
    offset: Mapping[str, OffsetValue] | None = None


class ConnectorOffsets(_Model):
    offsets: Sequence[ConnectorOffset] | None = None

    @classmethod
    def of(cls, entries: Sequence[entities.OffsetEntry]) -> Self:
        return cls(
            offsets=[
                ConnectorOffset(partition=entry.partition, offset=entry.offset) for entry in entries
            ]
        )


class ConnectorTopics(_Model):
    topics: Sequence[str]


class PluginInfo(_Model):
    class_: str = Field(validation_alias="class", serialization_alias="class")
    type: str
    version: str | None = Field(None, exclude_if=_undefined)

    @classmethod
    def of(cls, plugin: entities.PluginInfo) -> Self:
        return cls(class_=plugin.name, type=plugin.kind, version=plugin.version)


class ConfigKeyInfo(_Model):
    name: str
    type: str
    required: bool
    default_value: str | None
    importance: str
    documentation: str
    group: str | None
    order_in_group: int
    width: str
    display_name: str
    dependents: Sequence[str]

    @classmethod
    def of(cls, info: entities.ConfigInfo) -> Self:
        """Convert an `info` that has a key."""
        key = info.key
        assert key is not None
        default = key.default
        shown = None if default is REQUIRED or default is None else format_value(default)
        return cls(
            name=info.prefix + key.name,
            type=key.type.value,
            required=key.required,
            default_value=shown,
            importance=key.importance.value,
            documentation=key.doc,
            group=info.group,
            order_in_group=info.order_in_group,
            width=key.width.value,
            display_name=key.display_name or key.name,
            dependents=key.dependents,
        )


class ConfigValueInfo(_Model):
    name: str
    value: str | None
    recommended_values: Sequence[str]
    errors: Sequence[str]
    visible: bool


class ConfigInfo(_Model):
    definition: ConfigKeyInfo | None
    value: ConfigValueInfo

    @classmethod
    def of(cls, info: entities.ConfigInfo) -> Self:
        value = ConfigValueInfo(
            name=info.value.name,
            value=info.value.value,
            recommended_values=info.value.recommended,
            errors=info.value.errors,
            visible=info.value.visible,
        )
        return cls(definition=None if info.key is None else ConfigKeyInfo.of(info), value=value)


class ConfigInfos(_Model):
    name: str
    error_count: int
    groups: Sequence[str]
    configs: Sequence[ConfigInfo]

    @classmethod
    def of(cls, infos: entities.ConfigInfos) -> Self:
        return cls(
            name=infos.name,
            error_count=infos.error_count,
            groups=infos.groups,
            configs=[ConfigInfo.of(info) for info in infos.configs],
        )


class LoggerLevel(_Model):
    """The level of a logger. `last_modified`: ms since the epoch; null if the level was never
    changed."""

    level: str | None
    last_modified: int | None

    @classmethod
    def of(cls, level: entities.LoggerLevel) -> Self:
        return cls(level=level.level, last_modified=level.last_modified)


class LoggerRequest(_Model):
    level: str
