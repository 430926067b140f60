"""REST endpoints of tasks: list, status, restart."""

from __future__ import annotations

from dataclasses import replace

from fastapi import APIRouter
from fastapi.responses import Response

from api.rest.dependencies import FAILURES, ConnectorName, HerderDep, TaskNumber, empty, json_answer
from api.rest.forwarding import Forwarded, Hop, path_segment
from api.rest.models import TaskState
from api.rest.shown_configs import ShownConfigs
from connect.runtime.errors import NotFound
from connect.runtime.rest_entities import TaskId, TaskInfo

__all__ = ["router"]

router = APIRouter(prefix="/connectors/{connector}/tasks", responses=FAILURES, tags=["tasks"])


@router.get("", response_model=list[TaskInfo])
def list_tasks(connector: ConnectorName, herder: HerderDep, shown: ShownConfigs) -> Response:
    """List a connector's tasks and their configs."""
    tasks, of = herder.task_infos(connector), herder.connector_config(connector)
    return json_answer([replace(task, config=shown.config(task.config, of)) for task in tasks])


@router.get("/{task}/status", response_model=TaskState)
def task_status(connector: ConnectorName, task: TaskNumber, herder: HerderDep) -> Response:
    """Return the state of one task."""
    if task < 0:
        raise NotFound(f"No status found for task {connector}-{task}")
    return json_answer(TaskState.like(herder.task_state(TaskId(connector, task))))


@router.post("/{task}/restart", status_code=204)
def restart_task(
    connector: ConnectorName, task: TaskNumber, herder: HerderDep, forwarding: Forwarded
) -> Response:
    """Restart one task, whatever its state."""
    if task < 0:
        raise NotFound(f"Unknown task: {connector}-{task}")
    return forwarding.complete(
        Hop("POST", f"/connectors/{path_segment(connector)}/tasks/{task}/restart"),
        lambda: herder.restart_task(TaskId(connector, task)),
        lambda _: empty(204),
    )
