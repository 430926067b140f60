"""ASGI middlewares that reproduce the general behaviour of Java's REST server.

`JaxRs` responds to requests that no handler can serve, and to OPTIONS. It handles unknown paths,
wrong methods and media types, HEAD and trailing slashes. `Cors` and `AnswerHeaders` add headers.
`SameSite` rejects requests that another site's page makes a browser send.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from email.utils import formatdate
from typing import Any, Protocol, TypeVar
from urllib.parse import urlsplit

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.rest.authentication import USER
from api.rest.config import AnswerHeader, CorsRules, HostRules
from api.rest.errors import error_response
from api.rest.forwarded_changes import sender_of, take_recorded

__all__ = ["AnswerHeaders", "ChangeLog", "Cors", "Endpoint", "JaxRs", "SameSite", "Trail"]

_audit = logging.getLogger("connect.audit")

_JSON = "application/json"
_LONGEST_PATH = 500
_SAFE = ("GET", "HEAD", "OPTIONS")
_CREATED = 201
_OTHER_SITE = (
    "A page of another site sent this request. To allow that site, add it to"
    " access.control.allow.origin in the worker's properties"
)
_OTHER_HOST = "To allow it, add it to rest.allowed.hosts in the worker's properties"
_LONGEST_HOST = 100
_AMBIGUOUS = re.compile(r"%2f|//", re.IGNORECASE)
_BROKEN_ESCAPE = re.compile(r"%(?![0-9a-fA-F]{2})")
_MEDIA_TYPE = re.compile(r"\s*([\w!#$&^.+*-]+)/([\w!#$&^.+*-]+)\s*(;.*)?")
_QUALITY = re.compile(r";\s*q\s*=\s*([0-9.]+)")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One path and its methods. `json_only`: Kafka Connect's own endpoints, which are strict about
    media types."""

    path: re.Pattern[str]
    methods: frozenset[str]
    json_only: bool = True


class JaxRs:
    """Passes on requests that a handler can serve, with trailing slashes removed and HEAD turned
    into GET (the server omits the body)."""

    def __init__(
        self, app: ASGIApp, endpoints: Sequence[Endpoint], *, encoded: bool = False
    ) -> None:
        """`encoded`: paths stay percent-encoded, and handlers decode their parameters, which may
        contain a slash."""
        self._app = app
        self._endpoints = endpoints
        self._encoded = encoded

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        raw = scope.get("raw_path", b"").decode("latin-1").partition("?")[0]
        path = raw if self._encoded else scope["path"]
        if len(path) > 1 and path.endswith("/"):
            path = path[:-1]
        answer = self._answer(scope, path, raw)
        if answer is not None:
            await answer(scope, receive, send)
            return
        method = "GET" if scope["method"] == "HEAD" else scope["method"]
        passed = {**scope, "path": path, "raw_path": path.encode(), "method": method}
        await self._app(passed, receive, send)

    def _answer(self, scope: Scope, path: str, raw: str) -> Response | None:
        """Return the response if no handler is needed; None if a handler must respond."""
        if _AMBIGUOUS.search(raw) and not self._encoded:
            return error_response(400, "Ambiguous URI path separator")
        if _BROKEN_ESCAPE.search(raw):
            return error_response(400)
        endpoints = [endpoint for endpoint in self._endpoints if endpoint.path.match(path)]
        if not endpoints:
            return error_response(404)
        methods = _methods(endpoints)
        if scope["method"] not in methods:
            return error_response(405, headers={"Allow": ",".join(methods)})
        if not endpoints[0].json_only:
            return None
        headers = Headers(scope=scope)
        if not _sends_json(headers):
            return error_response(415)
        if scope["method"] == "OPTIONS":
            return _options(methods, headers.get("accept"))
        return None if _accepts(headers.get("accept"), _JSON) else error_response(406)


def _methods(endpoints: Iterable[Endpoint]) -> list[str]:
    found = {method for endpoint in endpoints for method in endpoint.methods} | {"OPTIONS"}
    return sorted(found | ({"HEAD"} if "GET" in found else set()))


def _options(methods: Sequence[str], accept: str | None) -> Response:
    headers = {"Allow": ",".join(methods)}
    if _accepts(accept, "text/plain"):
        return Response(", ".join(methods), media_type="text/plain", headers=headers)
    return Response(headers=headers)


def _sends_json(headers: Headers) -> bool:
    """Whether the content type is JSON or missing. The handler checks whether there is a body."""
    given = headers.get("content-type")
    return given is None or given.partition(";")[0].strip().lower() == _JSON


def _accepts(accept: str | None, media_type: str) -> bool:
    """Whether an Accept header allows a media type."""
    if accept is None or not accept.strip():
        return True
    kind, _, subtype = media_type.partition("/")
    for part in accept.split(","):
        found = _MEDIA_TYPE.fullmatch(part)
        if found is None:
            continue
        quality = _QUALITY.search(found[3] or "")
        if quality is not None and not quality[1].strip("0."):
            continue
        if found[1] in (kind, "*") and found[2] in (subtype, "*"):
            return True
    return False


F = TypeVar("F")


class Changes(Protocol[F]):
    """Keeps changes of a flow's connectors (`change_history.ChangeHistory`). Called on worker
    threads."""

    def flow_of(self, path: str) -> F | None: ...
    def write(self, flow: F, who: str, method: str, path: str) -> None: ...


