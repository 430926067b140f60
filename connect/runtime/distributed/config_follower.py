"""Applies changes of the config topic to the connectors and tasks that this worker runs.

Adding or removing connectors or tasks needs a rebalance; each worker applies all other changes
itself.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Protocol

from connect.errors import ConnectError
from connect.runtime.distributed.config_changes import ChangeSet
from connect.runtime.distributed.zombie_fencing import needs_no_fencing
from connect.runtime.restart_plan import RestartPlan
from connect.runtime.stages import Stages
from connect.runtime.states import InstanceId
from connect.runtime.work.running_work import RunningWork
from connect.storage.config_records import RestartRequest
from connect.storage.config_state import ClusterConfigState

__all__ = ["ConfigFollower"]

_log = logging.getLogger(__name__)


class Following(Protocol):
    """The part of the herder that `ConfigFollower` uses, on the herder's thread."""

    stages: Stages
    work: RunningWork

    @property
    def configs(self) -> ClusterConfigState: ...
    def assigned_here(self, instance: InstanceId) -> bool: ...
    def writes_exactly_once(self, connector: str) -> bool: ...


class ConfigFollower:
    """Applies config changes to this worker's connectors and tasks, on the herder's thread."""

    def __init__(
        self, herder: Following, plan_restart: Callable[[RestartRequest], RestartPlan]
    ) -> None:
        self._herder = herder
        self._plan_restart = plan_restart

    def restart(self, request: RestartRequest) -> None:
        """Restart this worker's part of a connector after a published restart request (KIP-745)."""
        try:
            plan = self._plan_restart(request)
        except ConnectError as error:
            _log.warning("Not restarting connector %s: %s", request.connector, error)
            return
        herder, name = self._herder, request.connector
        tasks = [InstanceId(name, number) for number in plan.tasks]
        mine = [task for task in tasks if herder.assigned_here(task)]
        with herder.stages.during(f"restarting connector {name} and its tasks"):
            if plan.restart_connector and herder.assigned_here(InstanceId(name)):
                herder.work.restart_connector(name, herder.configs, shown=True)
            herder.work.restart_tasks(mine, herder.configs)

    def follow(self, changes: ChangeSet) -> None:
        """Apply changed configs and target states to this worker's connectors and tasks.

        Changed connectors are restarted and tasks with changed configs are stopped. If only
        `live_keys` changed, everything continues.
        """
        herder, configs = self._herder, self._herder.configs
        for name in sorted(changes.connectors):
            if not herder.assigned_here(InstanceId(name)) or not configs.contains(name):
                continue
            if not herder.work.keeps_running(name, configs):
                with herder.stages.during(f"restarting connector {name} with its new config"):
                    herder.work.restart_connector(name, configs, shown=False)
        for name in sorted(changes.targets):
            target = configs.target_state(name)
            if target is not None and configs.contains(name):
                with herder.stages.during(f"changing connector {name} to {target.value}"):
                    herder.work.set_target(name, target)
        self._end_outdated(changes.tasks)
        if changes.connectors:
            with herder.stages.during("passing changed connector configs to running tasks"):
                herder.work.renewal.take_live(configs)

    def _end_outdated(self, committed: frozenset[InstanceId]) -> None:
        """Stop tasks with changed configs before the rebalance that restarts them here or
        elsewhere.

        They must store their offsets before another task reads them.
        """
        work = self._herder.work
        outdated: list[InstanceId] = []
        for name in sorted({task.connector for task in committed}):
            configs = self._herder.configs
            if self._herder.writes_exactly_once(name) and not needs_no_fencing(configs, name):
                # None of them survives a change of any, because all are fenced.
                outdated += [
                    each for each in work.running if each.is_task and each.connector == name
                ]
            else:
                outdated += work.renewal.outdated(name, configs)
        if outdated:
            with self._herder.stages.during("stopping tasks whose configs have changed"):
                work.end_tasks(sorted(outdated))
