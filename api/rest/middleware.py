"""ASGI middlewares that reproduce the general behaviour of Java's REST server.

`JaxRs` responds to requests that no handler can serve, and to OPTIONS. It handles unknown paths,
wrong methods and media types, HEAD and trailing slashes. `Cors` and `AnswerHeaders` add headers.
`BasicAuth` rejects unknown users, and `SameSite` requests that another site's page makes a browser
send.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from email.utils import formatdate
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.rest.config import AnswerHeader, CorsRules
from api.rest.errors import error_response
from api.rest.roles import required_role
from api.rest.security import Users

__all__ = ["AnswerHeaders", "BasicAuth", "ChangeLog", "Cors", "Endpoint", "JaxRs", "SameSite"]

_audit = logging.getLogger("connect.audit")

_JSON = "application/json"
_USER = "connect.user"
_LONGEST_PATH = 500
_DENIED = "User cannot access the resource."
_CHALLENGE = {"WWW-Authenticate": 'Basic realm="Kafka Connect"'}
# Workers do not have the users' passwords. They sign these requests instead.
_SIGNED = (
    ("POST", re.compile(r"/connectors/[^/]+/tasks/?")),
    ("PUT", re.compile(r"/connectors/[^/]+/fence/?")),
    ("GET", re.compile(r"/connectors/[^/]+/partitions/?")),
)
_SAFE = ("GET", "HEAD", "OPTIONS")
_OTHER_SITE = (
    "A page of another site sent this request. To allow that site, add it to"
    " access.control.allow.origin in the worker's properties"
)
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

    def __init__(self, app: ASGIApp, endpoints: Sequence[Endpoint]) -> None:
        self._app = app
        self._endpoints = endpoints

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        path = scope["path"]
        if len(path) > 1 and path.endswith("/"):
            path = path[:-1]
        answer = self._answer(scope, path)
        if answer is not None:
            await answer(scope, receive, send)
            return
        method = "GET" if scope["method"] == "HEAD" else scope["method"]
        passed = {**scope, "path": path, "raw_path": path.encode(), "method": method}
        await self._app(passed, receive, send)

    def _answer(self, scope: Scope, path: str) -> Response | None:
        """Return the response if no handler is needed; None if a handler must respond."""
        raw = scope.get("raw_path", b"").decode("latin-1").partition("?")[0]
        if _AMBIGUOUS.search(raw):
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


class ChangeLog:
    """Logs who asked for which change and what came of it; never a body, which may hold secrets."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] in _SAFE:
            await self._app(scope, receive, send)
            return
        status = 500

        async def send_and_see(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, send_and_see)
        finally:
            raw = scope.get("raw_path", b"").decode("latin-1")[:_LONGEST_PATH]
            client = (scope.get("client") or ("?",))[0]
            user = scope.get(_USER, "-")
            _audit.info("%r at %s: %s %s: %d", user, client, scope["method"], raw, status)


class BasicAuth:
    """Rejects requests without a user's credentials (401) or beyond the user's role (403), except
    requests that workers sign."""

    def __init__(self, app: ASGIApp, users: Users) -> None:
        self._app = app
        self._users = users

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refusal = self._refusal(scope) if scope["type"] == "http" else None
        await (refusal or self._app)(scope, receive, send)

    def _refusal(self, scope: Scope) -> Response | None:
        method, path = scope["method"], scope["path"]
        if any(method == of and pattern.fullmatch(path) for of, pattern in _SIGNED):
            return None
        user = self._users.user(Headers(scope=scope).get("authorization"))
        if user is None:
            return error_response(401, _DENIED, headers=_CHALLENGE)
        # For the log of changes, which is further out.
        scope[_USER] = user
        needed, role = required_role(method, path), self._users.role_of(user)
        if role >= needed:
            return None
        has, lacks = role.name.lower(), needed.name.lower()
        return error_response(403, f"User {user} has the role {has}; this needs the role {lacks}")


class SameSite:
    """Rejects requests that change something if a page of another site sent them (403).

    Only browsers send the headers that tell; other clients pass. A reverse proxy may rename the
    host, so that of `X-Forwarded-Host` counts as well, which no page can set.
    """

    def __init__(self, app: ASGIApp, rules: CorsRules | None) -> None:
        self._app = app
        self._rules = rules

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["method"] not in _SAFE and not self._same_site(scope):
            await error_response(403, _OTHER_SITE)(scope, receive, send)
            return
        await self._app(scope, receive, send)

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
