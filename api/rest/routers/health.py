"""`GET /health` (KIP-1017), and `/health/live` and `/health/ready` for probes: whether the worker
has started and responds.

The health of connectors is in their statuses and in the metrics.
"""

from __future__ import annotations

import logging

import anyio
from anyio import to_thread
from fastapi import APIRouter, Request
from fastapi.responses import Response

from api.rest.dependencies import json_answer
from api.rest.models import WorkerStatus
from api.rest.worker_handle import STARTING, WorkerHandle
from connect.errors import ConnectError

__all__ = ["router"]

log = logging.getLogger(__name__)

_TIMEOUT_S = 10.0
"""How long to wait for the herder, as in Java."""

_READY = "Worker has completed startup and is ready to handle requests."
_UNABLE = "Worker was unable to handle this request and may be unable to handle other requests."

router = APIRouter(tags=["worker"])


@router.get("/health/live", response_model=WorkerStatus)
def live() -> Response:
    """Return 200: the process answers. Not a call of Kafka Connect."""
    return _answer(200, "alive", "The process answers.")


@router.get("/health/ready", response_model=WorkerStatus)
async def ready(request: Request) -> Response:
    """Return what `/health` returns: 200 once the worker has joined its group. Not a call of Kafka
    Connect."""
    return await health(request)


@router.get("/health", response_model=WorkerStatus)
async def health(request: Request) -> Response:
    """Return 200 healthy, 503 starting, or 500 unhealthy."""
    site: WorkerHandle = request.app.state.site
    herder = site.herder
    trouble = site.trouble()
    if herder is None:
        told = f"{STARTING} {trouble or site.stage() or ''}"
        return _answer(503, "starting", told.rstrip())
    found = None
    # A separate thread, because all threads of other requests may be waiting for the herder.
    limiter = anyio.CapacityLimiter(1)
    with anyio.move_on_after(_TIMEOUT_S):
        try:
            found = await to_thread.run_sync(herder.health, abandon_on_cancel=True, limiter=limiter)
        except ConnectError as error:
            return _answer(500, "unhealthy", f"{_UNABLE} {error}")
    if found is None:
        ready = site.ready
        return _answer(500, "unhealthy", _UNABLE) if ready else _answer(503, "starting", STARTING)
    if not (found.ready and site.ready):
        told = f"{STARTING} {trouble or found.stage or ''}"
        return _answer(503, "starting", told.rstrip())
    return _answer(200, "healthy", _READY if trouble is None else f"{_READY} {trouble}")


def _answer(code: int, status: str, message: str) -> Response:
    return json_answer(WorkerStatus(status=status, message=message), code)
