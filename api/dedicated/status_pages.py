"""The pages of a mirror in dedicated mode: `/metrics` for Prometheus, `/health` for probes, `/`.

Handlers only parse and format. The content comes from the registry and the health source passed to
`create_app`, and is gathered per request. Importing this module is slow (FastAPI), so
`api.http_server` does it on its own thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from fastapi import FastAPI, Query, Request
from fastapi.responses import JSONResponse, Response

from api.dedicated.health import HealthSource, health_document
from api.rest.routers.metrics import metrics_response
from api.rest.routers.root import DISTRIBUTION, version
from connect.errors import ConnectError
from connect.metrics.registry import MetricRegistry

__all__ = ["DISTRIBUTION", "create_app"]


def create_app(registry: MetricRegistry, health: HealthSource) -> FastAPI:
    """Create the application. Its handlers run on worker threads, so `health` may be called from
    any thread."""
    app = FastAPI(title=DISTRIBUTION, docs_url=None, redoc_url=None, openapi_url=None)
    installed = version()

    @app.exception_handler(ConnectError)
    def failed(_request: Request, error: ConnectError) -> JSONResponse:
        body = {"error_code": error.http_status, "message": str(error)}
        return JSONResponse(body, error.http_status)

    @app.get("/")
    def root() -> dict[str, str]:
        return {"name": DISTRIBUTION, "version": installed}

    @app.get("/metrics")
    def metrics(family: Annotated[Sequence[str], Query()] = ()) -> Response:
        return metrics_response(registry, family)

    @app.get("/health")
    def health_page() -> JSONResponse:
        # The status is 200 even if something is not healthy. The process responds, and a restart by
        # a probe would stop the healthy partitions without mending the others.
        return JSONResponse(health_document(health()))

    return app
