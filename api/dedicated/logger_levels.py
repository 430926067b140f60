"""Levels of loggers in dedicated mode, with the paths and bodies of Kafka Connect's REST API.

The listener of a mirror has no users. Everybody may read the levels; only programs on the machine
itself may change them, because a level that is too low fills the disk with lines."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import ip_address
from typing import Annotated

from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import Response

from api.rest.bodies import required_string_map
from api.rest.dependencies import RawBody, json_answer
from api.rest.errors import RestError
from connect.runtime.errors import BadRequest
from connect.runtime.loggers import Loggers

__all__ = ["is_from_here", "logger_levels"]

_PROXY_HEADERS = ("forwarded", "x-forwarded-for", "x-real-ip")
"""Headers of requests that passed a proxy on this machine and may come from anywhere."""

_NOT_HERE = (
    "This listener has no users, so levels can be changed only on the machine of the mirror, over "
    "a loopback address such as 127.0.0.1 and without a proxy"
)

LoggerName = Annotated[str, Path(alias="logger")]


def logger_levels() -> APIRouter:
    """Return the routes for the loggers of this process."""
    levels = Loggers()
    router = APIRouter(prefix="/admin/loggers")

    @router.get("")
    def list_loggers() -> Response:
        return json_answer(levels.all())

    @router.get("/{logger}")
    def logger_level(logger: LoggerName) -> Response:
        return json_answer(levels.get(logger))

    @router.put("/{logger}")
    def set_logger_level(
        request: Request,
        logger: LoggerName,
        body: RawBody,
        scope: Annotated[str, Query()] = "worker",
    ) -> Response:
        client = None if request.client is None else request.client.host
        if not is_from_here(client, request.headers):
            raise RestError(403, _NOT_HERE)
        if scope.lower() != "worker":
            raise BadRequest(
                f"Invalid value {scope} for scope: in dedicated mode a level is that of one "
                "process, scope=worker; ask each process"
            )
        level = required_string_map(body).get("level")
        if level is None:
            raise BadRequest("Desired 'level' parameter was not specified in request.")
        return json_answer(levels.set(logger, level))

    return router


def is_from_here(client: str | None, headers: Mapping[str, str]) -> bool:
    """Whether a request comes from this machine. `client`: the address of its connection."""
    if client is None or any(name in headers for name in _PROXY_HEADERS):
        return False
    try:
        address = ip_address(client)
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback
