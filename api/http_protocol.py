"""uvicorn's HTTP/1.1 connection with limits, against silent, slow and too many clients, and
against ambiguous requests.

Imports uvicorn, so that only the server's own thread imports this module.
"""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any, cast

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

__all__ = ["MOST_CONNECTIONS", "REQUEST_S", "BoundedLoop", "BoundedProtocol", "OneLength"]

_LENGTHS = frozenset({b"content-length", b"transfer-encoding"})
_TEXT = "The request has both Content-Length and Transfer-Encoding; send one of them"
_BODY = json.dumps({"error_code": 400, "message": _TEXT}).encode()

REQUEST_S = 30.0
"""How long a request may take to arrive, headers and body, from the connection or its first byte.
Java closes connections that are silent for so long."""

MOST_CONNECTIONS = 512
"""Beyond this number, the connection that has waited longest without a request is closed."""


HANDSHAKE_S = 10.0
"""How long a TLS handshake may take. `BoundedProtocol` knows a connection only after it."""


class BoundedLoop(asyncio.SelectorEventLoop):
    """The server's event loop. uvicorn has no setting for the time of TLS handshakes."""

    handshake_s = HANDSHAKE_S

    async def create_server(self, *arguments: Any, **keywords: Any) -> asyncio.Server:
        if keywords.get("ssl") is not None:
            keywords.setdefault("ssl_handshake_timeout", self.handshake_s)
        return await super().create_server(*arguments, **keywords)


class BoundedProtocol(H11Protocol):
    """One connection. All methods run on the server's event loop."""

    request_s = REQUEST_S
    most_connections = MOST_CONNECTIONS

    def __init__(self, *arguments: Any, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self._arrival: asyncio.TimerHandle | None = None
        self._waiting_since = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        subject = _client_subject(transport)
        if subject is not None:
            # A copy becomes `state` of each request's scope.
            self.app_state = {**self.app_state, "client_subject": subject}
        self._wait()
        if len(self.connections) > self.most_connections:
            self._make_room()

    def data_received(self, data: bytes) -> None:
        if self._arrival is None and not self._busy():
            self._wait()
        super().data_received(data)
        if self._arrived():
            self._stop_waiting()

    def on_response_complete(self) -> None:
        self._waiting_since = self.loop.time()
        super().on_response_complete()
        if self._arrived():
            self._stop_waiting()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def _wait(self) -> None:
        self._stop_waiting()
        self._waiting_since = self.loop.time()
        self._arrival = self.loop.call_later(self.request_s, self._give_up)

    def _stop_waiting(self) -> None:
        if self._arrival is not None:
            self._arrival.cancel()
            self._arrival = None

    def _busy(self) -> bool:
        """Return whether a request is being answered."""
        return self.cycle is not None and not self.cycle.response_complete

    def _arrived(self) -> bool:
        """Return whether no part of a request is outstanding."""
        return self.conn.their_state not in (h11.IDLE, h11.SEND_BODY)

    def _give_up(self) -> None:
        # Not close(): the client may not read what is left to be written.
        self._arrival = None
        self.transport.abort()

    def _make_room(self) -> None:
        idle = [each for each in cast("set[BoundedProtocol]", self.connections) if not each._busy()]
        others = [each for each in idle if each is not self]
        if others:
            min(others, key=lambda each: each._waiting_since)._give_up()
        else:
            self._give_up()


def _client_subject(transport: asyncio.Transport) -> str | None:
    """Return the subject of the client's certificate, which TLS has verified; None if the client
    has none."""
    tls = transport.get_extra_info("ssl_object")
    certificate = None if tls is None else tls.getpeercert(binary_form=True)
    if not certificate:
        return None
    from cryptography import x509

    return x509.load_der_x509_certificate(certificate).subject.rfc4514_string()


class OneLength:
    """An application around another one that refuses requests with two lengths, and ends their
    connections. A body ends by its Content-Length or by its Transfer-Encoding. A proxy may take one
    and a server the other, and then each sees other requests on the connection (RFC 9112, 6.1).
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        names = {name for name, _ in scope.get("headers", ())}
        if not names >= _LENGTHS:
            await self._app(scope, receive, send)
            return
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(_BODY)).encode()),
            (b"connection", b"close"),
        ]
        await send({"type": "http.response.start", "status": 400, "headers": headers})
        await send({"type": "http.response.body", "body": _BODY})
