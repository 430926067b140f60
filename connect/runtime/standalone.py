"""The herder of a worker without a group: it decides alone, and keeps configs in memory.

Everything that changes what runs happens on the herder's thread, one command after the other.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from typing import TypeVar

from connect.clock import Deadline
from connect.errors import DeadlineExceeded
from connect.runtime.abstract_herder import AbstractHerder, merged_config, named_config
from connect.runtime.command_thread import CommandThread
from connect.runtime.connect_herder import (
    AlreadyExists,
    ConnectorInfo,
    ConnectorStateInfo,
    NotFound,
    TaskId,
    TaskInfo,
)
from connect.runtime.connector_set import ConnectorSet, ConnectorView
from connect.runtime.herder import ConnectorStatus, TaskStatus, UnknownConnector
from connect.runtime.restart_plan import RestartRequest
from connect.runtime.states import InstanceId, Status, TargetState
from connect.runtime.worker import Worker

__all__ = ["StandaloneHerder"]

_log = logging.getLogger(__name__)

T = TypeVar("T")

# What Java's REST server allows a request.
_COMMAND_TIMEOUT_S = 90.0
# A connector's start is to return within seconds; this is for slow logins and cold clusters.
_CONNECTOR_START_S = 60.0
# Kept back from a stop's time for closing the offset store, which then has nothing left to write.
_CLOSE_STORE_S = 0.5


class StandaloneHerder(AbstractHerder):
    """See `connect_herder.ConnectHerder`. Owns the worker: starts it, and stops it with itself."""

    def __init__(
        self,
        worker: Worker,
        *,
        name: str = "herder",
        connector_start_timeout_s: float = _CONNECTOR_START_S,
    ) -> None:
        super().__init__(worker)
        self._commands = CommandThread(name, worker.clock)
        self._set = ConnectorSet(worker, self._commands, connector_start_timeout_s)
        self._remove_metrics: Callable[[], None] | None = None
        self._ended: bool | None = None

    def start(self, deadline: Deadline) -> None:
        """Read the stored offsets. On an error everything is closed again."""
        self._commands.start()
        try:
            self._commands.run(lambda: self._worker.start(deadline), deadline.remaining() + 1.0)
        except Exception:
            self._worker.stop(Deadline(_CLOSE_STORE_S, self._worker.clock))
            self._commands.stop(_CLOSE_STORE_S)
            self._ended = True
            raise
        self._remove_metrics = self._worker.metrics.register(
            "connect-worker-metrics", {}, self._read_metrics
        )

    def connectors(self) -> list[str]:
        return list(self._set.view)

    def connector_info(self, name: str) -> ConnectorInfo:
        view = self._connector(name)
        return self._info(name, view.config, len(view.task_configs))

    def task_infos(self, name: str) -> list[TaskInfo]:
        view = self._connector(name)
        return [
            TaskInfo(TaskId(name, number), config)
            for number, config in enumerate(view.task_configs)
        ]

    def put_connector_config(
        self,
        name: str,
        config: Mapping[str, str | None],
        *,
        allow_replace: bool,
        initial_state: TargetState | None = None,
    ) -> tuple[bool, ConnectorInfo]:
        """Returns when the connector has started and its tasks are known, as Java's standalone
        worker does; raises what kept it from starting, and then it exists all the same."""
        checked = self._checked(name, config)
        deadline = Deadline(_COMMAND_TIMEOUT_S, self._worker.clock)
        created, ready = self._run(
            lambda: self._put(name, checked, initial_state, allow_replace), deadline
        )
        _await(ready, deadline)
        return created, self.connector_info(name)

    def patch_connector_config(self, name: str, patch: Mapping[str, str | None]) -> ConnectorInfo:
        merged = merged_config(self.connector_config(name), patch)
        return self.put_connector_config(name, merged, allow_replace=True)[1]

    def put_connector(self, name: str, config: Mapping[str, str]) -> bool:
        """See `herder.Herder`: does not wait for the start."""
        checked = self._checked(name, config)
        return self._run(lambda: self._put(name, checked, None, True))[0]

    def delete_connector(self, name: str) -> None:
        self._run(lambda: self._set.delete(name))

    def pause_connector(self, name: str) -> None:
        self._set_target(name, TargetState.PAUSED)

    def resume_connector(self, name: str) -> None:
        self._set_target(name, TargetState.STARTED)

    def stop_connector(self, name: str) -> None:
        self._set_target(name, TargetState.STOPPED)

    def restart_connector(self, name: str) -> None:
        """Returns when it has started again; raises what kept it from starting."""
        deadline = Deadline(_COMMAND_TIMEOUT_S, self._worker.clock)
        _await(self._run(lambda: self._set.restart(name), deadline), deadline)

    def restart_connector_and_tasks(
        self, name: str, *, only_failed: bool, include_tasks: bool
    ) -> ConnectorStateInfo:
        request = RestartRequest(name, only_failed=only_failed, include_tasks=include_tasks)

        def restart() -> ConnectorStateInfo:
            plan = self._restart_plan(request)
            self._set.restart_planned(plan)
            return plan.shown

        return self._run(restart)

    def restart_task(self, task: TaskId) -> None:
        self._run(lambda: self._set.restart_task(task.connector, task.task))

    def status(self, name: str) -> ConnectorStatus:
        """Does not wait for the herder's thread; works after `stop`, too."""
        view = self._set.view.get(name)
        status = self._status(InstanceId(name))
        if view is None or status is None:
            raise UnknownConnector(f"Connector {name} not found")
        health = {host.instance.task: tuple(host.health()) for host in view.tasks}
        return ConnectorStatus(
            name,
            status,
            tuple(
                TaskStatus(number, task_status, health.get(number, ()))
                for number, task_status in self._task_statuses(name).items()
            ),
        )

    def stop(self, deadline: Deadline) -> bool:
        """A second call does nothing and returns what the first did."""
        if self._ended is None:
            self._ended = self._stop_once(deadline)
        return self._ended

    def _stop_once(self, deadline: Deadline) -> bool:
        def stop_all() -> bool:
            left = max(0.0, deadline.remaining() - _CLOSE_STORE_S)
            return self._set.stop_all(Deadline(left, self._worker.clock))

        try:
            return self._commands.run(stop_all, deadline.remaining() + _CLOSE_STORE_S)
        except DeadlineExceeded as error:
            _log.error("Stopping did not end in time: %s", error)
            return False
        finally:
            self._worker.stop(
                Deadline(max(_CLOSE_STORE_S, deadline.remaining()), self._worker.clock)
            )
            self._commands.stop(_CLOSE_STORE_S)
            if self._remove_metrics is not None:
                self._remove_metrics()

    def _run(self, command: Callable[[], T], deadline: Deadline | None = None) -> T:
        timeout = _COMMAND_TIMEOUT_S if deadline is None else deadline.remaining()
        return self._commands.run(command, timeout)

    def _checked(self, name: str, config: Mapping[str, str | None]) -> dict[str, str]:
        named = {k: v for k, v in named_config(name, config).items() if v is not None}
        self._worker.connector_config(name, named)
        return named

    def _put(
        self,
        name: str,
        config: Mapping[str, str],
        target: TargetState | None,
        allow_replace: bool,
    ) -> tuple[bool, Future[None]]:
        created = name not in self._set.view
        if not created and not allow_replace:
            raise AlreadyExists(f"Connector {name} already exists")
        return created, self._set.put(name, config, target)

    def _set_target(self, name: str, target: TargetState) -> None:
        if name not in self._set.view:
            raise NotFound(f"Unknown connector {name}")
        self._run(lambda: self._set.set_target(name, target))

    def _connector(self, name: str) -> ConnectorView:
        view = self._set.view.get(name)
        if view is None:
            raise NotFound(f"Connector {name} not found")
        return view

    def _raw_config(self, name: str) -> Mapping[str, str] | None:
        view = self._set.view.get(name)
        return None if view is None else view.config

    def _status(self, instance: InstanceId) -> Status | None:
        return self._worker.statuses.get(instance)

    def _task_statuses(self, name: str) -> Mapping[int, Status]:
        return self._worker.statuses.tasks_of(name)

    def _read_metrics(self) -> Mapping[str, float]:
        """On whatever thread exposes metrics."""
        view = self._set.view
        return {
            "connector-count": float(len(view)),
            "task-count": float(sum(len(connector.tasks) for connector in view.values())),
        }


def _await(ready: Future[None], deadline: Deadline) -> None:
    try:
        ready.result(deadline.remaining())
    except FutureTimeout as error:
        if ready.done():
            raise
        raise DeadlineExceeded("The connector takes long to start; it may start later") from error
