"""The REST API of a Connect worker as an application: Kafka Connect's endpoints, `/metrics`, and
`/openapi.json`.

Importing this module is slow (FastAPI), so `api.http_server` does it on its own thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fastapi import APIRouter, FastAPI
from fastapi.routing import APIRoute
from starlette.routing import compile_path
from starlette.types import ASGIApp

from api.dashboard.views import Board
from api.rest.authenticate import Authenticate
from api.rest.authentication import Authentication
from api.rest.change_history import ChangeHistory
from api.rest.config import RestConfig
from api.rest.errors import add_error_handlers
from api.rest.extensions import RestExtensions
from api.rest.middleware import AnswerHeaders, ChangeLog, Cors, Endpoint, JaxRs, SameSite, Trail
from api.rest.routers import (
    connectors,
    health,
    internal,
    loggers,
    metrics,
    mirror_internal,
    mirror_pages,
    mirrors,
    offsets,
    plugins,
    root,
    tasks,
    topics,
    ui,
)
from api.rest.routers.mirror_internal import HerderOfFlow
from api.rest.worker_handle import WorkerHandle

__all__ = ["create_admin_app", "create_mirror_app", "create_rest_app"]

_OPENAPI = "/openapi.json"

_MAIN = (
    root.router,
    connectors.router,
    tasks.router,
    offsets.router,
    topics.router,
    mirrors.router,
    mirror_pages.router,
    plugins.router,
    internal.router,
    health.router,
    ui.router,
)
_OWN_PATHS = ("/metrics", "/ui", "/ui/{name}", _OPENAPI)
"""Additional endpoints, which accept any media type, unlike Kafka Connect's own."""


def create_rest_app(
    site: WorkerHandle,
    config: RestConfig,
    authentication: Authentication | None,
    trails: Sequence[Trail],
    extensions: RestExtensions | None = None,
) -> ASGIApp:
    """Create the application of the main listeners. Handlers run on worker threads."""
    routers = [*_MAIN, metrics.router]
    if config.admin_listeners is None:
        routers.append(loggers.router)
    added = [] if extensions is None else extensions.routers
    endpoints = [*_endpoints(routers), *_endpoints(added, json=False)]
    app: ASGIApp = JaxRs(_fastapi(site, [*routers, *added]), endpoints)
    for middleware in reversed([] if extensions is None else extensions.middlewares):
        app = middleware(app)
    if authentication is not None:
        app = Authenticate(app, authentication)
    hosts = config.hosts if authentication is None else config.hosts.without_list()
    app = ChangeLog(SameSite(app, config.cors, hosts), trails, ChangeHistory(site))
    if config.cors is not None:
        app = Cors(app, config.cors)
    return AnswerHeaders(app, config.answer_headers) if config.answer_headers else app


def create_admin_app(site: WorkerHandle, config: RestConfig, trails: Sequence[Trail]) -> ASGIApp:
    """Create the application of `admin.listeners`: only the loggers."""
    routers = [loggers.router]
    app = JaxRs(_fastapi(site, routers), _endpoints(routers))
    return ChangeLog(SameSite(app, None, config.hosts), trails)


def create_mirror_app(herder_of_flow: HerderOfFlow, config: RestConfig) -> ASGIApp:
    """Create the application for the listeners of dedicated mode: requests between a flow's
    workers."""
    fastapi = FastAPI(docs_url=None, redoc_url=None, openapi_url=None, redirect_slashes=False)
    fastapi.state.herder_of_flow = herder_of_flow
    add_error_handlers(fastapi)
    fastapi.include_router(mirror_internal.router)
    app: ASGIApp = JaxRs(fastapi, _endpoints([mirror_internal.router]), encoded=True)
    if config.cors is not None:
        app = Cors(app, config.cors)
    return AnswerHeaders(app, config.answer_headers) if config.answer_headers else app


def _fastapi(site: WorkerHandle, routers: Iterable[APIRouter]) -> FastAPI:
    app = FastAPI(
        title="Kafka Connect",
        description="The connectors of this worker group, with Kafka Connect's REST API.",
        version=root.version(),
        docs_url=None,
        redoc_url=None,
        openapi_url=_OPENAPI,
        redirect_slashes=False,
        separate_input_output_schemas=False,
    )
    app.state.site = site
    app.state.flows = lambda: mirrors.worker_flows(site)
    app.state.board = Board(lambda: mirrors.worker_views(site))
    app.state.connectors = True
    add_error_handlers(app)
    for router in routers:
        app.include_router(router)
    return app


def _endpoints(routers: Iterable[APIRouter], *, json: bool = True) -> list[Endpoint]:
    found = [Endpoint(compile_path(_OPENAPI)[0], frozenset({"GET"}), json_only=False)]
    for router in routers:
        for route in router.routes:
            if isinstance(route, APIRoute):
                found.append(
                    Endpoint(
                        compile_path(route.path)[0],
                        frozenset(route.methods or ()),
                        json_only=json and route.path not in _OWN_PATHS,
                    )
                )
    return found
