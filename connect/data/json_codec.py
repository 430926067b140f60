"""Schemaless JSON exactly as Connect's JsonConverter writes it (schemas.enable=false, Jackson).

Source offsets are looked up by the bytes of their key, so the bytes must match Java's: compact, in
map order, raw UTF-8 with only these escapes: `"`, backslash, the short ones (backspace, tab, line
feed, form feed, carriage return), other control characters below 0x20 as backslash-u and four
capital hex digits, and characters beyond U+FFFF as two such escapes (a surrogate pair). Doubles and
floats are written as Java's `toString` (JDK 19 and newer: the shortest digits), bytes become
base64. Pure functions.
"""

from __future__ import annotations

import base64
import decimal
import json
import math
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TypeAlias, Union

from connect.data.java_numbers import Float32, double_text, float_text
from connect.errors import ConnectError, CorruptData

__all__ = ["JsonValue", "decode", "encode", "refuse_constant"]

# A union that contains a string, because the alias refers to itself.
JsonValue: TypeAlias = Union[
    str,
    int,
    float,
    bool,
    bytes,
    decimal.Decimal,
    "Mapping[str, JsonValue]",
    "Sequence[JsonValue]",
    None,
]

_SHORT_NAME = 64
"""The longest names that are remembered, which bounds memory."""

_NEEDS_ESCAPE = re.compile('[\\x00-\\x1f"\\\\\\ud800-\\udfff\\U00010000-\\U0010ffff]')
_SHORT_ESCAPES = {
    '"': '\\"',
    "\\": "\\\\",
    "\b": "\\b",
    "\t": "\\t",
    "\n": "\\n",
    "\f": "\\f",
    "\r": "\\r",
}


def encode(value: JsonValue) -> bytes:
    """Encode one value. Raises `ConnectError` for a type that JSON lacks."""
    parts: list[str] = []
    _write(value, parts)
    return "".join(parts).encode()


def decode(data: bytes) -> JsonValue:
    """Decode a value; empty bytes are null, as in Java. Raises `CorruptData`."""
    if not data:
        return None
    try:
        value: JsonValue = json.loads(data.decode(), parse_constant=refuse_constant)
    except (ValueError, RecursionError) as error:
        raise CorruptData(f"Not JSON: {error}") from error
    return value


def refuse_constant(name: str) -> float:
    """Refuse NaN and Infinity, which Python's parser accepts but JSON lacks."""
    raise ValueError(f"{name} is not JSON")


def _write(value: JsonValue, out: list[str]) -> None:
    if value is None:
        out.append("null")
    elif isinstance(value, str):
        out.append(_string(value))
    elif isinstance(value, bool):
        out.append("true" if value else "false")
    elif isinstance(value, int | decimal.Decimal):
        out.append(str(value))
    elif isinstance(value, float):
        out.append(_number(value))
    elif isinstance(value, bytes):
        out.append(f'"{base64.b64encode(value).decode()}"')
    elif isinstance(value, Mapping):
        _write_map(value, out)
    elif isinstance(value, Sequence):
        _write_list(value, out)
    else:
        raise ConnectError(f"A {type(value).__name__} cannot be written as JSON")


def _write_map(value: Mapping[str, JsonValue], out: list[str]) -> None:
    separator = "{"
    for name, member in value.items():
        if not isinstance(name, str):
            raise ConnectError(f"A JSON object's names must be strings, not {type(name).__name__}")
        written = _name(name) if len(name) <= _SHORT_NAME else _string(name)
        out.append(f"{separator}{written}:")
        _write(member, out)
        separator = ","
    out.append("}" if value else "{}")


def _write_list(value: Sequence[JsonValue], out: list[str]) -> None:
    separator = "["
    for element in value:
        out.append(separator)
        _write(element, out)
        separator = ","
    out.append("]" if value else "[]")


def _string(text: str) -> str:
    return f'"{_NEEDS_ESCAPE.sub(_escape, text)}"'


@lru_cache(maxsize=4096)
def _name(name: str) -> str:
    """Return the text of a name. Those of one record come again in the next."""
    return _string(name)


def _escape(match: re.Match[str]) -> str:
    char = match.group()
    short = _SHORT_ESCAPES.get(char)
    if short is not None:
        return short
    code = ord(char)
    if code <= 0xFFFF:
        return f"\\u{code:04X}"
    code -= 0x10000
    return f"\\u{0xD800 + (code >> 10):04X}\\u{0xDC00 + (code & 0x3FF):04X}"


def _number(value: float) -> str:
    """Return Java's text of a float or double. NaN and infinity become JSON strings, as in
    Jackson.
    """
    text = float_text(value) if isinstance(value, Float32) else double_text(value)
    return text if math.isfinite(value) else f'"{text}"'
