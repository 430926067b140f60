"""Middleware that admits only users whose role allows a request.

Requests that workers sign need no user: the herder checks their signatures.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import anyio
import anyio.to_thread
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from api.rest.authentication import ROLE, USER, Authentication, Login
from api.rest.errors import error_response
from api.rest.roles import required_role

__all__ = ["Authenticate"]

_DENIED = "User cannot access the resource."
# Workers do not have the users' passwords. They sign these requests instead.
_SIGNED = (
    ("POST", re.compile(r"/connectors/[^/]+/tasks/?")),
    ("PUT", re.compile(r"/connectors/[^/]+/fence/?")),
    ("GET", re.compile(r"/connectors/[^/]+/partitions/?")),
)
_CHECKS_AT_ONCE = 4
"""Logins that are checked at the same time. The check of a hash needs 19 MiB and a core."""


@dataclass(slots=True)
class Authenticate:
    """Rejects requests without a user (401), of users whose role does not allow
    them (403), and of clients that failed too often (429)."""

    app: ASGIApp
    authentication: Authentication
    _limit: anyio.CapacityLimiter | None = field(default=None, init=False)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refusal = await self._refusal(scope) if scope["type"] == "http" else None
        await (refusal or self.app)(scope, receive, send)

    async def _refusal(self, scope: Scope) -> Response | None:
        method, path = scope["method"], scope["path"]
        if any(method == of and pattern.fullmatch(path) for of, pattern in _SIGNED):
            return None
        login = await self._login(scope)
        if login.wait_s:
            headers = {"Retry-After": str(login.wait_s)}
            text = f"Too many failed logins; try again in {login.wait_s} s"
            return error_response(429, text, headers=headers)
        if login.user is None:
            return error_response(401, _DENIED, headers=self.authentication.challenge)
        # For the log of changes, which is further out.
        scope[USER] = login.user
        if login.role is not None:
            scope[ROLE] = login.role
        needed = required_role(method, path)
        if login.role is not None and login.role >= needed:
            return None
        has = "no role" if login.role is None else f"the role {login.role.name.lower()}"
        text = f"User {login.user} has {has}; this needs the role {needed.name.lower()}"
        return error_response(403, text)

    async def _login(self, scope: Scope) -> Login:
        if self._limit is None:
            self._limit = anyio.CapacityLimiter(_CHECKS_AT_ONCE)
        client: tuple[str, int] = scope.get("client") or ("?", 0)
        subject = scope.get("state", {}).get("client_subject")
        authorization = Headers(scope=scope).get("authorization")
        return await anyio.to_thread.run_sync(
            self.authentication.login, authorization, subject, client[0], limiter=self._limit
        )
