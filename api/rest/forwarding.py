"""Forwards requests to the worker that can answer them, at most twice.

The herder knows which worker that is (`NotLeader`, `NotAssigned`). A client's request is forwarded
with `forward=true`. The receiver may forward it again with `forward=false`, because the leader may
have changed, or may have to ask the owner. That request is never forwarded again. Authorization is
the only client header that is forwarded. The other worker is also told who asked
(`forwarded_changes`).
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, TypeVar
from urllib.parse import quote, urlencode

from fastapi import Depends, Query, Request
from fastapi.responses import Response

from api.rest.errors import CONFLICT, RestError
from api.rest.forwarded_changes import RECORDED, SENDER, sender_header
from api.rest.models import ErrorMessage
from api.rest.worker_handle import WorkerHandle
from connect.clients.rest_client import RestAnswer, WorkerUnreachable
from connect.runtime.errors import NotAssigned, NotLeader, RebalanceNeeded

__all__ = ["Forwarding", "Hop", "path_segment"]

log = logging.getLogger(__name__)

T = TypeVar("T")

NO_LEADER = (
    "Cannot complete request momentarily due to no known leader URL, likely because a rebalance "
    "was underway."
)
STALE_CONFIG = (
    "Cannot complete request momentarily due to stale configuration (typically caused by a "
    "concurrent config change)"
)


@dataclass(frozen=True, slots=True)
class Hop:
    """A request to the other worker. `path`: URL-encoded. `query`: without `forward`."""

    method: str
    path: str
    body: bytes | None = None
    query: Mapping[str, str] = field(default_factory=dict)


class Forwarding:
    """Forwards one request. A dependency of handlers."""

    def __init__(
        self, site: WorkerHandle, forward: str | None, authorization: str | None, sender: str
    ) -> None:
        self._site = site
        self._forward = forward
        self._headers = {SENDER: sender}
        if authorization is not None:
            self._headers["Authorization"] = authorization

    def complete(self, hop: Hop, ask: Callable[[], T], answer: Callable[[T], Response]) -> Response:
        """Ask this worker's herder with `ask` and turn the result into a response with `answer`. If
        another worker is responsible, return its response."""
        return self.complete_with(hop, ask, answer, _relayed)

    def complete_with(
        self,
        hop: Hop,
        ask: Callable[[], T],
        answer: Callable[[T], Response],
        relay: Callable[[RestAnswer], Response],
    ) -> Response:
        """Like `complete`, but `relay` turns the other worker's success into our response."""
        try:
            result = ask()
        except (NotLeader, NotAssigned) as error:
            return self._relay(self._ask_other(hop, error.url), relay)
        except RebalanceNeeded as error:
            raise RestError(409, STALE_CONFIG) from error
        return answer(result)

    @staticmethod
    def _relay(answer: RestAnswer, relay: Callable[[RestAnswer], Response]) -> Response:
        response = relay(answer)
        if RECORDED.lower() in answer.headers:
            response.headers[RECORDED] = "true"
        return response

    def _ask_other(self, hop: Hop, url: str | None) -> RestAnswer:
        if self._forward is not None and self._forward.lower() != "true":
            raise RestError(409, CONFLICT)
        if not url:
            raise RestError(409, NO_LEADER)
        query = urlencode({"forward": "true" if self._forward is None else "false", **hop.query})
        target = f"{url.rstrip('/')}{hop.path}?{query}"
        log.debug("Forwarding %s %s to %s", hop.method, hop.path, url)
        try:
            answer = self._site.client.request(
                hop.method, target, body=hop.body, headers=self._headers
            )
        except WorkerUnreachable as error:
            raise RestError(500, f"IO Error trying to forward REST request: {error}") from error
        return _checked(answer)


def _checked(answer: RestAnswer) -> RestAnswer:
    """Return the other worker's response. Raises the error that it contains."""
    if answer.status >= 400:
        try:
            error = ErrorMessage.model_validate_json(answer.body)
        except ValueError as problem:
            raise RestError(
                500,
                "IO Error trying to forward REST request: the worker responded with status "
                f"{answer.status} and no error message",
            ) from problem
        raise RestError(answer.status, error.message, error.error_code)
    if not 200 <= answer.status < 300:
        raise RestError(
            500, f"Unexpected status code when handling forwarded request: {answer.status}"
        )
    if answer.status != 204:
        try:
            json.loads(answer.body)
        except ValueError as problem:
            raise RestError(
                500, "IO Error trying to forward REST request: the worker's response is not JSON"
            ) from problem
    return answer


def _relayed(answer: RestAnswer) -> Response:
    if answer.status == 204:
        return Response(status_code=204)
    return Response(answer.body, answer.status, media_type="application/json")


def path_segment(name: str) -> str:
    """Encode a name as one segment of a path."""
    return quote(name, safe="!$&'()*+,;=:@~")


async def _forwarding(
    request: Request, forward: Annotated[str | None, Query()] = None
) -> Forwarding:
    return Forwarding(
        request.app.state.site,
        forward,
        request.headers.get("authorization"),
        sender_header(request.scope),
    )


Forwarded = Annotated[Forwarding, Depends(_forwarding)]
"""The handler parameter for requests that may be forwarded."""
