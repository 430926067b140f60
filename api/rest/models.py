"""Requests and responses of the REST API: Kafka Connect's JSON, with its field names and order.

Answers whose names and order of fields are those of the JSON are the herder's (`rest_entities`);
models of the others are made from its data by their `of` methods. `json_bytes` writes any of them,
alone or in lists and maps, as compact UTF-8.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Self

from pydantic import BaseModel, ConfigDict, Field
from pydantic_core import to_json

from connect.clock import seconds_of
from connect.config.definition import REQUIRED, ConfigValue
from connect.config.types import format_value
from connect.plugin import OffsetValue, PartitionHealth
from connect.runtime import rest_entities as entities
from connect.runtime.connector_status import ConnectorStatus
from connect.runtime.states import State

__all__ = [
    "ConfigInfo",
    "ConfigInfos",
    "ConfigKeyInfo",
    "ConnectorOffset",
    "ConnectorOffsets",
    "ConnectorState",
    "ConnectorStateInfo",
    "ConnectorTopics",
    "CreateConnectorRequest",
    "ErrorMessage",
    "ExpandedConnector",
    "FlowLag",
    "LoggerRequest",
    "Message",
    "PartitionLag",
    "PluginInfo",
    "ServerInfo",
    "TaskState",
    "UnknownLag",
    "WorkerStatus",
    "json_bytes",
]

UNDEFINED = "undefined"
"""Value for a plugin's version that is not shown."""


def json_bytes(value: object) -> bytes:
    """Models, data classes, and lists and maps of them, as JSON."""
    return to_json(value, by_alias=True)


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, populate_by_name=True, extra="forbid")

    @classmethod
    def like(cls, entity: object) -> Self:
        """Make the model from an object whose fields have the same names."""
        return cls.model_validate(entity, from_attributes=True)


def _absent(value: object) -> bool:
    return not value


def _undefined(value: object) -> bool:
    return value == UNDEFINED


def _unknown(value: object) -> bool:
    # Java shows null, on which clients break that expect strings.
    return value is None or value == UNDEFINED


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


class ConnectorState(_Model):
    state: str
    worker_id: str
    version: str | None = Field(None, exclude_if=_unknown)
    trace: str | None = Field(None, exclude_if=_absent)


class TaskState(_Model):
    id: int
    state: str
    worker_id: str
    version: str | None = Field(None, exclude_if=_unknown)
    trace: str | None = Field(None, exclude_if=_absent)


class ConnectorStateInfo(_Model):
    name: str
    connector: ConnectorState
    tasks: Sequence[TaskState]
    type: str

    @classmethod
    def of(cls, info: entities.ConnectorStateInfo) -> Self:
        return cls(
            name=info.name,
            connector=ConnectorState.like(info),
            tasks=[TaskState.like(task) for task in info.tasks],
            type=info.type,
        )


class ExpandedConnector(_Model):
    """One connector of a list with `expand`. Only the requested parts are set."""

    status: ConnectorStateInfo | None = Field(None, exclude_if=_absent)
    info: entities.ConnectorInfo | None = Field(None, exclude_if=_absent)


class ConnectorOffset(_Model):
    """The offset of one partition. A null `offset` in a request deletes the stored offset."""

    partition: Mapping[str, OffsetValue] | None = None
    offset: Mapping[str, OffsetValue] | None = None


class ConnectorOffsets(_Model):
    offsets: Sequence[ConnectorOffset] | None = None

    @classmethod
    def of(cls, entries: Sequence[entities.OffsetEntry]) -> Self:
        return cls(offsets=[ConnectorOffset.like(entry) for entry in entries])


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


class ConfigInfo(_Model):
    definition: ConfigKeyInfo | None
    value: ConfigValue

    @classmethod
    def of(cls, info: entities.ConfigInfo) -> Self:
        definition = None if info.key is None else ConfigKeyInfo.of(info)
        return cls(definition=definition, value=info.value)


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


class PartitionLag(_Model):
    """How far the copy of one source partition is behind. null: not known; for
    `time_to_loss_seconds` also: no loss is expected.

    `records` counts source offsets, `bytes` is estimated from the size of the offsets copied so
    far. `seconds` is the age of the newest copied record while more wait. `error`: why it does not
    move. `timestamps_ahead_seconds`: by how much records copied lately are later than the worker's
    clock; null if by less than a minute.
    """

    topic: str
    partition: int
    records: int | None
    seconds: float | None
    bytes: int | None
    time_to_loss_seconds: float | None
    error: str | None
    timestamps_ahead_seconds: float | None
    connector: str
    task: int
    worker_id: str


class UnknownLag(_Model):
    """Tasks whose partitions are not known, and why. No task: the connector has none yet."""

    connector: str
    tasks: Sequence[int]
    worker_id: str
    reason: str


class FlowLag(_Model):
    flow: str
    partitions: Sequence[PartitionLag]
    incomplete: Sequence[UnknownLag]

    @classmethod
    def of(cls, flow: str, connectors: Sequence[ConnectorStatus]) -> Self:
        """Return the lag of the flow's source connectors."""
        partitions = [
            PartitionLag(
                topic=each.topic,
                partition=each.partition,
                records=each.lag_records,
                seconds=seconds_of(each.lag_ms),
                bytes=each.lag_bytes,
                time_to_loss_seconds=seconds_of(each.time_to_loss_ms),
                error=each.error,
                timestamps_ahead_seconds=_ahead_seconds(each),
                connector=connector.name,
                task=task.number,
                worker_id=task.status.worker_id,
            )
            for connector in connectors
            for task in connector.tasks
            for each in task.partitions
        ]
        return cls(
            flow=flow,
            partitions=sorted(partitions, key=lambda each: (each.topic, each.partition)),
            incomplete=[unknown for each in connectors for unknown in _unknown_lags(each)],
        )


def _ahead_seconds(partition: PartitionHealth) -> float | None:
    ms = partition.details.get("timestamps_ahead_ms")
    return seconds_of(ms) if isinstance(ms, int) else None


def _unknown_lags(connector: ConnectorStatus) -> list[UnknownLag]:
    """One entry for each worker and reason."""
    found: dict[tuple[str, str], list[int]] = {}
    for task in connector.tasks:
        if task.unknown is not None:
            found.setdefault((task.status.worker_id, task.unknown), []).append(task.number)
    status = connector.status
    if not connector.tasks and status.state is not State.RUNNING:
        trace = "" if status.trace is None else f": {status.trace}"
        found[status.worker_id, f"The connector is {status.state.value}{trace}"] = []
    return [
        UnknownLag(connector=connector.name, tasks=tasks, worker_id=worker, reason=reason)
        for (worker, reason), tasks in found.items()
    ]


class LoggerRequest(_Model):
    level: str
