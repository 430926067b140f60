"""A `Herder` without worker, threads and cluster, for tests of the REST API.

Its connectors run nowhere; what it is asked for is kept. `problems` makes a call fail: from its
method's name to the error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from connect.clock import Deadline
from connect.config.connector import CONNECTOR_KEYS
from connect.config.definition import ConfigValue
from connect.plugin import PartitionHealth
from connect.runtime.connector_status import ConnectorStatus, TaskStatus, UnknownConnector
from connect.runtime.errors import AlreadyExists, BadRequest, NotFound
from connect.runtime.herder import Herder
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
from connect.runtime.states import State, Status, TargetState

__all__ = ["WORKER", "InMemoryHerder"]

WORKER = "w:8083"
_SHOWN = {
    TargetState.STARTED: "RUNNING",
    TargetState.PAUSED: "PAUSED",
    TargetState.STOPPED: "STOPPED",
}
_LEVELS = ("DEBUG", "ERROR", "FATAL", "INFO", "OFF", "TRACE", "WARN")


@dataclass
class InMemoryHerder(Herder):
    """Each connector has one task unless it is stopped. Calls that change something are in
    `calls`, with their arguments."""

    configs: dict[str, dict[str, str]] = field(default_factory=dict)
    targets: dict[str, TargetState] = field(default_factory=dict)
    problems: dict[str, Exception] = field(default_factory=dict)
    calls: list[tuple[object, ...]] = field(default_factory=list)
    offsets: dict[str, list[OffsetEntry]] = field(default_factory=dict)
    levels: dict[str, LoggerLevel] = field(default_factory=dict)
    state: WorkerHealth = field(default_factory=lambda: WorkerHealth(ready=True))
    partitions: dict[int, list[PartitionHealth]] = field(default_factory=dict)
    trace: str | None = None
    version: str | None = "1.0"

    def start(self, deadline: Deadline) -> None:
        """Nothing is to be started."""

    def stop(self, deadline: Deadline) -> bool:
        return True

    def check(self) -> None:
        """Nothing ends it."""

    def health(self) -> WorkerHealth:
        self._fail("health")
        return self.state

    def kafka_cluster_id(self) -> str:
        return "cluster-1"

    def connectors(self) -> list[str]:
        self._fail("connectors")
        return list(self.configs)

    def connector_info(self, name: str) -> ConnectorInfo:
        self._fail("connector_info")
        config = self._known(name)
        return ConnectorInfo(name, config, self._tasks(name), "source")

    def connector_config(self, name: str) -> Mapping[str, str]:
        return self._known(name)

    def resolved_config(self, name: str) -> Mapping[str, str]:
        return self._known(name)

    def connector_state(self, name: str) -> ConnectorStateInfo:
        if name not in self.configs:
            raise NotFound(f"No status found for connector {name}")
        state = _SHOWN[self.targets[name]]
        tasks = [
            TaskStateInfo(task.task, state, WORKER, self.trace, self.version)
            for task in self._tasks(name)
        ]
        return ConnectorStateInfo(name, state, WORKER, tasks, "source", self.trace, self.version)

    def status(self, name: str) -> ConnectorStatus:
        """Without partitions of any task that is not in `partitions`."""
        if name not in self.configs:
            raise UnknownConnector(f"Connector {name} not found")
        shown = Status(State.RUNNING, WORKER, 0)
        return ConnectorStatus(
            name,
            shown,
            tuple(
                TaskStatus.seen_here(task.task, shown, self.partitions.get(task.task))
                for task in self._tasks(name)
            ),
        )

    def group_status(self, name: str) -> ConnectorStatus:
        return self.status(name)

    def task_partitions(
        self, name: str, signature: tuple[str | None, str | None]
    ) -> Mapping[int, Sequence[PartitionHealth]]:
        self._fail("task_partitions")
        self.calls.append(("partitions", name, signature))
        return self.partitions

    def task_infos(self, name: str) -> list[TaskInfo]:
        return [TaskInfo(task, self._known(name)) for task in self._tasks(name)]

    def task_state(self, task: TaskId) -> TaskStateInfo:
        if task.connector not in self.configs or task not in self._tasks(task.connector):
            raise NotFound(f"No status found for task {task.connector}-{task.task}")
        return self.connector_state(task.connector).tasks[0]

    def put_connector_config(
        self,
        name: str,
        config: Mapping[str, str | None],
        *,
        allow_replace: bool,
        initial_state: TargetState | None = None,
    ) -> tuple[bool, ConnectorInfo]:
        self._fail("put_connector_config")
        if "connector.class" not in config:
            raise BadRequest("Connector config contains no connector type")
        created = name not in self.configs
        if not created and not allow_replace:
            raise AlreadyExists(f"Connector {name} already exists")
        self.calls.append(("put", name, dict(config), initial_state))
        self.configs[name] = {key: value for key, value in config.items() if value is not None}
        if created:
            self.targets[name] = initial_state or TargetState.STARTED
        return created, self.connector_info(name)

    def patch_connector_config(self, name: str, patch: Mapping[str, str | None]) -> ConnectorInfo:
        self._fail("patch_connector_config")
        merged: dict[str, str | None] = {**self._known(name), **patch}
        self.configs[name] = {key: value for key, value in merged.items() if value is not None}
        return self.connector_info(name)

    def delete_connector(self, name: str) -> None:
        self._fail("delete_connector")
        self._known(name)
        del self.configs[name]

    def pause_connector(self, name: str) -> None:
        self._move("pause_connector", name, TargetState.PAUSED)

    def resume_connector(self, name: str) -> None:
        self._move("resume_connector", name, TargetState.STARTED)

    def stop_connector(self, name: str) -> None:
        self._move("stop_connector", name, TargetState.STOPPED)

    def restart_connector(self, name: str) -> None:
        self._fail("restart_connector")
        if name not in self.configs:
            raise NotFound(f"Unknown connector: {name}")
        self.calls.append(("restart", name))

    def restart_connector_and_tasks(
        self, name: str, *, only_failed: bool, include_tasks: bool
    ) -> ConnectorStateInfo:
        self._fail("restart_connector_and_tasks")
        self.calls.append(("restart", name, only_failed, include_tasks))
        return self.connector_state(name)

    def restart_task(self, task: TaskId) -> None:
        self._fail("restart_task")
        self.calls.append(("restart", task))

    def connector_offsets(self, name: str) -> list[OffsetEntry]:
        self._known(name)
        return self.offsets.get(name, [])

    def alter_offsets(self, name: str, offsets: Sequence[OffsetEntry]) -> str:
        self._fail("alter_offsets")
        self._known(name)
        self.offsets[name] = list(offsets)
        return "altered"

    def reset_offsets(self, name: str) -> str:
        self._fail("reset_offsets")
        self._known(name)
        self.offsets.pop(name, None)
        return "reset"

    def active_topics(self, name: str) -> list[str]:
        self._fail("active_topics")
        return ["t"] if name in self.configs else []

    def reset_active_topics(self, name: str) -> None:
        self._fail("reset_active_topics")
        self.calls.append(("reset topics", name))

    def plugins(self, *, connectors_only: bool) -> list[PluginInfo]:
        found = [PluginInfo("org.example.TableConnector", "source", "1.0")]
        more = [PluginInfo("org.example.TableConverter", "converter", "undefined")]
        return found if connectors_only else found + more

    def plugin_config(self, plugin: str, version: str | None = None) -> list[ConfigInfo]:
        if plugin != "TableConnector":
            raise NotFound(f"Unknown plugin {plugin}.")
        return [info for info in self.validate({"connector.class": plugin}).configs if info.key]

    def validate(self, config: Mapping[str, str | None]) -> ConfigInfos:
        name = config.get("connector.class")
        if name is None:
            raise BadRequest("Connector config {} contains no connector type")
        known = [
            ConfigInfo(
                key,
                ConfigValue(key.name, config.get(key.name)),
                group=key.group,
                order_in_group=key.order,
            )
            for key in CONNECTOR_KEYS[:4]
        ]
        unknown = ConfigInfo(None, ConfigValue("x", "1", errors=("no",)))
        return ConfigInfos(name, 1, ["Common"], [unknown, *known])

    def loggers(self) -> Mapping[str, LoggerLevel]:
        return {"root": LoggerLevel("INFO", None), **self.levels}

    def logger(self, name: str) -> LoggerLevel:
        found = self.loggers().get(name)
        if found is None:
            raise NotFound(f"Logger {name} not found.")
        return found

    def set_logger(self, name: str, level: str) -> list[str]:
        if level.upper() not in _LEVELS:
            raise NotFound(f"invalid log level '{level}'.")
        self.levels[name] = LoggerLevel(level.upper(), 1)
        return [name]

    def set_cluster_logger(self, name: str, level: str) -> None:
        self.calls.append(("cluster logger", name, level))

    def put_task_configs(
        self,
        name: str,
        parse: Callable[[bytes], Sequence[Mapping[str, str]]],
        signature: tuple[str | None, str | None],
        body: bytes,
    ) -> None:
        self._fail("put_task_configs")
        configs = parse(body)
        self.calls.append(("task configs", name, [dict(c) for c in configs], signature, body))

    def fence_zombies(
        self, name: str, signature: tuple[str | None, str | None], body: bytes
    ) -> None:
        self._fail("fence_zombies")
        self.calls.append(("fence", name, signature, body))

    def _fail(self, call: str) -> None:
        problem = self.problems.get(call)
        if problem is not None:
            raise problem

    def _known(self, name: str) -> dict[str, str]:
        config = self.configs.get(name)
        if config is None:
            raise NotFound(f"Connector {name} not found")
        return config

    def _tasks(self, name: str) -> list[TaskId]:
        stopped = self.targets.get(name) is TargetState.STOPPED
        return [] if stopped else [TaskId(name, 0)]

    def _move(self, call: str, name: str, target: TargetState) -> None:
        self._fail(call)
        if name not in self.configs:
            raise NotFound(f"Unknown connector {name}")
        self.targets[name] = target
