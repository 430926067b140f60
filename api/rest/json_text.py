"""Parses JSON like Kafka Connect: where text is expected, scalars are accepted and kept as they
were written."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NoReturn

from connect.errors import ConnectError
from connect.runtime.states import TargetState

__all__ = [
    "MalformedBody",
    "clean",
    "object_of",
    "parse_initial_state",
    "parse_json",
    "string_map",
    "text_of",
]

_INITIAL_STATES: Mapping[str, TargetState] = {
    "RUNNING": TargetState.STARTED,
    "PAUSED": TargetState.PAUSED,
    "STOPPED": TargetState.STOPPED,
}


class MalformedBody(ConnectError):
    """The body is not the expected JSON. Java responds with status 500."""

    http_status = 500


class _Number(str):
    """A JSON number, as it was written."""


def string_map(value: object, what: str) -> dict[str, str | None]:
    """Convert a JSON object of scalars to text values."""
    return {
        clean(key): None if item is None else text_of(item, key)
        for key, item in object_of(value, what).items()
    }


def parse_json(body: bytes, *, numbers_as_text: bool = True) -> Any:
    """Parse the JSON value of a body; None for an empty body."""
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


def text_of(value: object, what: str) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, str):
        raise MalformedBody(f"Invalid value for {what}: must be a string, not {_kind(value)}")
    return clean(value)


def clean(text: str) -> str:
    """Remove lone surrogates, which JSON can contain and UTF-8 cannot."""
    if text.isascii():
        return str(text)
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def object_of(value: object, what: str, known: tuple[str, ...] | None = None) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise MalformedBody(f"Invalid value for {what}: must be an object, not {_kind(value)}")
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


def parse_initial_state(text: str) -> TargetState:
    """Return the target state for an `initial_state`. Raises ConnectError."""
    state = _INITIAL_STATES.get(text.upper())
    if state is None:
        raise MalformedBody(
            f"Invalid value {text} for initial_state: must be one of {', '.join(_INITIAL_STATES)}"
        )
    return state
