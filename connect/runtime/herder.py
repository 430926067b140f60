"""Everything that REST may ask of a worker, whatever kind of herder answers.

`ConnectHerder` is what the routers of `api/` call; the standalone and the distributed herder
implement it. Shapes here are plain data with Kafka Connect's names; turning them into JSON is the
routers' business. Errors carry their HTTP status (`ConnectError.http_status`); those that a
distributed worker answers by forwarding are `NotLeader` and `NotAssigned`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from connect.clock import Deadline
from connect.config.definition import ConfigKey
from connect.errors import ConnectError
from connect.plugin import OffsetValue
from connect.runtime.states import TargetState

__all__ = [
    "AlreadyExists",
    "BadRequest",
    "ConfigInfo",
    "ConfigInfos",
    "ConfigValueInfo",
    "ConnectHerder",
    "ConnectorInfo",
    "ConnectorStateInfo",
    "Forbidden",
    "LoggerLevel",
    "NotAssigned",
    "NotFound",
    "NotLeader",
    "OffsetEntry",
    "PluginInfo",
    "RebalanceNeeded",
    "TaskId",
    "TaskInfo",
    "TaskStateInfo",
    "WorkerHealth",
]


class BadRequest(ConnectError):
    """What was asked for cannot be: the message says why."""

    http_status = 400


class Forbidden(ConnectError):
    """Switched off by the worker's config, or a signature that does not fit."""

    http_status = 403


class NotFound(ConnectError):
    """There is no such connector, task, plugin or logger."""

    http_status = 404


class AlreadyExists(ConnectError):
    """A connector of this name exists."""

    http_status = 409


class RebalanceNeeded(ConnectError):
    """This worker's view is older than the group's: asking again soon helps."""

    retriable = True
    http_status = 409


class _Forwardable(ConnectError):
    """Another worker has to answer. `url` is its advertised URL; None while it is not known."""

    retriable = True
    http_status = 409

    def __init__(self, message: str, url: str | None) -> None:
        super().__init__(message)
        self.url = url


class NotLeader(_Forwardable):
    """Only the group's leader may do this."""


class NotAssigned(_Forwardable):
    """Only the worker that runs the connector or task may do this."""


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
class ConfigValueInfo:
    """A value under validation, as text; `recommended` and `errors` may be empty."""

    name: str
    value: str | None
    recommended: Sequence[str] = ()
    errors: Sequence[str] = ()
    visible: bool = True


@dataclass(frozen=True, slots=True)
class ConfigInfo:
    """`key` None: a value nothing defines. `order_in_group` counts from 1 within its group;
    `prefix` is put before the key's name (`transforms.a.`, `producer.override.`, ...)."""

    key: ConfigKey | None
    value: ConfigValueInfo
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


class ConnectHerder(Protocol):
    """Safe to use from any thread. Calls wait for their answer, at most 90 s, and then raise
    `DeadlineExceeded`. A herder raises `NotFound`, `AlreadyExists`, `BadRequest`, `ConfigError`,
    `Forbidden`, `RebalanceNeeded`, `NotLeader`, `NotAssigned`, with Java's texts."""

    def start(self, deadline: Deadline) -> None: ...
    def stop(self, deadline: Deadline) -> bool: ...
    def check(self) -> None:
        """Raises what ended the herder by itself, without `stop`."""

    def health(self) -> WorkerHealth: ...
    def kafka_cluster_id(self) -> str: ...

    # Connectors.
    def connectors(self) -> list[str]: ...
    def connector_info(self, name: str) -> ConnectorInfo: ...
    def connector_config(self, name: str) -> Mapping[str, str]: ...
    def connector_state(self, name: str) -> ConnectorStateInfo: ...
    def task_infos(self, name: str) -> list[TaskInfo]: ...
    def task_state(self, task: TaskId) -> TaskStateInfo: ...
    def put_connector_config(
        self,
        name: str,
        config: Mapping[str, str | None],
        *,
        allow_replace: bool,
        initial_state: TargetState | None = None,
    ) -> tuple[bool, ConnectorInfo]:
        """(created, info). Validates first: `BadRequest` with Java's text counts the errors."""

    def patch_connector_config(
        self, name: str, patch: Mapping[str, str | None]
    ) -> ConnectorInfo: ...
    def delete_connector(self, name: str) -> None: ...
    def pause_connector(self, name: str) -> None: ...
    def resume_connector(self, name: str) -> None: ...
    def stop_connector(self, name: str) -> None: ...
    def restart_connector(self, name: str) -> None: ...
    def restart_connector_and_tasks(
        self, name: str, *, only_failed: bool, include_tasks: bool
    ) -> ConnectorStateInfo:
        """KIP-745: the plan, as the status will show it."""

    def restart_task(self, task: TaskId) -> None: ...

    # Offsets (KIP-875).
    def connector_offsets(self, name: str) -> list[OffsetEntry]: ...
    def alter_offsets(self, name: str, offsets: Sequence[OffsetEntry]) -> str:
        """The message of the answer."""

    def reset_offsets(self, name: str) -> str: ...

    # Topics a connector used (KIP-558).
    def active_topics(self, name: str) -> list[str]: ...
    def reset_active_topics(self, name: str) -> None: ...

    # Plugins and validation.
    def plugins(self, *, connectors_only: bool) -> list[PluginInfo]: ...
    def plugin_config(self, plugin: str, version: str | None = None) -> list[ConfigInfo]: ...
    def validate(self, config: Mapping[str, str | None]) -> ConfigInfos: ...

    # Loggers.
    def loggers(self) -> Mapping[str, LoggerLevel]: ...
    def logger(self, name: str) -> LoggerLevel: ...
    def set_logger(self, name: str, level: str) -> list[str]:
        """On this worker; the loggers affected."""

    def set_cluster_logger(self, name: str, level: str) -> None: ...

    # Between workers; `signature` is (algorithm, base64 MAC) as the headers had them, `body` the
    # exact bytes it signs.
    def put_task_configs(
        self,
        name: str,
        configs: Sequence[Mapping[str, str]],
        signature: tuple[str | None, str | None],
        body: bytes,
    ) -> None: ...
    def fence_zombies(
        self, name: str, signature: tuple[str | None, str | None], body: bytes
    ) -> None: ...
