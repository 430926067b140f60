"""A small HTTP client for requests between workers, with one connection for each request.

Responses of any status are returned, and redirects are not followed. Blocking; thread-safe.
"""

from __future__ import annotations

import http.client
import ssl
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from urllib.parse import SplitResult, urlsplit

from connect.errors import ConfigError, RetriableError

__all__ = ["RestAnswer", "RestClient", "WorkerUnreachable"]

# Java's REST server allows a request this long; the other worker may need all of it.
_TIMEOUT_S = 90.0
# Far above any list of connectors, and small enough to protect the worker's memory.
_MAX_BODY_BYTES = 256 * 1024 * 1024


class WorkerUnreachable(RetriableError):
    """Another worker is unreachable, or the connection to it was lost."""


@dataclass(frozen=True, slots=True)
class RestAnswer:
    """Another worker's response. `headers`: by lower-case name."""

    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)


class RestClient:
    """An HTTP client. `tls` is the context for https URLs, or makes it for the first such URL; None
    trusts the system's certificates.
    """

    def __init__(
        self,
        tls: ssl.SSLContext | Callable[[], ssl.SSLContext] | None = None,
        timeout_s: float = _TIMEOUT_S,
    ) -> None:
        self._tls = tls
        self._timeout_s = timeout_s

    def request(
        self,
        method: str,
        url: str,
        *,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        timeout_s: float | None = None,
    ) -> RestAnswer:
        """Send a request with or without a JSON body. Raises `WorkerUnreachable`.

        `timeout_s`: for each step on the connection; None: the client's.
        """
        parts = urlsplit(url)
        target = parts.path + (f"?{parts.query}" if parts.query else "")
        sent = {"Accept": "application/json", "User-Agent": "kafka-connect", **(headers or {})}
        if body is not None:
            sent["Content-Type"] = "application/json"
        try:
            with closing(self._connection(parts, timeout_s or self._timeout_s)) as connection:
                connection.request(method, target or "/", body=body, headers=sent)
                answer = connection.getresponse()
                found = {name.lower(): value for name, value in answer.getheaders()}
                return RestAnswer(answer.status, answer.read(_MAX_BODY_BYTES), found)
        except (OSError, http.client.HTTPException, ValueError, ConfigError) as error:
            reason = str(error) or type(error).__name__
            raise WorkerUnreachable(f"{method} {url}: {reason}") from error

    def _connection(self, url: SplitResult, timeout_s: float) -> http.client.HTTPConnection:
        host = url.hostname or ""
        if url.scheme == "https":
            if self._tls is not None and not isinstance(self._tls, ssl.SSLContext):
                self._tls = self._tls()
            return http.client.HTTPSConnection(host, url.port, timeout=timeout_s, context=self._tls)
        return http.client.HTTPConnection(host, url.port, timeout=timeout_s)
