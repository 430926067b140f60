"""An HTTP server on its own thread that loads the web framework only when a client connects.

`ApiServer.start` binds the port at once, so that a conflict is reported then. The web framework is
slow to import and large in memory, so it is imported at the first connection. uvicorn runs with
h11, because httptools loses request bodies of Java's HTTP client, which offers an upgrade to
HTTP/2.
"""

from __future__ import annotations

import errno
import logging
import selectors
import socket
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlsplit

from connect.errors import ConfigError, ConnectError

if TYPE_CHECKING:
    import ssl

    import uvicorn
    from starlette.types import ASGIApp

__all__ = ["ApiServer", "ListenerUnavailable", "parse_listener"]

_LOG = logging.getLogger(__name__)

_BACKLOG = 128
_GRACE_S = 0.5
"""How long requests in flight may take once the server stops. Then they are cut off."""

_STOP_S = 5.0

_KEEP_ALIVE_S = 30
# Two servers of a process load their libraries one after the other: packages whose parts two
# threads import at once can fail with an ImportError.
_LOADING = threading.Lock()
"""How long an idle connection is kept, as in Java, because clients reuse connections."""


class ListenerUnavailable(ConnectError):
    """The server cannot listen on the address. The message names the address, the reason and the
    remedy."""


def parse_listener(listener: str, key: str = "listeners", scheme: str = "http") -> tuple[str, int]:
    """Parse `http://host:port`. The host may be empty (all addresses), and the port 0 (any free
    one). Raises `ConfigError` for `key`."""
    parts = urlsplit(listener.strip())
    try:
        port = parts.port
    except ValueError:
        port = None
    if parts.scheme.lower() != scheme or port is None or parts.path not in ("", "/"):
        raise ConfigError(
            f"Invalid value {listener} for configuration {key}: use {scheme}://host:port, "
            f"for example {scheme}://localhost:8083",
            key=key,
            value=listener,
        )
    return parts.hostname or "", port


_ABOUT_REQUESTS = ("upgrade request", "No supported WebSocket", "Invalid HTTP request")


def _is_no_request(record: logging.LogRecord) -> bool:
    """Filter out the log lines about single requests. Java's client offers HTTP/2 with every one,
    and any client that reaches the port could fill the log. A wrong request still gets a
    response."""
    message = record.getMessage()
    return not any(text in message for text in _ABOUT_REQUESTS)


