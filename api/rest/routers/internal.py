"""Requests of workers to the leader: to write task configs, and to fence out old tasks; and to any
worker: for the partitions of its tasks.

Their requests are signed; the herder checks the signature over the exact bytes of the body, or over
the path where there is no body.
"""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Request
from fastapi.responses import Response

from api.rest.bodies import task_configs
from api.rest.dependencies import (
    FAILURES,
    ConnectorName,
    HerderDep,
    RawBody,
    empty,
    partitions_answer,
)
from api.rest.errors import error_response
from api.rest.forwarding import Forwarded, Hop, path_segment
from connect.errors import ConnectError
from connect.runtime.distributed.leader_client import FINAL_HEADER
from connect.runtime.errors import is_final

__all__ = ["Signature", "router"]

router = APIRouter(prefix="/connectors/{connector}", responses=FAILURES, include_in_schema=False)


async def _signature(request: Request) -> tuple[str | None, str | None]:
    """Return the (algorithm, base64 MAC) of the request's headers."""
    headers = request.headers
    return (
        headers.get("x-connect-request-signature-algorithm"),
        headers.get("x-connect-authorization"),
    )


Signature = Annotated[tuple[str | None, str | None], Depends(_signature)]


@router.post("/tasks", status_code=204)
def put_task_configs(
    connector: ConnectorName,
    herder: HerderDep,
    body: RawBody,
    signature: Signature,
    forwarding: Forwarded,
) -> Response:
    """Write the task configs that the connector generated on its worker."""
    return forwarding.complete(
        Hop("POST", f"/connectors/{path_segment(connector)}/tasks", body),
        lambda: herder.put_task_configs(connector, task_configs, signature, body),
        lambda _: empty(204),
    )


@router.get("/partitions")
def task_partitions(connector: ConnectorName, herder: HerderDep, signature: Signature) -> Response:
    """The partitions of the connector's tasks on this worker."""
    return partitions_answer(herder.task_partitions(connector, signature))


@router.put("/fence", status_code=204)
def fence_zombies(
    connector: ConnectorName,
    herder: HerderDep,
    body: RawBody,
    signature: Signature,
    forwarding: Forwarded,
) -> Response:
    """Fence out the producers of earlier task generations."""
    try:
        return forwarding.complete(
            Hop("PUT", f"/connectors/{path_segment(connector)}/fence"),
            lambda: herder.fence_zombies(connector, signature, body),
            lambda _: empty(204),
        )
    except ConnectError as error:
        if not is_final(error):
            raise
        return error_response(error.http_status, str(error), headers={FINAL_HEADER: "true"})
