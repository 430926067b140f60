"""`GET /health` (KIP-1017), and `/health/live` and `/health/ready` for probes: whether the worker
has started and responds.

The status is of the worker alone. `?verbose=true` adds its connectors, tasks and partitions, as in
dedicated mode.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

import anyio
from anyio import to_thread
from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response

from api.rest.dependencies import JavaBoolean, json_answer
from api.rest.health_document import health_document
from api.rest.models import WorkerStatus
from api.rest.worker_handle import STARTING, WorkerHandle
from connect.errors import ConnectError
from connect.runtime.herder import Herder, statuses_of
from connect.runtime.rest_entities import WorkerHealth
from connectors.spark.session_state import SPARK_JOB_GROUP

__all__ = ["router"]

log = logging.getLogger(__name__)

_TIMEOUT_S = 10.0
"""How long to wait for the herder, as in Java."""

_READY = "Worker has completed startup and is ready to handle requests."
_UNABLE = "Worker was unable to handle this request and may be unable to handle other requests."

router = APIRouter(tags=["worker"])


@router.get("/health/live", response_model=WorkerStatus)
def live() -> Response:
    """Return 200: the process answers. Kafka Connect has no such call."""
    return _answer(200, "alive", "The process answers.")


@router.get("/health/ready", response_model=WorkerStatus)
async def ready(request: Request) -> Response:
    """Return what `/health` returns: 200 while the worker is in its group. Kafka Connect has no
    such call."""
    return await _health(request, verbose=False)


@router.get("/health", response_model=WorkerStatus)
async def health(request: Request, verbose: JavaBoolean = False) -> Response:
    """Return 200 healthy, 503 starting, or 500 unhealthy. Kafka Connect has no parameter `verbose`:
    `verbose=true` adds connectors, tasks and partitions once the worker is healthy."""
    return await _health(request, verbose=verbose)


async def _health(request: Request, *, verbose: bool) -> Response:
    site: WorkerHandle = request.app.state.site
    herder = site.herder
    trouble = site.trouble()
    if herder is None:
        told = f"{STARTING} {trouble or site.stage() or ''}"
        return _answer(503, "starting", told.rstrip())
    found = None
    # A separate thread, because all threads of other requests may be waiting for the herder.
    limiter = anyio.CapacityLimiter(1)
    details: Mapping[str, object] = {}

    def ask() -> WorkerHealth:
        nonlocal details
        seen = herder.health()
        if verbose and seen.ready:
            details = _details(herder, site)
        return seen

    with anyio.move_on_after(_TIMEOUT_S):
        try:
            found = await to_thread.run_sync(ask, abandon_on_cancel=True, limiter=limiter)
        except ConnectError as error:
            return _answer(500, "unhealthy", f"{_UNABLE} {error}")
    if found is None:
        ready = site.ready
        return _answer(500, "unhealthy", _UNABLE) if ready else _answer(503, "starting", STARTING)
    if not (found.ready and site.ready):
        told = f"{STARTING} {trouble or found.stage or ''}"
        return _answer(503, "starting", told.rstrip())
    if found.outside is not None:
        # Java's herder does not answer then, because it waits for its group.
        told = f"{_UNABLE} {found.outside}"
        return _answer(500, "unhealthy", told if trouble is None else f"{told}. {trouble}")
    told = _READY if trouble is None else f"{_READY} {trouble}"
    if details:
        return JSONResponse({"status": "healthy", "message": told, **details})
    return _answer(200, "healthy", told)


def _details(herder: Herder, site: WorkerHandle) -> Mapping[str, object]:
    """The parts of dedicated mode's document about connectors, tasks, partitions and jobs."""
    statuses = {"": statuses_of(herder)}
    document = health_document(statuses, site.metrics.collect(SPARK_JOB_GROUP))
    return {key: document[key] for key in ("connectors", "jobs", "compiled_part")}


def _answer(code: int, status: str, message: str) -> Response:
    return json_answer(WorkerStatus(status=status, message=message), code)
