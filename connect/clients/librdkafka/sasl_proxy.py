"""A Kafka proxy on loopback that connects and authenticates for one librdkafka client.

librdkafka as confluent-kafka's wheels have it lacks GSSAPI, and reads TLS stores only when a client
is made. A client that needs more connects here, and each of its connections goes on to a broker
over TCP or TLS, authenticated by `connect.clients.wire`. So each mechanism exists once, a client
behaves with it as with any other, and new connections use TLS stores as they are now. Bytes pass as
they are, except that

* addresses in Metadata, FindCoordinator and DescribeCluster become the proxy's own;
* SaslHandshake and SaslAuthenticate become those of the real mechanism. librdkafka repeats them
  before its session ends (KIP-368), and so does the proxy. A broker without SASL gets neither;
* ApiVersions is answered here, with versions that the proxy understands.

Only the client may use the proxy: it listens on 127.0.0.1 and asks for a random password. A reason
why a broker refuses is passed on as the client's own authentication failure. For a broker or a KDC
that cannot be reached, the client only sees a lost connection, and the owner is told the reason.

One thread serves all connections. Opening and authenticating them, which waits for brokers and the
KDC, has threads of its own. Any thread may close the proxy.
"""

from __future__ import annotations

import contextlib
import hmac
import logging
import secrets
import socket
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from typing import Any, TypeVar

from connect.clients.config.settings import WireSettings
from connect.clients.librdkafka.proxy_link import ProxyLink
from connect.clients.wire.cancellation import Cancellation
from connect.clients.wire.connection import WireConnection, open_connection
from connect.clients.wire.one_shot_threads import OneShotThreads
from connect.clients.wire.poller import READ
from connect.clients.wire.selector_loop import SelectorLoop
from connect.clock import Deadline
from connect.errors import ConnectError
from connect.log_fields import OwnedThread

__all__ = ["SaslProxy"]

_log = logging.getLogger(__name__)

T = TypeVar("T")

_HOST = "127.0.0.1"
_USER = "proxy"
_BACKLOG = 64
_CHUNK = 256 * 1024
_TURN_S = 60.0
_CLOSE_S = 5.0


class SaslProxy:
    """A proxy with its thread, which starts with the object. The owner of the client closes it."""

    def __init__(
        self, settings: WireSettings, on_failure: Callable[[str, ConnectError], None]
    ) -> None:
        """`on_failure(broker, error)` is called on the proxy's thread for each connection that
        could not be opened and will be tried again."""
        self.settings = settings
        protocol = settings.security_protocol
        self.mechanism = settings.sasl_mechanism if protocol.startswith("SASL") else None
        self.buffer = memoryview(bytearray(_CHUNK))
        self._on_failure = on_failure
        self._without_sasl = replace(settings, sasl_mechanism=None)
        self._password = secrets.token_urlsafe(32)
        self._loop = SelectorLoop()
        self._listeners: dict[tuple[str, int], socket.socket] = {}
        self._links: set[ProxyLink] = set()
        self._closing = threading.Event()
        self._cancellation = Cancellation()
        self._threads = OneShotThreads("sasl-proxy")
        self._bootstrap = [self.local(host, port) for host, port in settings.bootstrap]
        self._thread = OwnedThread(self._serve, f"sasl-proxy-{settings.client_id}")
        self._thread.start()

    def librdkafka_config(self) -> dict[str, Any]:
        """Return the properties that lead a librdkafka client here. They contain a password."""
        return {
            "bootstrap.servers": ",".join(f"{host}:{port}" for host, port in self._bootstrap),
            "broker.address.family": "v4",
            "security.protocol": "sasl_plaintext",
            "sasl.mechanism": "PLAIN",
            "sasl.username": _USER,
            "sasl.password": self._password,
        }

    def close(self) -> None:
        """Tell the thread to close all connections and end. Does not wait; may be called again."""
        self._closing.set()
        self._loop.wake()

    def open(self, address: tuple[str, int]) -> Future[WireConnection]:
        deadline = Deadline(self.settings.request_timeout_ms / 1000)
        return self._threads.run(
            "open",
            lambda: open_connection(*address, self._without_sasl, deadline, self._cancellation),
            WireConnection.close,
        )

    def run(self, what: str, function: Callable[[], T]) -> Future[T]:
        return self._threads.run(what, function)

    def post(self, action: Callable[[], None]) -> None:
        self._loop.post(action)

    def watch(self, sock: socket.socket, mask: int, on_event: Callable[[int], None]) -> None:
        self._loop.watch_socket(sock.fileno(), mask, on_event)

    def failed(self, address: tuple[str, int], error: ConnectError) -> None:
        if not self._closing.is_set():
            self._on_failure(f"{address[0]}:{address[1]}", error)

    def admits(self, credentials: bytes) -> bool:
        expected = f"\0{_USER}\0{self._password}".encode()
        return hmac.compare_digest(credentials, expected)

    def local(self, host: str, port: int) -> tuple[str, int]:
        listener = self._listeners.get((host, port))
        if listener is None:
            listener = socket.create_server((_HOST, 0), backlog=_BACKLOG)
            listener.setblocking(False)
            self._listeners[host, port] = listener
            self.watch(listener, READ, lambda _: self._accept((host, port)))
        return _HOST, int(listener.getsockname()[1])

    def _accept(self, address: tuple[str, int]) -> None:
        try:
            sock, _ = self._listeners[address].accept()
        except OSError:
            return  # The client has given up already.
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._links.add(ProxyLink(self, sock, address, self._links.discard))

    def _serve(self) -> None:
        try:
            while not self._closing.is_set():
                self._loop.turn(_TURN_S)
        except Exception:  # noqa: BLE001 - the top of a thread; the client loses its connections
            _log.exception(
                "%s failed, so its clients lose their connections; this is a defect: "
                "report it with the trace",
                self._thread.name,
            )
        finally:
            self._end()

    def _end(self) -> None:
        self._threads.stop()
        self._cancellation.cancel()
        for link in list(self._links):
            link.close()
        for listener in self._listeners.values():
            listener.close()
        if self._threads.join(Deadline(_CLOSE_S)):
            _log.debug("%s: an authentication has not ended", self._thread.name)
        else:
            self._cancellation.close()
        # Connections that were opened meanwhile belong to links that are closed.
        while not self._loop.due_in_s():
            with contextlib.suppress(Exception):
                self._loop.turn(0)
        self._loop.close()
