"""Plan the restart of a connector together with its tasks (KIP-745). Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace

from connect.runtime.rest_entities import ConnectorStateInfo
from connect.runtime.states import State
from connect.storage.config_records import RestartRequest

__all__ = ["RestartPlan", "plan_restart"]


@dataclass(frozen=True, slots=True)
class RestartPlan:
    """The result of applying a restart request. `tasks` are the numbers of the restarted tasks."""

    request: RestartRequest
    restart_connector: bool
    tasks: tuple[int, ...]
    shown: ConnectorStateInfo
    """The connector's status, with RESTARTING for every restarted instance."""


def plan_restart(request: RestartRequest, status: ConnectorStateInfo) -> RestartPlan:
    """Return what `request` restarts with these statuses."""
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
