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
from collections.abc import Callable, Mapping, Sequence
from json.encoder import encode_basestring
from typing import Any, TypeAlias, Union

from connect.data.compiled import native
from connect.data.java_numbers import Float32, double_text, float_text
from connect.errors import ConnectError, CorruptData

__all__ = ["JsonValue", "decode", "encode", "encode_plain", "refuse_constant"]

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
_MOST_NAMES = 4096
_PLAIN_FROM, _PLAIN_BELOW = 1e-3, 1e7
"""Java writes doubles between these without an exponent."""

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
    written = _compiled(value)
    return _ANY.text(value).encode() if written is None else written


def encode_plain(value: object) -> bytes | None:
    """Encode one value as `encode` does, if it and all that it contains are exactly dicts with
    texts as keys, lists, texts, integers, doubles, booleans, bytes and None. None: it is not."""
    written = _compiled(value)
    if written is not None:
        return written
    try:
        return _PLAIN.text(value).encode()
    except ConnectError:
        return None


def _compiled(value: object) -> bytes | None:
    """Return what the compiled part writes; None: it is not there, or leaves it to Python."""
    if native is None:
        return None
    written: bytes | None = native.write_json(value, _number)
    return written


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


class _Names(dict[str, str]):
    """The names of objects as JSON. The names of one record come again in the next one."""

    def __missing__(self, name: str) -> str:
        if not isinstance(name, str):
            raise ConnectError(f"A JSON object's names must be strings, not {type(name).__name__}")
        written = _string(name)
        if len(name) <= _SHORT_NAME:
            if len(self) >= _MOST_NAMES:
                self.clear()
            self[name] = written
        return written


class _Writers(dict[type, Callable[[Any], str]]):
    """How values of each type are written. Other types are refused."""

    def __init__(self) -> None:
        super().__init__()
        self._names = _Names()
        self[str] = _string
        self[int] = int.__repr__
        self[float] = _number
        self[bool] = self[type(None)] = _CONSTANTS.__getitem__
        self[bytes] = _base64
        self[dict] = self._object
        self[list] = self._array

    def text(self, value: object) -> str:
        return self[type(value)](value)

    def __missing__(self, kind: type) -> Callable[[Any], str]:
        raise ConnectError(f"A {kind.__name__} cannot be written as JSON")

    def _object(self, value: Mapping[str, object]) -> str:
        names = self._names
        members = [f"{names[key]}:{self[type(member)](member)}" for key, member in value.items()]
        return f"{{{','.join(members)}}}"

    def _array(self, value: Sequence[object]) -> str:
        return f"[{','.join([self[type(element)](element) for element in value])}]"


class _AllWriters(_Writers):
    """Also writes values of classes that are derived from, or similar to, these types."""

    def __missing__(self, kind: type) -> Callable[[Any], str]:
        for classes, writer in (
            (str, _string),
            (int | decimal.Decimal, str),
            (float, _number),
            (bytes, _base64),
            (Mapping, self._object),
            (Sequence, self._array),
        ):
            if issubclass(kind, classes):
                return writer
        return super().__missing__(kind)


def _string(text: str) -> str:
    written = encode_basestring(text)
    if len(written) == len(text) + 2 and text.isascii():  # Nothing was escaped: most texts.
        return written
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


def _number(value: float) -> str:
    """Return Java's text of a float or double. NaN and infinity become JSON strings, as in
    Jackson.
    """
    if type(value) is float and _PLAIN_FROM <= abs(value) < _PLAIN_BELOW:
        return repr(value)  # As in Java, for numbers of usual sizes.
    text = float_text(value) if isinstance(value, Float32) else double_text(value)
    return text if math.isfinite(value) else f'"{text}"'


def _base64(value: bytes) -> str:
    return f'"{base64.b64encode(value).decode()}"'


_CONSTANTS: Mapping[bool | None, str] = {None: "null", True: "true", False: "false"}
_PLAIN, _ANY = _Writers(), _AllWriters()
