"""The standalone herder: the herder of a worker without a group. It keeps configs in memory.

All changes of running work happen on the herder's thread, one command after the other.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import TypeVar

from connect.clock import Deadline
from connect.errors import ConnectError, DeadlineExceeded
from connect.plugin import PartitionHealth
from connect.runtime.abstract_herder import (
    REQUEST_TIMEOUT_S,
    AbstractHerder,
    await_ready,
    merged_config,
)
from connect.runtime.connector_status import ConnectorStatus, TaskStatus, UnknownConnector
from connect.runtime.errors import AlreadyExists, NotFound
from connect.runtime.offset_management import not_stopped
from connect.runtime.rest_entities import (
    ConnectorInfo,
    ConnectorStateInfo,
    TaskId,
    TaskInfo,
    WorkerHealth,
)
from connect.runtime.stages import Stages
from connect.runtime.standalone.command_thread import CommandThread
from connect.runtime.standalone.connectors import StandaloneConnectors
from connect.runtime.states import InstanceId, Status, TargetState
from connect.runtime.tasks.live_keys import with_live
from connect.runtime.worker import Worker
from connect.storage.config_records import RestartRequest
from connect.storage.memory_status_store import MemoryStatusStore

__all__ = ["StandaloneHerder"]

_log = logging.getLogger(__name__)

T = TypeVar("T")

# A connector must start within seconds; this leaves room for slow logins and cold clusters.
_CONNECTOR_START_S = 60.0
# Kept back from a stop's time for closing the offset store, which has nothing left to write then.
_CLOSE_STORE_S = 0.5


class _NotStandalone(ConnectError):
    """A request between workers of a group, which a standalone worker does not support."""


class StandaloneHerder(AbstractHerder):
    """A herder that owns its worker, and starts and stops it. It implements
    `connect_herder.Herder`.
    """

    def __init__(
        self,
        worker: Worker,
        *,
        name: str = "herder",
        connector_start_timeout_s: float = _CONNECTOR_START_S,
    ) -> None:
        super().__init__(worker, MemoryStatusStore())
        self._stages = Stages(worker.clock)
        self._ready = False
        self._commands = CommandThread(name, worker.clock)
        self._set = StandaloneConnectors(worker, self._commands, connector_start_timeout_s)

    def start(self, deadline: Deadline) -> None:
        """Read the stored offsets. Closes everything after an error."""
        self._commands.start()
        try:
            with self._stages.during("reading the stored offsets"):
                self._commands.run(lambda: self._worker.start(deadline), deadline.remaining() + 1.0)
        except Exception:
            self._worker.stop(self._deadline(_CLOSE_STORE_S))
            self._commands.stop(_CLOSE_STORE_S)
            self._ended = True
            raise

    def set_ready(self) -> None:
        """Note that startup is over: the initial connectors exist."""
        self._ready = True

    def check(self) -> None:
        """Do nothing: only `stop` ends this herder."""

    def health(self) -> WorkerHealth:
        return WorkerHealth(self._ready, self._stages.summary())

    def connectors(self) -> list[str]:
        return self._set.configs.connectors()

    def connector_info(self, name: str) -> ConnectorInfo:
        configs = self._set.need(name)
        return self._info(name, configs.connector_configs[name], configs.task_count(name))

    def task_infos(self, name: str) -> list[TaskInfo]:
        configs = self._set.need(name)
        config = configs.connector_configs[name]
        live = self._worker.live_keys(config)
        return [
            TaskInfo(TaskId(name, number), with_live(each, config, live))
            for number, each in enumerate(configs.raw_task_configs(name))
        ]

    def put_connector_config(
        self,
        name: str,
        config: Mapping[str, str | None],
        *,
        allow_replace: bool,
        initial_state: TargetState | None = None,
    ) -> tuple[bool, ConnectorInfo]:
        """Create a connector or change its config, as Java's standalone worker does.

        Returns when the connector has started and its tasks are known. Raises the error that
        prevents the start; the connector exists all the same.
        """
        deadline = self._deadline(REQUEST_TIMEOUT_S)
        checked = self._checked_config(name, config, deadline)
        created, ready = self._run(
            f"configuring connector {name}",
            lambda: self._put(name, checked, initial_state, allow_replace),
            deadline,
        )
        await_ready(ready, deadline)
        return created, self.connector_info(name)

    def patch_connector_config(self, name: str, patch: Mapping[str, str | None]) -> ConnectorInfo:
        """Apply a patch, again if the config has changed meanwhile."""
        deadline = self._deadline(REQUEST_TIMEOUT_S)
        while True:
            base = self.connector_config(name)
            checked = self._checked_config(name, merged_config(base, patch), deadline)

            def put_if_unchanged(
                base: Mapping[str, str] = base, checked: Mapping[str, str] = checked
            ) -> Future[None] | None:
                return (
                    self._set.put(name, checked, None) if self._raw_config(name) == base else None
                )

            ready = self._run(f"configuring connector {name}", put_if_unchanged, deadline)
            if ready is not None:
                await_ready(ready, deadline)
                return self.connector_info(name)

    def put_connector(self, name: str, config: Mapping[str, str]) -> bool:
        """Create a connector or change its config, without waiting for its start."""
        deadline = self._deadline(REQUEST_TIMEOUT_S)
        checked = self._checked_config(name, config, deadline)
        return self._run(
            f"configuring connector {name}", lambda: self._put(name, checked, None, True), deadline
        )[0]

    def delete_connector(self, name: str) -> None:
        def delete() -> None:
            self._set.delete(name)
            self._status_store.delete_topics(name)

        self._run(f"deleting connector {name}", delete)

    def stop_connector(self, name: str) -> None:
        self._set_target(name, TargetState.STOPPED)

    def _begin_restart(self, name: str) -> Future[None]:
        return self._run(f"restarting connector {name}", lambda: self._set.restart(name))

    def restart_connector_and_tasks(
        self, name: str, *, only_failed: bool, include_tasks: bool
    ) -> ConnectorStateInfo:
        request = RestartRequest(name, only_failed=only_failed, include_tasks=include_tasks)

        def restart() -> ConnectorStateInfo:
            plan = self._restart_plan(request)
            self._set.restart_planned(plan)
            return plan.shown

        return self._run(f"restarting connector {name} and its tasks", restart)

    def restart_task(self, task: TaskId) -> None:
        self._run(
            f"restarting task {task.connector}-{task.task}",
            lambda: self._set.restart_task(InstanceId(task.connector, task.task)),
        )

    def set_cluster_logger(self, name: str, level: str) -> None:
        """Set a log level. This worker is the only one."""
        self.set_logger(name, level)

    def put_task_configs(
        self,
        name: str,
        parse: Callable[[bytes], Sequence[Mapping[str, str]]],
        signature: tuple[str | None, str | None],
        body: bytes,
    ) -> None:
        raise _NotStandalone(
            "Kafka Connect in standalone mode does not support externally setting"
            " task configurations."
        )

    def fence_zombies(
        self, name: str, signature: tuple[str | None, str | None], body: bytes
    ) -> None:
        raise _NotStandalone(
            "Kafka Connect in standalone mode does not support exactly-once source connectors."
        )

    def task_partitions(
        self, name: str, signature: tuple[str | None, str | None]
    ) -> Mapping[int, Sequence[PartitionHealth]]:
        raise _NotStandalone("Kafka Connect in standalone mode has no other workers.")

    def group_status(self, name: str) -> ConnectorStatus:
        """This worker is all the cluster there is."""
        return self.status(name)

    def status(self, name: str) -> ConnectorStatus:
        """Return the status without waiting for the herder's thread. Works after `stop`, too."""
        status = self._status(InstanceId(name))
        if not self._set.configs.contains(name) or status is None:
            raise UnknownConnector(f"Connector {name} not found")
        health = {
            host.instance.task: tuple(host.health())
            for host in self._set.work.task_hosts()
            if host.instance.connector == name
        }
        return ConnectorStatus(
            name,
            status,
            tuple(
                TaskStatus.seen_here(number, task_status, health.get(number))
                for number, task_status in self._task_statuses(name).items()
            ),
        )

    def _stop(self, deadline: Deadline) -> bool:
        def stop_all() -> bool:
            left = max(0.0, deadline.remaining() - _CLOSE_STORE_S)
            return self._set.stop_all(self._deadline(left))

        try:
            return self._commands.run(stop_all, deadline.remaining() + _CLOSE_STORE_S)
        except DeadlineExceeded as error:
            _log.error("Stopping did not finish in time: %s", error)
            return False
        finally:
            self._worker.stop(self._deadline(max(_CLOSE_STORE_S, deadline.remaining())))
            self._commands.stop(_CLOSE_STORE_S)

    def _run(self, stage: str, command: Callable[[], T], deadline: Deadline | None = None) -> T:
        def staged() -> T:
            with self._stages.during(stage):
                return command()

        timeout = REQUEST_TIMEOUT_S if deadline is None else deadline.remaining()
        return self._commands.run(staged, timeout)

    def _change_offsets(
        self, name: str, change: Callable[[Mapping[str, str], Deadline], str]
    ) -> str:
        """Change offsets on the herder's thread, so that the connector cannot start meanwhile."""
        deadline = self._deadline(REQUEST_TIMEOUT_S)

        def checked() -> str:
            configs = self._set.need(name)
            if configs.target_state(name) is not TargetState.STOPPED or configs.task_count(name):
                raise not_stopped(name)
            return change(self._worker.resolved(configs.connector_configs[name]), deadline)

        return self._run(f"changing the offsets of connector {name}", checked, deadline)

    def _put(
        self,
        name: str,
        config: Mapping[str, str],
        target: TargetState | None,
        allow_replace: bool,
    ) -> tuple[bool, Future[None]]:
        created = not self._set.configs.contains(name)
        if not created and not allow_replace:
            raise AlreadyExists(f"Connector {name} already exists")
        return created, self._set.put(name, config, target)

    def _set_target(self, name: str, target: TargetState) -> None:
        if not self._set.configs.contains(name):
            raise NotFound(f"Unknown connector {name}")
        self._run(
            f"changing connector {name} to {target.value}",
            lambda: self._set.set_target(name, target),
        )

    def _raw_config(self, name: str) -> Mapping[str, str] | None:
        return self._set.configs.raw_connector_config(name)

    def _status(self, instance: InstanceId) -> Status | None:
        return self._worker.statuses.get(instance)

    def _task_statuses(self, name: str) -> Mapping[int, Status]:
        return self._worker.statuses.tasks_of(name)
