"""The interface of a herder: everything that REST can request from a worker.

The routers of `api/` call it; the standalone and the distributed herder implement it. Results are
defined in `rest_entities.py`, errors in `errors.py`. A distributed worker forwards requests that
raise `NotLeader` or `NotAssigned`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Protocol

from connect.clock import Deadline
from connect.plugin import PartitionHealth
from connect.runtime.connector_status import ConnectorStatus
from connect.runtime.errors import NotFound
from connect.runtime.rest_entities import (
    ConfigInfo,
    ConfigInfos,
    ConnectorInfo,
    ConnectorStateInfo,
    LoggerLevel,
    OffsetEntry,
    PluginInfo,
    TaskId,
    TaskInfo,
    TaskStateInfo,
    WorkerHealth,
)
from connect.runtime.states import TargetState

__all__ = ["Herder", "statuses_of"]


class Herder(Protocol):
    """A herder. Thread-safe.

    Calls wait for their result, at most 90 s, and then raise `DeadlineExceeded`. A herder raises
    `NotFound`, `AlreadyExists`, `BadRequest`, `ConfigError`, `Forbidden`, `RebalanceNeeded`,
    `NotLeader` and `NotAssigned`, with Java's texts.
    """

    def start(self, deadline: Deadline) -> None: ...
    def stop(self, deadline: Deadline) -> bool: ...
    def check(self) -> None:
        """Raise the error that ended the herder, if it ended without `stop`."""

    def health(self) -> WorkerHealth: ...
    def kafka_cluster_id(self) -> str: ...

    # Connectors.
    def connectors(self) -> list[str]: ...
    def connector_info(self, name: str) -> ConnectorInfo: ...
    def connector_config(self, name: str) -> Mapping[str, str]: ...
    def resolved_config(self, name: str) -> Mapping[str, str]:
        """The config with config providers resolved: it contains secrets. Raises `NotFound`, and
        `ConfigError` if a provider fails."""

    def connector_state(self, name: str) -> ConnectorStateInfo: ...
    def status(self, name: str) -> ConnectorStatus:
        """A connector and its tasks on all workers; of tasks on this worker, also their partitions.
        Raises `UnknownConnector`."""

    def group_status(self, name: str) -> ConnectorStatus:
        """As `status`, with the partitions of all tasks: asks the other workers, which takes
        seconds if one of them does not answer. Raises `UnknownConnector`."""

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
        """Create a connector or change its config. Return (created, info).

        Validates first: `BadRequest` with Java's text has the number of errors.
        """

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
        """Restart a connector and its tasks (KIP-745). Returns the status that shows the plan."""

    def restart_task(self, task: TaskId) -> None: ...

    # Offsets (KIP-875).
    def connector_offsets(self, name: str) -> list[OffsetEntry]: ...
    def alter_offsets(self, name: str, offsets: Sequence[OffsetEntry]) -> str:
        """Set or delete offsets. Return the message for the user."""

    def reset_offsets(self, name: str) -> str: ...

    # Topics used by a connector (KIP-558).
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
        """Set a log level on this worker. Returns the names of the affected loggers."""

    def set_cluster_logger(self, name: str, level: str) -> None: ...

    # Requests between workers. `signature` is (algorithm, base64 MAC) from the headers, and `body`
    # the exact signed bytes.
    def put_task_configs(
        self,
        name: str,
        parse: Callable[[bytes], Sequence[Mapping[str, str]]],
        signature: tuple[str | None, str | None],
        body: bytes,
    ) -> None:
        """Write the task configs that `parse` reads from a body whose signature is right."""

    def fence_zombies(
        self, name: str, signature: tuple[str | None, str | None], body: bytes
    ) -> None: ...
    def task_partitions(
        self, name: str, signature: tuple[str | None, str | None]
    ) -> Mapping[int, Sequence[PartitionHealth]]:
        """The partitions of the connector's tasks on this worker, by task number."""


def statuses_of(herder: Herder) -> list[ConnectorStatus]:
    """Return the statuses of all connectors of a worker's group."""
    statuses = []
    for name in herder.connectors():
        # One may be deleted in between.
        with suppress(NotFound):
            statuses.append(herder.status(name))
    return statuses
