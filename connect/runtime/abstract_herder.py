"""What a standalone and a distributed herder share: reading statuses, and what follows from a
connector's config alone."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping

from connect.errors import ConfigError
from connect.runtime.connect_herder import (
    BadRequest,
    ConnectorInfo,
    ConnectorStateInfo,
    NotFound,
    TaskId,
    TaskStateInfo,
)
from connect.runtime.restart_plan import RestartPlan, RestartRequest, plan_restart
from connect.runtime.states import InstanceId, Status
from connect.runtime.worker import Worker

__all__ = ["AbstractHerder", "merged_config", "named_config"]


class AbstractHerder(ABC):
    """The base of both herders. Safe to use from any thread."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker

    @abstractmethod
    def _raw_config(self, name: str) -> Mapping[str, str] | None:
        """The connector's config as it was submitted; None: there is no such connector."""

    @abstractmethod
    def _status(self, instance: InstanceId) -> Status | None: ...

    @abstractmethod
    def _task_statuses(self, name: str) -> Mapping[int, Status]:
        """Of a connector's tasks, by number."""

    def connector_config(self, name: str) -> Mapping[str, str]:
        config = self._raw_config(name)
        if config is None:
            raise NotFound(f"Connector {name} not found")
        return config

    def connector_state(self, name: str) -> ConnectorStateInfo:
        status = self._status(InstanceId(name))
        if status is None:
            raise NotFound(f"No status found for connector {name}")
        config = self._raw_config(name)
        return ConnectorStateInfo(
            name=name,
            state=status.state.value,
            worker_id=status.worker_id,
            tasks=[
                _task_state(number, task)
                for number, task in sorted(self._task_statuses(name).items())
            ],
            type=self._type_of(config),
            trace=status.trace,
            version=status.version,
        )

    def task_state(self, task: TaskId) -> TaskStateInfo:
        status = self._status(InstanceId(task.connector, task.task))
        if status is None:
            raise NotFound(f"No status found for task {task.connector}-{task.task}")
        return _task_state(task.task, status)

    def _info(self, name: str, config: Mapping[str, str], tasks: int) -> ConnectorInfo:
        ids = [TaskId(name, number) for number in range(tasks)]
        return ConnectorInfo(name, dict(config), ids, self._type_of(config))

    def _type_of(self, config: Mapping[str, str] | None) -> str:
        """source, sink or unknown."""
        class_name = None if config is None else config.get("connector.class")
        if class_name is None:
            return "unknown"
        try:
            return self._worker.plugins.connector(class_name).connector_type()
        except ConfigError:
            return "unknown"

    def _restart_plan(self, request: RestartRequest) -> RestartPlan:
        """Raises `NotFound`."""
        if self._raw_config(request.connector) is None:
            raise NotFound(f"Unknown connector: {request.connector}")
        if self._status(InstanceId(request.connector)) is None:
            raise NotFound(f"Status for connector {request.connector} not found")
        return plan_restart(request, self.connector_state(request.connector))


def _task_state(number: int, status: Status) -> TaskStateInfo:
    return TaskStateInfo(number, status.state.value, status.worker_id, status.trace, status.version)


def named_config(name: str, config: Mapping[str, str | None]) -> dict[str, str | None]:
    """The config with the connector's name in it. Raises `BadRequest` for another name's."""
    inside = config.get("name", name)
    if inside != name:
        raise BadRequest(
            f"Connector name configuration ({inside}) doesn't match connector name in the URL"
            f" ({name})"
        )
    return {**config, "name": name}


def merged_config(
    config: Mapping[str, str], patch: Mapping[str, str | None]
) -> dict[str, str | None]:
    """A config with a patch applied (KIP-477): null removes a key."""
    merged: dict[str, str | None] = {**config, **patch}
    return {key: value for key, value in merged.items() if value is not None}
