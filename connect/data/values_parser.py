"""Parse a value and its schema from text as Java's `Values.parseString` does.

The text is split at the characters `: , { } [ ] "` that have no backslash before them. A text that
is not null, a boolean, a number, a date, a list or a map is returned unchanged as a string.
"""

from __future__ import annotations

import math

from connect.data import logical
from connect.data.java_dates import DateFormat
from connect.data.java_numbers import Float32, parse_decimal
from connect.data.schema import Schema, SchemaAndValue, Type
from connect.data.schema_builder import REQUIRED, SchemaBuilder
from connect.errors import DataError

__all__ = ["parse_text"]

_NULL = SchemaAndValue(None, None)
_DELIMITERS = frozenset(':,{}[]"')
_JAVA_TRIM = "".join(chr(code) for code in range(0x21))

# Candidate types by the length of the text.
_TEMPORAL = {
    len("HH:mm:ss.SSSZ"): (logical.TIME_SCHEMA, DateFormat("HH:mm:ss.SSS'Z'")),
    len("yyyy-MM-ddTHH:mm:ss.SSSZ"): (
        logical.TIMESTAMP_SCHEMA,
        DateFormat("yyyy-MM-dd'T'HH:mm:ss.SSS'Z'"),
    ),
    len("yyyy-MM-dd"): (logical.DATE_SCHEMA, DateFormat("yyyy-MM-dd")),
}

_NARROWEST = (Type.INT8, 8), (Type.INT16, 16), (Type.INT32, 32), (Type.INT64, 64)
_WIDER = (Type.INT8, Type.INT16, Type.INT32, Type.INT64, Type.FLOAT32, Type.FLOAT64)
# Doubles have no more digits than this before the point, so longer numbers are not computed.
_DOUBLE_DIGITS = 400


def parse_text(text: str | None) -> SchemaAndValue:
    """Return the parsed value with its schema; both are None for None and for `null`."""
    if text is None:
        return _NULL
    if not text:
        return SchemaAndValue(REQUIRED[Type.STRING], text)
    return _ValueParser(text).parse(embedded=False) or _NULL


