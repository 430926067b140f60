"""Bodies of requests, read as Kafka Connect reads them.

Scalars in configs become text as they were written (`1.50`, `true`); of a field that comes twice,
the last counts; fields that are not known are refused. What does not parse is answered with 500, as
Java does, and with words that say where.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NoReturn

from api.models import CreateConnectorRequest
from connect.errors import ConnectError
from connect.plugin import OffsetValue
from connect.runtime.connect_herder import BadRequest, OffsetEntry
from connect.runtime.states import TargetState

__all__ = [
    "MalformedBody",
    "create_request",
    "initial_state",
    "offset_entries",
    "required_string_map",
    "string_map",
    "task_configs",
]

_INITIAL_STATES = {
    "RUNNING": TargetState.STARTED,
    "PAUSED": TargetState.PAUSED,
    "STOPPED": TargetState.STOPPED,
}


class MalformedBody(ConnectError):
    """The body is not the JSON that is needed. Java's status for it is 500."""

    http_status = 500


class _Number(str):
    """A JSON number as it was written."""


def create_request(body: bytes) -> CreateConnectorRequest:
    """The body of POST /connectors."""
    fields = _object(_parse(body), "the request body", ("name", "config", "initial_state"))
    config = fields.get("config")
    name, state = fields.get("name"), fields.get("initial_state")
    return CreateConnectorRequest(
        name=None if name is None else _text(name, "name"),
        config=None if config is None else string_map(config, "config"),
        initial_state=None if state is None else _text(state, "initial_state"),
    )


def initial_state(text: str | None) -> TargetState | None:
    """The target state that an `initial_state` means."""
    if text is None:
        return None
    state = _INITIAL_STATES.get(text.upper())
    if state is None:
        raise MalformedBody(
            f"Invalid value {text} for initial_state: must be one of {', '.join(_INITIAL_STATES)}"
        )
    return state


def required_string_map(body: bytes) -> dict[str, str | None]:
    """A body that is an object of strings."""
    value = _parse(body)
    if value is None:
        raise MalformedBody("A JSON object is needed as the request body")
    return string_map(value, "the request body")


def string_map(value: object, what: str) -> dict[str, str | None]:
    """A JSON object whose values are scalars, as text."""
    return {
        _clean(key): None if item is None else _text(item, key)
        for key, item in _object(value, what).items()
    }


def task_configs(body: bytes) -> list[dict[str, str]]:
    """The body of the internal POST /connectors/{c}/tasks."""
    value = _parse(body)
    if not isinstance(value, list):
        raise MalformedBody("A JSON array of task configs is needed as the request body")
    return [
        {
            key: text
            for key, text in string_map(item, f"task config {number}").items()
            if text is not None
        }
        for number, item in enumerate(value)
    ]


def offset_entries(body: bytes) -> list[OffsetEntry]:
    """The body of PATCH /connectors/{c}/offsets. Numbers stay numbers."""
    value = _parse(body, numbers_as_text=False)
    fields = _object(value, "the request body", ("offsets",))
    offsets = fields.get("offsets")
    if not offsets and offsets in (None, []):
        raise BadRequest("Partitions / offsets need to be provided for an alter offsets request")
    if not isinstance(offsets, list):
        raise MalformedBody("offsets must be a JSON array")
    return [_offset_entry(entry) for entry in offsets]


def _offset_entry(value: object) -> OffsetEntry:
    fields = _object(value, "an element of offsets", ("partition", "offset"))
    return OffsetEntry(
        _scalars(fields.get("partition"), "partition"), _scalars(fields.get("offset"), "offset")
    )


def _scalars(value: object, what: str) -> Mapping[str, OffsetValue] | None:
    if value is None:
        return None
    fields = _object(value, what)
    for key, item in fields.items():
        if isinstance(item, dict | list):
            raise BadRequest(
                f"Invalid value for {key} in {what}: only strings, numbers, booleans and null can "
                "be stored as offsets"
            )
    return {
        _clean(key): _clean(item) if isinstance(item, str) else item for key, item in fields.items()
    }


def _parse(body: bytes, *, numbers_as_text: bool = True) -> Any:
    """The JSON value of a body; None of an empty one."""
    if not body.strip():
        return None
    number = _Number if numbers_as_text else None
    try:
        return json.loads(body, parse_constant=_no_constant, parse_int=number, parse_float=number)
    except json.JSONDecodeError as error:
        raise MalformedBody(
            f"The request body is not valid JSON: {error.msg} at line {error.lineno}, "
            f"column {error.colno}"
        ) from error
    except UnicodeDecodeError as error:
        raise MalformedBody(
            f"The request body is not valid UTF-8: {error.reason} at byte {error.start}"
        ) from error
    except RecursionError as error:
        raise MalformedBody("The request body is nested too deeply") from error
    except ValueError as error:
        raise MalformedBody(f"The request body is not valid JSON: {error}") from error


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON number")


def _text(value: object, what: str) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, str):
        raise MalformedBody(f"Invalid value for {what}: a string is needed, not {_kind(value)}")
    return _clean(value)


def _clean(text: str) -> str:
    """Without lone surrogates, which JSON can write and UTF-8 cannot."""
    if text.isascii():
        return str(text)
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _object(value: object, what: str, known: tuple[str, ...] | None = None) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise MalformedBody(f"Invalid value for {what}: an object is needed, not {_kind(value)}")
    for field in value:
        if known is not None and field not in known:
            raise MalformedBody(
                f'Unrecognized field "{field}" in {what}; known fields are: {", ".join(known)}'
            )
    return value


def _kind(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, _Number | int | float) and not isinstance(value, bool):
        return "a number"
    kinds = {dict: "an object", list: "an array", str: "a string", bool: "a boolean"}
    return kinds.get(type(value), type(value).__name__)