class Trail(Protocol):
    """Keeps who asked for which change. Called on the server's thread; returns at once."""

    def add(self, user: str, address: str, method: str, path: str, status: int) -> None: ...


class ChangeLog:
    """Logs who asked for which change, and the result; never a body, which may hold secrets.
    Changes that were made to a flow go to `changes`, too."""

    def __init__(
        self, app: ASGIApp, trails: Sequence[Trail] = (), changes: Changes[Any] | None = None
    ) -> None:
        """`trails`: where changes are recorded besides the log."""
        self._app = app
        self._trails = trails
        self._changes = changes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] in _SAFE:
            await self._app(scope, receive, send)
            return
        status, recorded = 500, False
        flow = None
        if self._changes is not None:
            flow = await run_in_threadpool(self._changes.flow_of, scope["path"])

        async def send_and_see(message: Message) -> None:
            nonlocal status, recorded, flow
            if message["type"] == "http.response.start":
                status = message["status"]
                if self._changes is not None and flow is None and status == _CREATED:
                    created = Headers(raw=message["headers"]).get("location", scope["path"])
                    path = urlsplit(created).path
                    flow = await run_in_threadpool(self._changes.flow_of, path)
                writes = flow is not None and status < 400
                recorded = take_recorded(message, scope, writes=writes)
            await send(message)

        try:
            await self._app(scope, receive, send_and_see)
        finally:
            raw = scope.get("raw_path", b"").decode("latin-1")[:_LONGEST_PATH]
            client = (scope.get("client") or ("?",))[0]
            user = scope.get(USER, "-")
            _audit.info("%r at %s: %s %s: %d", user, client, scope["method"], raw, status)
            for trail in self._trails:
                trail.add(user, client, scope["method"], raw, status)
        if self._changes is not None and flow is not None and status < 400 and not recorded:
            write, who = self._changes.write, sender_of(scope)
            await run_in_threadpool(write, flow, who, scope["method"], scope["path"])


class SameSite:
    """Rejects requests that change something if a page of another site sent them, and requests by
    a host name that is not the worker's (403).

    Only browsers send the headers that show this; other clients pass. A reverse proxy may rename
    the host, so the host in `X-Forwarded-Host`, which no page can set, counts as well.
    """

    def __init__(self, app: ASGIApp, rules: CorsRules | None, hosts: HostRules) -> None:
        self._app = app
        self._rules = rules
        self._hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        reason = self._refusal(scope) if scope["type"] == "http" else None
        if reason is not None:
            await error_response(403, reason)(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _refusal(self, scope: Scope) -> str | None:
        headers = Headers(scope=scope)
        changes = scope["method"] not in _SAFE
        host = headers.get("host", "")
        if not self._hosts.allows(host, browser_change=changes and "origin" in headers):
            return f"{host[:_LONGEST_HOST]!r} is not a name of this worker. {_OTHER_HOST}"
        return None if not changes or self._same_site(scope) else _OTHER_SITE

    def _same_site(self, scope: Scope) -> bool:
        headers = Headers(scope=scope)
        origin, site = headers.get("origin"), headers.get("sec-fetch-site")
        if origin is not None and self._rules is not None and self._rules.allows(origin):
            return True
        if site is not None:
            return site in ("same-origin", "none")
        if origin is None:
            return True
        own = {headers.get(name, "").lower() for name in ("host", "x-forwarded-host")}
        return urlsplit(origin).netloc.lower() in own - {""}


class Cors:
    """Handles cross-origin requests of browsers (access.control.allow.*). It responds to preflight
    requests itself, so they need no credentials."""

    _MAX_AGE_S = "60"

    def __init__(self, app: ASGIApp, rules: CorsRules) -> None:
        self._app = app
        self._rules = rules

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        origin = headers.get("origin")
        allowed = origin is not None and self._rules.allows(origin)
        added = {"Vary": "Origin"}
        if allowed and origin is not None:
            added["Access-Control-Allow-Origin"] = origin
            asked = headers.get("access-control-request-method")
            if scope["method"] == "OPTIONS" and asked is not None:
                await self._preflight(added)(scope, receive, send)
                return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                answer = MutableHeaders(scope=message)
                for name, value in added.items():
                    answer.append(name, value)
            await send(message)

        await self._app(scope, receive, send_with_headers)

    def _preflight(self, headers: dict[str, str]) -> Response:
        return Response(
            headers={
                **headers,
                "Access-Control-Allow-Methods": ",".join(self._rules.methods),
                "Access-Control-Allow-Headers": "Content-Type",
                "Access-Control-Max-Age": self._MAX_AGE_S,
            }
        )


class AnswerHeaders:
    """Adds the headers of response.http.headers.config to every response."""

    def __init__(self, app: ASGIApp, headers: Sequence[AnswerHeader]) -> None:
        self._app = app
        self._headers = headers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                answer = MutableHeaders(scope=message)
                for header in self._headers:
                    _apply(header, answer)
            await send(message)

        await self._app(scope, receive, send_with_headers)


def _apply(header: AnswerHeader, answer: MutableHeaders) -> None:
    value = header.value
    if header.is_date:
        # The value is the distance of the date from now, in ms.
        value = formatdate(time.time() + int(header.value) / 1000, usegmt=True)
    if header.replaces:
        answer[header.name] = value
    else:
        answer.append(header.name, value)
