"""Restarting a connector together with its tasks (KIP-745): what is restarted, and what the answer
shows. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace

from connect.runtime.rest_entities import ConnectorStateInfo
from connect.runtime.states import State
from connect.storage.config_records import RestartRequest

__all__ = ["RestartPlan", "plan_restart"]


@dataclass(frozen=True, slots=True)
class RestartPlan:
    """A request applied to statuses. `tasks`: the numbers of the tasks that are restarted."""

    request: RestartRequest
    restart_connector: bool
    tasks: tuple[int, ...]
    shown: ConnectorStateInfo
    """The connector's status with RESTARTING where something is restarted."""


def plan_restart(request: RestartRequest, status: ConnectorStateInfo) -> RestartPlan:
    """What `request` restarts when the statuses are these."""
    restarting = State.RESTARTING.value
    restart_connector = request.wants_connector(status.state)
    chosen = tuple(task.id for task in status.tasks if request.wants_task(task.state))
    tasks = tuple(
        replace(task, state=restarting, trace=None) if task.id in chosen else task
        for task in status.tasks
    )
    shown = replace(status, tasks=tasks)
    if restart_connector:
        shown = replace(shown, state=restarting, trace=None)
    return RestartPlan(request, restart_connector, chosen, shown)
