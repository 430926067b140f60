"""The pages of a mirror in dedicated mode: `/metrics` for Prometheus, `/health` for probes,
`/mirrors/{flow}/lag`, `/`.

Handlers only parse and format; what they show comes from the flows given to `create_app`, and is
gathered when a page is asked for. Importing this module is slow (FastAPI), so `api.http_server`
does it on its own thread.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Protocol

from fastapi import FastAPI, Query, Request
from fastapi.responses import JSONResponse, Response

from api.dedicated.health import health_document
from api.rest.routers import mirrors
from api.rest.routers.metrics import metrics_response
from api.rest.routers.root import DISTRIBUTION, version
from connect.errors import ConnectError
from connect.metrics.registry import MetricRegistry
from connect.runtime.connector_status import ConnectorStatus
from connectors.mirrormaker.mirror_maker import SOURCE
from connectors.spark.session_state import SPARK_JOB_GROUP

__all__ = ["DISTRIBUTION", "Flows", "create_app"]


class Flows(Protocol):
    """The flows of this process (`MirrorMaker`). Safe to use from any thread."""

    metrics: MetricRegistry

    def statuses(self) -> Mapping[str, Sequence[ConnectorStatus]]: ...
    def group_status(self, connector: str) -> Mapping[str, Callable[[], ConnectorStatus]]: ...


def create_app(flows: Flows) -> FastAPI:
    """The application. Its handlers run on worker threads."""
    app = FastAPI(title=DISTRIBUTION, docs_url=None, redoc_url=None, openapi_url=None)
    installed = version()
    app.include_router(mirrors.router)
    app.state.flows = lambda: {name: [ask] for name, ask in flows.group_status(SOURCE).items()}

    @app.exception_handler(ConnectError)
    def failed(_request: Request, error: ConnectError) -> JSONResponse:
        body = {"error_code": error.http_status, "message": str(error)}
        return JSONResponse(body, error.http_status)

    @app.get("/")
    def root() -> dict[str, str]:
        return {"name": DISTRIBUTION, "version": installed}

    @app.get("/metrics")
    def metrics(family: Annotated[Sequence[str], Query()] = ()) -> Response:
        return metrics_response(flows.metrics, family)

    @app.get("/health")
    def health_page() -> JSONResponse:
        # The status is 200 even if something is not healthy. The process responds, and a restart by
        # a probe would stop the healthy partitions without mending the others.
        jobs = flows.metrics.collect(SPARK_JOB_GROUP)
        return JSONResponse(health_document(flows.statuses(), jobs))

    return app
