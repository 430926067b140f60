"""A REST client for tests that hides nothing: status, headers and bytes of every answer."""

from __future__ import annotations

import http.client
import json
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

__all__ = ["Answer", "call"]

_TIMEOUT_S = 100.0


@dataclass(frozen=True, slots=True)
class Answer:
    """Header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> tuple[int, str]:
        """(error_code, message) of a failure."""
        found = self.json()
        assert list(found) == ["error_code", "message"]
        assert self.status == found["error_code"]
        return found["error_code"], found["message"]


def call(
    base: str,
    method: str,
    path: str,
    body: object = None,
    headers: Mapping[str, str] | None = None,
    tls: ssl.SSLContext | None = None,
) -> Answer:
    """Send one request to the server at `base`. A `body` that is no text or bytes is sent as JSON.
    `headers` None: those of a JSON client."""
    if body is not None and not isinstance(body, str | bytes):
        body = json.dumps(body)
    sent = {"Accept": "application/json"} if headers is None else dict(headers)
    if body is not None and headers is None:
        sent["Content-Type"] = "application/json"
    parts = urlsplit(base)
    host, port = parts.hostname or "", parts.port
    connection: http.client.HTTPConnection
    if parts.scheme == "https":
        connection = http.client.HTTPSConnection(host, port, timeout=_TIMEOUT_S, context=tls)
    else:
        connection = http.client.HTTPConnection(host, port, timeout=_TIMEOUT_S)
    try:
        content = body.encode() if isinstance(body, str) else body
        connection.request(method, path, body=content, headers=sent)
        answer = connection.getresponse()
        found = {name.lower(): value for name, value in answer.getheaders()}
        return Answer(answer.status, found, answer.read())
    finally:
        connection.close()
