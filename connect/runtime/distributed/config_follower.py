"""Applies changes of the config topic to the connectors and tasks that this worker runs.

Adding or removing connectors or tasks needs a rebalance; each worker applies all other changes
itself.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from connect.errors import ConnectError
from connect.runtime.distributed.config_changes import ChangeSet
from connect.runtime.distributed.group_configs import GroupConfigs
from connect.runtime.distributed.membership import Membership
from connect.runtime.distributed.zombie_fencing import needs_no_fencing
from connect.runtime.restart_plan import RestartPlan
from connect.runtime.stages import Stages
from connect.runtime.states import InstanceId
from connect.runtime.work.running_work import RunningWork
from connect.storage.config_records import RestartRequest

__all__ = ["ConfigFollower"]

_log = logging.getLogger(__name__)


class ConfigFollower:
    """Applies config changes to this worker's connectors and tasks, on the herder's thread."""

    def __init__(
        self,
        configs: GroupConfigs,
        membership: Membership,
        work: RunningWork,
        stages: Stages,
        plan_restart: Callable[[RestartRequest], RestartPlan],
        writes_exactly_once: Callable[[str], bool],
    ) -> None:
        self._configs = configs
        self._membership = membership
        self._work = work
        self._stages = stages
        self._plan_restart = plan_restart
        self._writes_exactly_once = writes_exactly_once

    def restart(self, request: RestartRequest) -> None:
        """Restart this worker's part of a connector after a published restart request (KIP-745)."""
        try:
            plan = self._plan_restart(request)
        except ConnectError as error:
            _log.warning("Not restarting connector %s: %s", request.connector, error)
            return
        name, assigned = request.connector, self._membership.assigned
        tasks = [InstanceId(name, number) for number in plan.tasks]
        mine = [task for task in tasks if task in assigned]
        with self._stages.during(f"restarting connector {name} and its tasks"):
            if plan.restart_connector and InstanceId(name) in assigned:
                self._work.connectors.restart(name, self._configs.current, shown=True)
            self._work.restart_tasks(mine, self._configs.current)

    def follow(self, changes: ChangeSet) -> None:
        """Apply changed configs and target states to this worker's connectors and tasks.

        Changed connectors are restarted and tasks with changed configs are stopped. If only
        `live_keys` changed, everything continues.
        """
        configs, assigned = self._configs.current, self._membership.assigned
        for name in sorted(changes.connectors):
            if InstanceId(name) not in assigned or not configs.contains(name):
                continue
            if self._work.connectors.has_current_config(name, configs):
                continue
            if not self._work.connectors.keeps_running(name, configs):
                with self._stages.during(f"restarting connector {name} with its new config"):
                    self._work.connectors.restart(name, configs, shown=False)
        for name in sorted(changes.targets):
            target = configs.target_state(name)
            if target is not None and configs.contains(name):
                with self._stages.during(f"changing connector {name} to {target.value}"):
                    self._work.set_target(name, target)
        self._end_outdated(changes.tasks)
        if changes.connectors:
            with self._stages.during("passing changed connector configs to running tasks"):
                self._work.renewal.take_live(configs)

    def _end_outdated(self, committed: frozenset[InstanceId]) -> None:
        """Stop tasks with changed configs before the rebalance that restarts them here or
        elsewhere.

        They must store their offsets before another task reads them.
        """
        work = self._work
        outdated: list[InstanceId] = []
        for name in sorted({task.connector for task in committed}):
            configs = self._configs.current
            if self._writes_exactly_once(name) and not needs_no_fencing(configs, name):
                # None of them survives a change of any, because all are fenced.
                outdated += [
                    each for each in work.running if each.is_task and each.connector == name
                ]
            else:
                outdated += work.renewal.outdated(name, configs)
        if outdated:
            with self._stages.during("stopping tasks whose configs have changed"):
                work.end_tasks(sorted(outdated))
