"""An application around another one that refuses requests with two lengths.

A body ends by its Content-Length or by its Transfer-Encoding. A proxy may take one and a server the
other, and then each sees other requests on the connection (RFC 9112, 6.1).
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

__all__ = ["OneLength"]

_LENGTHS = frozenset({b"content-length", b"transfer-encoding"})
_TEXT = "The request has both Content-Length and Transfer-Encoding; send one of them"
_BODY = json.dumps({"error_code": 400, "message": _TEXT}).encode()


class OneLength:
    """Refuses these requests and ends their connections; passes on all others."""

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
