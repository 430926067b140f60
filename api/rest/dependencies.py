"""FastAPI dependencies and response helpers that the REST handlers share."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Annotated

from fastapi import Depends, Path, Query, Request
from fastapi.responses import Response
from pydantic import BaseModel, BeforeValidator
from starlette.requests import ClientDisconnect

from api.rest.authentication import USER
from api.rest.errors import RestError
from api.rest.models import ErrorMessage, json_bytes
from api.rest.worker_handle import STARTING, WorkerHandle
from connect.plugin import PartitionHealth
from connect.runtime.connector_status import encode_partitions
from connect.runtime.herder import Herder

__all__ = [
    "FAILURES",
    "STRING_MAP",
    "ConnectorName",
    "HerderDep",
    "JavaBoolean",
    "RawBody",
    "TaskNumber",
    "body_of",
    "empty",
    "json_answer",
    "partitions_answer",
]

_MAX_BODY_BYTES = 8 * 1024 * 1024
"""Maximum size of a request body, above any list of task configs: brokers take records of 1 MiB by
default. It protects the memory: parsed JSON takes some 20 times as much."""

_MOST_BODY_BYTES = 8 * _MAX_BODY_BYTES
"""The limit for the bodies of all users' requests at the same time, and again for those of all
other requests: the signatures of workers' requests are checked only once the body has arrived."""


async def _herder(request: Request) -> Herder:
    site: WorkerHandle = request.app.state.site
    if site.herder is None:
        raise RestError(503, STARTING)
    return site.herder


class _Room:
    """Limits the memory of this process that request bodies may use. Thread-safe: each listener has
    a thread."""

    def __init__(self, size: int) -> None:
        self._free = size
        self._lock = threading.Lock()

    def take(self, size: int) -> None:
        with self._lock:
            if size > self._free:
                raise RestError(503, "Too many large request bodies at the same time; retry later")
            self._free -= size

    def give_back(self, size: int) -> None:
        with self._lock:
            self._free += size


_users, _others = _Room(_MOST_BODY_BYTES), _Room(_MOST_BODY_BYTES)


async def _raw_body(request: Request) -> AsyncIterator[bytes]:
    # Whoever fills the room for requests without a user keeps no user out.
    room = _users if USER in request.scope else _others
    parts: list[bytes] = []
    size = 0
    announced = request.headers.get("content-length", "")
    if announced.isdecimal() and int(announced) > _MAX_BODY_BYTES:
        raise _too_large()
    try:
        try:
            async for part in request.stream():
                if size + len(part) > _MAX_BODY_BYTES:
                    raise _too_large()
                room.take(len(part))
                size += len(part)
                parts.append(part)
        except ClientDisconnect as error:
            # No fault of the worker's, and nobody is there who could read the answer.
            raise RestError(400, "The connection ended before the request body did") from error
        body = b"".join(parts)
        parts.clear()
        if body and "content-type" not in request.headers:
            raise RestError(415, "HTTP 415 Unsupported Media Type")
        yield body
    finally:
        room.give_back(size)


def _too_large() -> RestError:
    return RestError(413, f"The request body is larger than {_MAX_BODY_BYTES} bytes")


def _java_boolean(value: object) -> bool:
    """Parse like Java's Boolean.valueOf: "true" in any case is true, everything else is false."""
    return str(value).lower() == "true"


def _task_number(value: object) -> object:
    """Parse like Java's Integer.valueOf: digits with an optional sign and leading zeros."""
    text = str(value)
    digits = text[1:] if text[:1] in "+-" else text
    if not (digits.isdigit() and digits.isascii()) or not -(2**31) <= int(text) < 2**31:
        raise ValueError("not an int")
    return int(text)


HerderDep = Annotated[Herder, Depends(_herder)]
RawBody = Annotated[bytes, Depends(_raw_body)]
ConnectorName = Annotated[str, Path(alias="connector")]
TaskNumber = Annotated[int, BeforeValidator(_task_number), Path(alias="task")]
JavaBoolean = Annotated[bool, BeforeValidator(_java_boolean), Query()]

FAILURES: dict[int | str, dict[str, object]] = {
    "default": {"model": ErrorMessage, "description": "Error"}
}
"""`responses` of a router: every error has this schema."""


def json_answer(
    value: object, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """Encode models, or lists and maps of them, as a response."""
    return Response(
        json_bytes(value),
        status,
        media_type="application/json",
        headers=None if headers is None else dict(headers),
    )


def partitions_answer(tasks: Mapping[int, Sequence[PartitionHealth]]) -> Response:
    """The partitions of tasks, as workers send them to each other."""
    return Response(encode_partitions(tasks), media_type="application/json")


def empty(status: int) -> Response:
    """Create a response without a body and content type."""
    return Response(status_code=status)


def body_of(model: type[BaseModel] | dict[str, object]) -> dict[str, object]:
    """Return `openapi_extra` for an operation whose handler parses the JSON body itself."""
    schema = model if isinstance(model, dict) else model.model_json_schema()
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


STRING_MAP: dict[str, object] = {
    "type": "object",
    "additionalProperties": {"anyOf": [{"type": "string"}, {"type": "null"}]},
}
"""The schema of a config."""
