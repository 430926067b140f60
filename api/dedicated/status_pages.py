"""The pages of a mirror in dedicated mode: `/metrics` for Prometheus, `/health/live` and
`/health/ready` for probes, `/health` for people, `/mirrors` with the dashboard's data, `/ui`, `/`,
and `/admin/loggers`.

Handlers only parse and format; what they show comes from the flows given to `create_app`, and is
gathered when a page is asked for. Importing this module is slow (FastAPI), so `api.http_server`
does it on its own thread.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Annotated, Protocol

from fastapi import FastAPI, Query, Request
from fastapi.responses import JSONResponse, Response

from api.dashboard.views import Board, MirrorView
from api.dedicated.logger_levels import logger_levels
from api.rest.health_document import health_document
from api.rest.routers import mirror_pages, mirrors, ui
from api.rest.routers.metrics import metrics_response
from api.rest.routers.root import DISTRIBUTION, version
from connect.errors import ConnectError
from connect.metrics.registry import MetricRegistry
from connect.runtime.connector_status import ConnectorStatus
from connectors.mirrormaker.flow_plans import SOURCE
from connectors.spark.session_state import SPARK_JOB_GROUP

__all__ = ["DISTRIBUTION", "Flows", "create_app"]


class Flows(Protocol):
    """The flows of this process (`MirrorMaker`). Safe to use from any thread."""

    metrics: MetricRegistry

    def not_ready(self) -> Mapping[str, str]: ...
    def statuses(self) -> Mapping[str, Sequence[ConnectorStatus]]: ...
    def group_status(self, connector: str) -> Mapping[str, Callable[[], ConnectorStatus]]: ...
    def source_configs(self) -> Mapping[tuple[str, str], Mapping[str, str]]: ...


def create_app(flows: Flows) -> FastAPI:
    """The application. Its handlers run on worker threads."""
    app = FastAPI(title=DISTRIBUTION, docs_url=None, redoc_url=None, openapi_url=None)
    installed = version()
    app.include_router(mirrors.router)
    app.state.flows = lambda: {name: [ask] for name, ask in flows.group_status(SOURCE).items()}

    app.include_router(mirror_pages.router)
    app.include_router(ui.router)
    app.include_router(logger_levels())
    app.state.board = Board(lambda: _views(flows))
    # Dedicated mode has no REST calls that change connectors.
    app.state.connectors = False

    @app.exception_handler(ConnectError)
    def failed(_request: Request, error: ConnectError) -> JSONResponse:
        body = {"error_code": error.http_status, "message": str(error)}
        return JSONResponse(body, error.http_status)

    @app.get("/")
    def root() -> dict[str, str]:
        return {"name": DISTRIBUTION, "version": installed}

    @app.get("/metrics")
    def metrics(request: Request, family: Annotated[Sequence[str], Query()] = ()) -> Response:
        return metrics_response(request, flows.metrics, family)

    @app.get("/health/live")
    def live() -> dict[str, str]:
        # Answered without asking any flow: a process that answers is alive, and a restart would
        # not mend a cluster.
        return {"status": "alive"}

    @app.get("/health/ready")
    def ready() -> JSONResponse:
        reasons = flows.not_ready()
        told = "; ".join(f"{flow}: {reason}" for flow, reason in reasons.items())
        body = {
            "status": "starting" if reasons else "ready",
            "message": told or "the workers of all flows have joined their groups",
            "flows": dict(reasons),
        }
        return JSONResponse(body, 503 if reasons else 200)

    @app.get("/health")
    def health_page(verbose: Annotated[str, Query()] = "true") -> JSONResponse:
        # The status is 200 even if something is not healthy. The process responds, and a restart by
        # a probe would stop the healthy partitions without mending the others.
        jobs = flows.metrics.collect(SPARK_JOB_GROUP)
        document = health_document(flows.statuses(), jobs)
        brief = {key: document[key] for key in ("status", "message")}
        return JSONResponse(brief if verbose.lower() == "false" else document)

    return app


def _views(flows: Flows) -> dict[str, MirrorView]:
    return {
        f"{source}->{target}": MirrorView(
            source, target, partial(_statuses, flows, f"{source}->{target}"), properties
        )
        for (source, target), properties in flows.source_configs().items()
    }


def _statuses(flows: Flows, flow: str) -> list[tuple[str, ConnectorStatus]]:
    """The flow's connectors; in dedicated mode they are named after their classes. The partitions
    of the source connector come from all workers."""
    asks = flows.group_status(SOURCE)
    return [
        (each.name, asks[flow]() if each.name == SOURCE else each)
        for each in flows.statuses()[flow]
    ]
