"""REST endpoints of logger levels, on this worker or on all (KIP-495, KIP-976)."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query
from fastapi.responses import Response

from api.rest.bodies import required_string_map
from api.rest.dependencies import FAILURES, HerderDep, RawBody, body_of, empty, json_answer
from api.rest.models import LoggerRequest
from connect.runtime.errors import BadRequest
from connect.runtime.rest_entities import LoggerLevel

__all__ = ["router"]

router = APIRouter(prefix="/admin/loggers", responses=FAILURES, tags=["admin"])

LoggerName = Annotated[str, Path(alias="logger")]


@router.get("", response_model=dict[str, LoggerLevel])
def list_loggers(herder: HerderDep) -> Response:
    """List the loggers that have their own level."""
    levels = herder.loggers()
    return json_answer({name: levels[name] for name in sorted(levels)})


@router.get("/{logger}", response_model=LoggerLevel)
def logger_level(logger: LoggerName, herder: HerderDep) -> Response:
    """Return the level of a logger; `root` is the root logger."""
    return json_answer(herder.logger(logger))


@router.put(
    "/{logger}",
    response_model=list[str],
    responses={204: {"description": "scope=cluster"}},
    openapi_extra=body_of(LoggerRequest),
)
def set_logger_level(
    logger: LoggerName,
    herder: HerderDep,
    body: RawBody,
    scope: Annotated[str, Query()] = "worker",
) -> Response:
    """Set the level of a logger and its descendants; with `scope=cluster`, on all workers."""
    level = required_string_map(body).get("level")
    if level is None:
        raise BadRequest("Desired 'level' parameter was not specified in request.")
    if scope.lower() == "cluster":
        herder.set_cluster_logger(logger, level)
        return empty(204)
    return json_answer(herder.set_logger(logger, level))
