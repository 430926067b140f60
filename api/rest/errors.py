"""Error responses: always `{"error_code": ..., "message": ...}` with the matching status."""

from __future__ import annotations

from collections.abc import Mapping

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from starlette.exceptions import HTTPException

from api.rest.models import ErrorMessage, json_bytes
from connect.config.secrets import without_secrets
from connect.errors import ConnectError, DeadlineExceeded
from connect.runtime.errors import NotAssigned, NotLeader, RebalanceNeeded

__all__ = [
    "CONFLICT",
    "REASONS",
    "REBALANCE_EXPECTED",
    "RestError",
    "add_error_handlers",
    "error_response",
]

REASONS = {
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    406: "Not Acceptable",
    413: "Content Too Large",
    415: "Unsupported Media Type",
}
"""The last part of messages such as `HTTP 404 Not Found`."""

REBALANCE_EXPECTED = "Request cannot be completed because a rebalance is expected"
"""Java's response to plain GETs during a rebalance. Some clients wait for this exact text."""

CONFLICT = "Cannot complete request because of a conflicting operation (e.g. worker rebalance)"


class RestError(ConnectError):
    """An error with its own status. `code` is the value of `error_code`."""

    def __init__(self, status: int, message: str, code: int | None = None) -> None:
        super().__init__(message)
        self.http_status = status
        self.code = status if code is None else code


def error_response(
    status: int,
    message: str | None = None,
    *,
    code: int | None = None,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """Create an error response. `message` None: `HTTP <status> <reason>`. A secret that it quotes
    is hidden."""
    text = f"HTTP {status} {REASONS.get(status, '')}".rstrip() if message is None else message
    text = without_secrets(text)
    body = ErrorMessage(error_code=status if code is None else code, message=text)
    return Response(
        json_bytes(body),
        status,
        media_type="application/json",
        headers=None if headers is None else dict(headers),
    )


def add_error_handlers(app: FastAPI) -> None:
    """Return every error of the application's handlers in Kafka Connect's format."""

    @app.exception_handler(ConnectError)
    async def failed(request: Request, error: ConnectError) -> Response:
        return _failure(request, error)

    @app.exception_handler(HTTPException)
    async def refused(_request: Request, error: HTTPException) -> Response:
        return error_response(error.status_code)

    @app.exception_handler(RequestValidationError)
    async def invalid(_request: Request, _error: RequestValidationError) -> Response:
        # The framework validates only path parameters. One of a wrong type matches no resource.
        return error_response(404)

    @app.exception_handler(Exception)
    async def broken(_request: Request, error: Exception) -> Response:
        return error_response(500, str(error) or type(error).__name__)


def _failure(request: Request, error: ConnectError) -> Response:
    if isinstance(error, RestError):
        return error_response(error.http_status, str(error), code=error.code)
    if isinstance(error, RebalanceNeeded):
        return error_response(500, REBALANCE_EXPECTED)
    if isinstance(error, NotLeader | NotAssigned):
        return error_response(409, CONFLICT)
    if isinstance(error, DeadlineExceeded):
        return error_response(500, _timed_out(request, error))
    return error_response(error.http_status, str(error))


def _timed_out(request: Request, error: DeadlineExceeded) -> str:
    """Return what the request waited for if the error tells, else the worker's current activity,
    which hints at the cause."""
    if str(error).startswith("Request timed out"):
        return str(error)
    stage = request.app.state.site.stage()
    return f"Request timed out. {stage}" if stage else "Request timed out"
