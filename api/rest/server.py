"""The REST server of a Connect worker: all its listeners, and its advertised address.

`bind` binds the ports, so that the advertised URL is known before the herder that needs it is
created. `start` begins to serve. Until the herder has started, requests get 503.
"""

from __future__ import annotations

import os
import socket
import ssl
import threading
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from api.audit_file import AuditFile, open_audit_file
from api.http_server import ApiServer
from api.rest.authentication import authentication_of
from api.rest.config import Listener, RestConfig
from api.rest.extensions import RestExtensions
from api.rest.worker_handle import WorkerHandle
from connect.clients.rest_client import RestClient
from connect.clients.security.tls import server_ssl_context, ssl_context
from connect.errors import ConfigError, ConnectError
from connect.metrics.registry import MetricRegistry
from connect.runtime.connector_status import show_health
from connect.runtime.herder import Herder, statuses_of
from connect.runtime.plugins.registry import PluginRegistry
from connectors.mirror.history.audit import AuditTrail, open_trail

if TYPE_CHECKING:
    from starlette.types import ASGIApp

__all__ = ["RestServer", "rest_client"]


class RestServer:
    """The REST server. The program calls `bind`, `start` and `stop` once each, in this order. The
    rest may be called from any thread."""

    def __init__(
        self,
        props: Mapping[str, str],
        metrics: MetricRegistry,
        environment: Mapping[str, str] = os.environ,
        plugins: PluginRegistry | None = None,
    ) -> None:
        """`props`: the worker's properties. `environment`: holds KAFKA_OPTS. `plugins`: where REST
        extensions are found. Raises ConfigError for invalid REST properties."""
        self.config = RestConfig.from_properties(props)
        self._authentication = authentication_of(self.config, props, environment)
        self.client = rest_client(self.config)
        self._site = WorkerHandle(metrics, self.client)
        self._app_lock = threading.Lock()
        self._app: ASGIApp | None = None
        config = self.config
        self._extensions = RestExtensions(
            config.extensions, props, plugins or PluginRegistry(), self._site
        )
        self._trails: list[AuditFile | AuditTrail] = []
        try:
            self._keep(open_audit_file(props))
            self._keep(open_trail(props))
            self._servers = _servers(config.listeners, self._main_app, "listeners", config.tls)
            self._admin_servers = _servers(
                config.admin_listeners or (), self._admin_app, "admin.listeners", config.admin_tls
            )
        except ConfigError:
            self._extensions.close()
            self._close_trails()
            raise
        self._hide_health: Callable[[], None] = lambda: None

    def bind(self) -> None:
        """Bind all ports. Raises `ListenerUnavailable`, with no port bound."""
        try:
            for server in self._all():
                server.bind()
        except ConnectError:
            self.stop()
            raise

    @property
    def urls(self) -> list[str]:
        """Return the URLs of the listeners with their actual ports; those of `admin.listeners` come
        last."""
        return [server.url for server in self._all()]

    @property
    def advertised_url(self) -> str:
        """Return the URL at which other workers reach this one, with a trailing slash. Call after
        `bind`."""
        protocol, host, port = self._advertised()
        shown = f"[{host}]" if ":" in host else host
        return f"{protocol}://{shown}:{port}/"

    @property
    def worker_id(self) -> str:
        """Return host and port of the advertised URL. Call after `bind`."""
        _, host, port = self._advertised()
        return f"{host}:{port}"

    def start(self) -> None:
        """Begin to serve, and return at once. Raises `ConnectError` if a REST extension cannot be
        registered."""
        self._extensions.register()
        for server in self._all():
            server.start()

    def explain_trouble(self, trouble: Callable[[], str | None]) -> None:
        """Let `/health` add the sentence that `trouble` returns, if it is not None."""
        self._site.trouble = trouble

    def herder_starting(self, herder: Herder) -> None:
        """Let `/health` report what the herder is doing while it starts."""
        self._site.starting = herder

    def herder_started(self, herder: Herder) -> None:
        """Set the herder that serves requests from now on."""
        self._site.herder = herder
        self._hide_health = show_health(self._site.metrics, lambda: statuses_of(herder))

    def worker_ready(self) -> None:
        """Let `/health` report healthy from now on, if the herder responds."""
        self._site.ready = True

    def stop(self) -> None:
        """Stop serving and free the ports. May be called repeatedly, and at any time."""
        self._hide_health()
        for server in self._all():
            server.stop()
        self._extensions.close()
        self._close_trails()

    def _keep(self, trail: AuditFile | AuditTrail | None) -> None:
        if trail is not None:
            self._trails.append(trail)

    def _close_trails(self) -> None:
        trails, self._trails = self._trails, []
        for trail in trails:
            trail.close()

    def _all(self) -> list[ApiServer]:
        return [*self._servers.values(), *self._admin_servers.values()]

    def _advertised(self) -> tuple[str, str, int]:
        bound = {listener: server.port for listener, server in self._servers.items()}
        return self.config.advertised(bound, _local_address())

    # Methods of the servers' threads.

    def _main_app(self) -> ASGIApp:
        """Return the application that all main listeners share."""
        from api.rest.app import create_rest_app

        with self._app_lock:
            if self._app is None:
                self._app = create_rest_app(
                    self._site, self.config, self._authentication, self._trails, self._extensions
                )
            return self._app

    def _admin_app(self) -> ASGIApp:
        from api.rest.app import create_admin_app

        return create_admin_app(self._site, self.config, self._trails)


def rest_client(config: RestConfig) -> RestClient:
    """Create the client for requests to other workers. It presents this worker's own
    certificate, and trusts what its properties say also if only the others have https."""
    if any(listener.protocol == "https" for listener in config.listeners):
        return RestClient(ssl_context(config.tls))
    return RestClient(partial(ssl_context, config.tls) if config.tls else None)


def _servers(
    listeners: tuple[Listener, ...],
    make_app: Callable[[], ASGIApp],
    key: str,
    tls: Mapping[str, str],
) -> dict[Listener, ApiServer]:
    """Create the servers. Raises ConfigError for key stores that cannot be used."""
    context: ssl.SSLContext | None = None
    servers = {}
    for listener in listeners:
        if listener.protocol == "https" and context is None:
            context = server_ssl_context(tls)
        servers[listener] = ApiServer(
            make_app, listener.url, key, context if listener.protocol == "https" else None
        )
    return servers


def _local_address() -> str:
    """Return this machine's address, for listeners without a host."""
    try:
        return socket.gethostbyname(socket.gethostname())
    except OSError:
        return "127.0.0.1"
