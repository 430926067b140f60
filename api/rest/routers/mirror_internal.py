"""Requests between the workers of a flow in dedicated mode. The paths are those of `internal.py`
behind the flow's aliases, as in MirrorMaker 2. Requests are signed and never forwarded, because the
signature is not forwarded either.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated
from urllib.parse import unquote

from fastapi import APIRouter, Depends, Path, Request
from fastapi.responses import Response

from api.rest.bodies import task_configs
from api.rest.dependencies import ConnectorName, RawBody, empty, partitions_answer
from api.rest.errors import CONFLICT, RestError
from api.rest.forwarding import STALE_CONFIG
from api.rest.routers.internal import Signature
from api.rest.worker_handle import STARTING
from connect.runtime.errors import NotAssigned, NotFound, NotLeader, RebalanceNeeded
from connect.runtime.herder import Herder

__all__ = ["HerderOfFlow", "router"]

HerderOfFlow = Callable[[str, str], Herder | None]
"""Returns this process's herder of a flow, given its aliases; None while there is none. Raises
`NotFound` for a flow that this process does not run. Called from any thread."""

router = APIRouter(prefix="/{source}/{target}/connectors/{connector}", include_in_schema=False)


def _herder(
    request: Request, source: Annotated[str, Path()], target: Annotated[str, Path()]
) -> Herder:
    find: HerderOfFlow = request.app.state.herder_of_flow
    # Paths come percent-encoded: an alias may contain a slash.
    source, target = unquote(source), unquote(target)
    try:
        herder = find(source, target)
    except NotFound as error:
        raise RestError(
            404, f"No replication flow found for source '{source}' and target '{target}'"
        ) from error
    if herder is None:
        raise RestError(503, STARTING)
    return herder


HerderDep = Annotated[Herder, Depends(_herder)]


@router.post("/tasks", status_code=204)
def put_task_configs(
    connector: ConnectorName, herder: HerderDep, body: RawBody, signature: Signature
) -> Response:
    """Write the task configs that the connector generated on its worker."""
    return _done(lambda: herder.put_task_configs(connector, task_configs, signature, body))


@router.get("/partitions")
def task_partitions(connector: ConnectorName, herder: HerderDep, signature: Signature) -> Response:
    """The partitions of the connector's tasks on this worker."""
    return partitions_answer(herder.task_partitions(connector, signature))


@router.put("/fence", status_code=204)
def fence_zombies(
    connector: ConnectorName, herder: HerderDep, body: RawBody, signature: Signature
) -> Response:
    """Fence out the producers of earlier task generations."""
    return _done(lambda: herder.fence_zombies(connector, signature, body))


def _done(ask: Callable[[], None]) -> Response:
    try:
        ask()
    except (NotLeader, NotAssigned) as error:
        raise RestError(409, CONFLICT) from error
    except RebalanceNeeded as error:
        raise RestError(409, STALE_CONFIG) from error
    return empty(204)