class _Tokens:
    """The tokens of a text, with one token of look-ahead and backtracking."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0
        self.previous: str | None = None
        self._next: str | None = None

    def mark(self) -> int:
        return self.position - len(self._next or "")

    def rewind(self, position: int) -> None:
        self.position = position
        self._next = self.previous = None

    def more(self) -> bool:
        return self._next is not None or self.position < len(self.text)

    def take(self) -> str:
        token, self._next = self._next, None
        self.previous = self._read() if token is None else token
        return self.previous

    def take_many(self, count: int) -> str | None:
        """Take the text of this many tokens. Return None, and take nothing, if there are fewer."""
        start = self.mark()
        for _ in range(count):
            if not self.more():
                self.rewind(start)
                return None
            self.take()
        return self.text[start : self.position]

    def consume(self, expected: str) -> bool:
        """Take the next token that is not blank if it is the expected one. Return whether it
        was.
        """
        if self._next is None:
            if not self.more():
                return False
            self._next = self._read()
        while not self._next.strip() and self.position < len(self.text):
            self._next = self._read()
        if self._next.strip(_JAVA_TRIM) != expected:
            return False
        self._next = None
        return True

    def _read(self) -> str:
        start = self.position
        escaped = False
        while self.position < len(self.text):
            char = self.text[self.position]
            if char == "\\":
                escaped = not escaped
            elif char in _DELIMITERS and not escaped:
                if start == self.position:
                    self.position += 1
                return self.text[start : self.position]
            else:
                escaped = False
            self.position += 1
        return self.text[start:]


class _ValueParser:
    """Parses one text. Inside lists and maps None stands for null."""

    def __init__(self, text: str) -> None:
        self._tokens = _Tokens(text)

    def parse(self, *, embedded: bool) -> SchemaAndValue | None:
        tokens = self._tokens
        if not tokens.more():
            return None
        if embedded and tokens.consume('"'):
            return self._quoted()
        if self._literal("null", embedded):
            return None
        for literal, value in (("true", True), ("false", False)):
            if self._literal(literal, embedded):
                return SchemaAndValue(REQUIRED[Type.BOOLEAN], value)
        start = tokens.mark()
        try:
            if tokens.consume("["):
                return self._array()
            if tokens.consume("{"):
                return self._map()
        except DataError:
            tokens.rewind(start)
        token = tokens.take()
        if not token.strip():
            return SchemaAndValue(REQUIRED[Type.STRING], token)
        return self._plain(token.strip(_JAVA_TRIM), embedded)

    def _literal(self, literal: str, embedded: bool) -> bool:
        start = self._tokens.mark()
        if self._tokens.consume(literal) and (embedded or not self._tokens.more()):
            return True
        self._tokens.rewind(start)
        return False

    def _plain(self, token: str, embedded: bool) -> SchemaAndValue:
        first = token[:1]
        if first.isdecimal():
            temporal = self._temporal_pieces(token)
            if temporal is not None:
                return temporal
        if first.isdecimal() or first in "+-":
            number = _number(token)
            if number is not None:
                return number
        if embedded:
            raise DataError("Failed to parse embedded value")
        return SchemaAndValue(REQUIRED[Type.STRING], self._tokens.text)

    def _temporal_pieces(self, token: str) -> SchemaAndValue | None:
        # The colons of a time split it into five tokens.
        start = self._tokens.mark()
        rest = self._tokens.take_many(4)
        if rest is not None:
            temporal = _temporal(token + rest)
            if temporal is not None:
                return temporal
        self._tokens.rewind(start)
        return _temporal(token)

    def _quoted(self) -> SchemaAndValue:
        content = ""
        while self._tokens.more():
            if self._tokens.consume('"'):
                break
            content += self._tokens.take()
        return _temporal(content) or SchemaAndValue(REQUIRED[Type.STRING], content)

    def _array(self) -> SchemaAndValue:
        tokens = self._tokens
        values: list[object] = []
        merged = _Merger()
        while tokens.more():
            if tokens.consume("]"):
                return _aligned_list(merged.schema, values)
            if tokens.consume(","):
                raise DataError(f"Unable to parse an empty array element: {tokens.text}")
            element = self.parse(embedded=True)
            merged.add(element)
            values.append(None if element is None else element.value)
            position = tokens.mark()
            if tokens.consume("]"):
                tokens.rewind(position)
            elif not tokens.consume(","):
                raise DataError("Array elements missing ',' delimiter")
        raise DataError(f"Array is missing terminating ']': {tokens.text}")

    def _map(self) -> SchemaAndValue:
        tokens = self._tokens
        values: dict[object, object] = {}
        keys_merged, values_merged = _Merger(), _Merger()
        while tokens.more():
            if tokens.consume("}"):
                return _aligned_map(keys_merged.schema, values_merged.schema, values)
            if tokens.consume(","):
                raise DataError(f"Unable to parse a map entry with no key or value: {tokens.text}")
            key = self.parse(embedded=True)
            if key is None or key.value is None:
                raise DataError(f"Map entry may not have a null key: {tokens.text}")
            if not tokens.consume(":"):
                raise DataError(f"Map entry is missing ':' at {tokens.position} in {tokens.text}")
            value = self.parse(embedded=True)
            values[_hashable(key.value)] = None if value is None else value.value
            tokens.consume(",")
            keys_merged.add(key)
            values_merged.add(value)
        raise DataError(f"Map is missing terminating '}}': {tokens.text}")


def _hashable(key: object) -> object:
    """Raise if a map key is a list or a map, so that the text stays a string. Java allows such
    keys.
    """
    if isinstance(key, list | dict):
        raise DataError("A list or a map cannot be the key of a map here")
    return key


def _aligned_list(element: Schema | None, values: list[object]) -> SchemaAndValue:
    from connect.data.values import convert

    schema = SchemaBuilder.array(element).build()
    if element is not None:
        values = [convert(element, None, value) for value in values]
    return SchemaAndValue(schema, values)


def _aligned_map(
    keys: Schema | None, values: Schema | None, entries: dict[object, object]
) -> SchemaAndValue:
    from connect.data.values import convert

    schema = SchemaBuilder.map(keys, values if keys is not None else None).build()
    if keys is None:
        return SchemaAndValue(schema, entries)
    return SchemaAndValue(
        schema,
        {
            convert(keys, None, key): value if values is None else convert(values, None, value)
            for key, value in entries.items()
        },
    )


def _temporal(token: str) -> SchemaAndValue | None:
    token = token.replace("\\:", ":")
    known = _TEMPORAL.get(len(token))
    if known is None:
        return None
    schema, pattern = known
    value = pattern.parse(token)
    return None if value is None else SchemaAndValue(schema, value)


def _number(token: str) -> SchemaAndValue | None:
    number = parse_decimal(token)
    if number is None:
        return None
    exponent = number.as_tuple().exponent
    assert isinstance(exponent, int)
    if number.adjusted() < _DOUBLE_DIGITS and number == number.to_integral_value():
        whole = int(number)
        for kind, bits in _NARROWEST:
            if -(1 << bits - 1) <= whole < 1 << (bits - 1):
                return SchemaAndValue(REQUIRED[kind], whole)
    if exponent != 0:
        as_float = Float32(float(number))
        if not math.isinf(as_float):
            return SchemaAndValue(REQUIRED[Type.FLOAT32], as_float)
        if not math.isinf(float(number)):
            return SchemaAndValue(REQUIRED[Type.FLOAT64], float(number))
    return SchemaAndValue(logical.decimal_schema(-exponent), number)


class _Merger:
    """Merges element schemas into one that all can be converted to, or None if there is none."""

    def __init__(self) -> None:
        self.schema: Schema | None = None
        self._compatible = True

    def add(self, latest: SchemaAndValue | None) -> None:
        if latest is None or latest.schema is None or not self._compatible:
            return
        if self.schema is None:
            self.schema = latest.schema
        else:
            self.schema = _merged(self.schema, latest.schema)
            self._compatible = self.schema is not None


def _merged(previous: Schema, latest: Schema) -> Schema | None:
    if previous.type is latest.type:
        return latest
    if previous.type in _WIDER and latest.type in _WIDER:
        wider = _WIDER.index(latest.type) > _WIDER.index(previous.type)
        return latest if wider else previous
    return None