class ApiServer:
    """Serves one application on one listener. The owner calls `start` and `stop` once each."""

    def __init__(
        self,
        make_app: Callable[[], ASGIApp],
        listener: str,
        key: str = "listeners",
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """`make_app` creates the application on the server's thread at the first connection,
        including its imports. `key`: the property of `listener`, for errors. With `tls`, the
        listener is https."""
        self._make_app = make_app
        self._listener = listener
        self._tls = tls
        self._scheme = "http" if tls is None else "https"
        self._host, self._asked_port = parse_listener(listener, key, self._scheme)
        self._key = key
        self._socket: socket.socket | None = None
        self._waker, self._wake = socket.socketpair()
        self._stopping = threading.Event()
        self._server: uvicorn.Server | None = None
        self._thread = threading.Thread(target=self._run, name="api-server", daemon=True)
        self.port = 0

    def bind(self) -> None:
        """Bind the port, so that `port` is known. Raises `ListenerUnavailable`."""
        if self._socket is None:
            self._socket = self._bind()
            self.port = self._socket.getsockname()[1]

    def start(self) -> Self:
        """Bind the port, begin to serve, and return at once. Raises `ListenerUnavailable`."""
        self.bind()
        _LOG.info("listening on %s", self.url)
        self._thread.start()
        return self

    @property
    def url(self) -> str:
        """Return the server's URL with the actual port."""
        host = self._host or "localhost"
        shown = f"[{host}]" if ":" in host else host
        return f"{self._scheme}://{shown}:{self.port}"

    def _bind(self) -> socket.socket:
        try:
            taken = self._listening_socket()
        except (OSError, OverflowError) as error:
            raise self._unavailable(error) from error
        taken.setblocking(False)
        return taken

    def _listening_socket(self) -> socket.socket:
        if not self._host and socket.has_dualstack_ipv6():
            # Like Java: all addresses, IPv4 and IPv6.
            address = ("::", self._asked_port)
            return socket.create_server(
                address, family=socket.AF_INET6, backlog=_BACKLOG, dualstack_ipv6=True
            )
        family = socket.AF_INET6 if ":" in self._host else socket.AF_INET
        return socket.create_server((self._host, self._asked_port), family=family, backlog=_BACKLOG)

    def _unavailable(self, error: OSError | OverflowError) -> ListenerUnavailable:
        code = error.errno if isinstance(error, OSError) else None
        if code == errno.EADDRINUSE:
            reason = f"port {self._asked_port} is taken by another process"
        elif code == errno.EACCES:
            reason = f"port {self._asked_port} needs privileges that this process does not have"
        else:
            reason = str(error)
        return ListenerUnavailable(
            f"Cannot listen on {self._listener}: {reason}. Choose another address with "
            f"{self._key} (port 0 takes any free one)"
        )

    def stop(self) -> None:
        """Stop serving and free the port, within about a second. May be called repeatedly, and
        without `start`."""
        self._stopping.set()
        self._wake.close()
        server = self._server
        if server is not None:
            server.should_exit = True
        if self._thread.ident is not None:
            self._thread.join(_GRACE_S)
            if self._thread.is_alive() and self._server is not None:
                self._server.force_exit = True
            self._thread.join(_STOP_S)
            if self._thread.is_alive():
                _LOG.warning(
                    "the HTTP server on %s did not stop within %g s; nothing has to be done: "
                    "it ends with the process",
                    self.url,
                    _STOP_S,
                )
                return
        if self._socket is not None:
            self._socket.close()
        self._waker.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    # Runs on the server's thread.

    def _run(self) -> None:
        assert self._socket is not None
        try:
            if self._first_connection(self._socket):
                self._serve(self._socket)
        except Exception:  # noqa: BLE001 - the top of a thread
            _LOG.exception(
                "the HTTP server on %s ended with an unexpected error, and its pages are "
                "gone until the process is restarted; this is a defect: report it with "
                "the trace",
                self.url,
            )

    def _first_connection(self, listening: socket.socket) -> bool:
        """Wait until a client connects (True) or the server is stopped (False)."""
        with selectors.DefaultSelector() as selector:
            selector.register(listening, selectors.EVENT_READ)
            selector.register(self._waker, selectors.EVENT_READ)
            # Without a timeout: `stop` ends the wait by closing the other end of the socket pair.
            selector.select()
        return not self._stopping.is_set()

    def _serve(self, listening: socket.socket) -> None:
        with _LOADING:
            server = self._loaded()
        self._server = server
        if self._stopping.is_set():
            return
        server.run(sockets=[listening])

    def _loaded(self) -> uvicorn.Server:
        import uvicorn

        from api.http_protocol import BoundedProtocol, OneLength

        settings: dict[str, Any] = {
            "http": BoundedProtocol,
            "ws": "none",
            "loop": "api.http_protocol:BoundedLoop",
            "lifespan": "off",
            "access_log": False,
            "log_config": None,
            "log_level": logging.WARNING,
            "server_header": False,
            "proxy_headers": False,
            "timeout_keep_alive": _KEEP_ALIVE_S,
        }
        tls = self._tls
        if tls is not None:
            settings["ssl_context_factory"] = lambda _config, _default: tls
        logging.getLogger("uvicorn.error").addFilter(_is_no_request)
        return uvicorn.Server(uvicorn.Config(OneLength(self._make_app()), **settings))
