"""Schemaless JSON exactly as Connect's JsonConverter writes it (schemas.enable=false, Jackson).

Source offsets are found again by the bytes of their key, so these bytes are a format: compact, in
the order of the map, raw UTF-8 with only these escapes: `"`, backslash, the short ones (backspace,
tab, line feed, form feed, carriage return), other control characters below 0x20 as backslash-u and
four capital hex digits, and characters beyond U+FFFF as two such escapes (a surrogate pair).
Doubles are written as Java's `Double.toString` (JDK 19 and newer: the shortest digits). Bytes
become base64. Pure functions.
"""

from __future__ import annotations

import base64
import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import TypeAlias, Union

from connect.errors import ConnectError, CorruptData

__all__ = ["JsonValue", "decode", "encode"]

# A union with strings in it, because the alias refers to itself.
JsonValue: TypeAlias = Union[
    str, int, float, bool, bytes, "Mapping[str, JsonValue]", "Sequence[JsonValue]", None
]

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
# Java writes doubles from here on (and below the other bound) in scientific notation.
_SCIENTIFIC_FROM = 1e7
_SCIENTIFIC_BELOW = 1e-3


def encode(value: JsonValue) -> bytes:
    """The bytes of one value. Raises `ConnectError` for what JSON cannot hold."""
    parts: list[str] = []
    _write(value, parts)
    return "".join(parts).encode()


def decode(data: bytes) -> JsonValue:
    """The value in these bytes; empty bytes are null, as in Java. Raises `CorruptData`."""
    if not data:
        return None
    try:
        value: JsonValue = json.loads(data.decode(), parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise CorruptData(f"Not JSON: {error}") from error
    return value


def _refuse(name: str) -> float:
    raise ValueError(f"{name} is not JSON")


def _write(value: JsonValue, out: list[str]) -> None:
    if value is None:
        out.append("null")
    elif isinstance(value, str):
        out.append(_string(value))
    elif isinstance(value, bool):
        out.append("true" if value else "false")
    elif isinstance(value, int):
        out.append(str(value))
    elif isinstance(value, float):
        out.append(_double(value))
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
            raise ConnectError(f"A JSON object's names are strings, not {type(name).__name__}")
        out.append(f"{separator}{_string(name)}:")
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


def _double(value: float) -> str:
    """Java's text of a double; what is not a number becomes a JSON string, as Jackson does it."""
    if math.isnan(value):
        return '"NaN"'
    if math.isinf(value):
        return '"Infinity"' if value > 0 else '"-Infinity"'
    magnitude = abs(value)
    if magnitude == 0.0:
        return str(value)
    sign = "-" if value < 0 else ""
    digits, exponent = _shortest_digits(magnitude)
    if _SCIENTIFIC_BELOW <= magnitude < _SCIENTIFIC_FROM:
        return sign + _plain(digits, exponent)
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{exponent}"


def _shortest_digits(magnitude: float) -> tuple[str, int]:
    """The digits d.ddd... that read back as the number, and the exponent of ten of the first."""
    # Java has at least two digits, and takes the nearest number among those.
    text = f"{magnitude:.1e}"
    if float(text) != magnitude:
        digits = repr(magnitude).partition("e")[0].replace(".", "").strip("0")
        text = f"{magnitude:.{len(digits) - 1}e}"
    mantissa, _, power = text.partition("e")
    return mantissa.replace(".", "").rstrip("0"), int(power)


def _plain(digits: str, exponent: int) -> str:
    if exponent < 0:
        return "0." + "0" * (-exponent - 1) + digits
    whole = digits[: exponent + 1].ljust(exponent + 1, "0")
    return f"{whole}.{digits[exponent + 1 :] or '0'}"
