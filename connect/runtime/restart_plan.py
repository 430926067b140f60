"""Restarting a connector together with its tasks (KIP-745): what is restarted, and what the answer
shows. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace

from connect.runtime.connect_herder import ConnectorStateInfo
from connect.runtime.states import State

__all__ = ["RestartPlan", "RestartRequest", "plan_restart"]


@dataclass(frozen=True, slots=True)
class RestartRequest:
    """What the user asked for. `only_failed`: leave alone whatever is not FAILED."""

    connector: str
    only_failed: bool
    include_tasks: bool

    def wants_connector(self, state: str) -> bool:
        """Whether the connector itself is restarted when it is in this state."""
        return not self.only_failed or state == State.FAILED.value

    def wants_task(self, state: str) -> bool:
        """Whether a task in this state is restarted."""
        return self.include_tasks and (not self.only_failed or state == State.FAILED.value)

    @property
    def impact(self) -> int:
        """How much it restarts; of two waiting requests for a connector the higher one wins."""
        return 2 * (not self.only_failed) + self.include_tasks


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
