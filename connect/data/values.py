"""Conversions between Connect's types, and their text form, as in Java's `Values`.

Parsed text gets a schema that fits it; see `connect.data.values_parser`. Pure functions.
"""

from __future__ import annotations

import base64
import datetime
import decimal
from collections.abc import Iterable

from connect.data import logical
from connect.data.java_dates import DateFormat
from connect.data.java_numbers import (
    Float32,
    double_text,
    float_text,
    integer_of,
    narrow,
    parse_decimal,
)
from connect.data.schema import (
    INTEGER_BITS,
    Schema,
    SchemaAndValue,
    Type,
    java_class,
    type_of,
)
from connect.data.schema_builder import REQUIRED, SchemaBuilder
from connect.data.struct import Struct
from connect.errors import DataError

__all__ = ["as_double", "as_long", "convert", "date_text", "infer_schema", "parse", "text_of"]

_TIME_FORMAT = DateFormat("HH:mm:ss.SSS'Z'")
_DATE_FORMAT = DateFormat("yyyy-MM-dd")
_TIMESTAMP_FORMAT = DateFormat("yyyy-MM-dd'T'HH:mm:ss.SSS'Z'")


def parse(text: str | None) -> SchemaAndValue:
    """Parse a text. Return the value with its schema; both are None for `null`."""
    from connect.data.values_parser import parse_text

    return parse_text(text)


def text_of(schema: Schema | None, value: object) -> str | None:
    """Return the text of a value, or None for null."""
    if value is None:
        return None
    parts: list[str] = []
    _write(parts, schema, value, embedded=False)
    return "".join(parts)


def _write(out: list[str], schema: Schema | None, value: object, *, embedded: bool) -> None:
    if value is None:
        out.append("null")
    elif isinstance(value, str):
        out.append(_quoted(value) if embedded else value)
    elif isinstance(value, bytes | bytearray | memoryview):
        text = base64.b64encode(value).decode()
        out.append(f'"{text}"' if embedded else text)
    elif isinstance(value, list | tuple):
        of_elements = None if schema is None else schema.value_schema
        _write_list(out, of_elements, value)
    elif isinstance(value, dict):
        _write_map(out, schema, value)
    elif isinstance(value, Struct):
        _write_struct(out, value)
    elif isinstance(value, datetime.datetime):
        out.append(date_text(value))
    else:
        out.append(plain_text(schema, value))


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def plain_text(schema: Schema | None, value: object) -> str:
    """Return Java's `toString()` of a number, boolean or string."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        is_float = isinstance(value, Float32) or (schema and schema.type is Type.FLOAT32)
        return float_text(value) if is_float else double_text(value)
    if isinstance(value, str | int | decimal.Decimal):
        return str(value)
    raise DataError(f"Failed to serialize unexpected value type {java_class(value)}: {value}")


def _write_list(out: list[str], schema: Schema | None, values: Iterable[object]) -> None:
    separator = "["
    for value in values:
        out.append(separator)
        _write(out, schema, value, embedded=True)
        separator = ","
    out.append("]" if separator == "," else "[]")


def _write_map(out: list[str], schema: Schema | None, values: dict[object, object]) -> None:
    separator = "{"
    for key, value in values.items():
        out.append(separator)
        _write(out, schema and schema.key_schema, key, embedded=True)
        out.append(":")
        _write(out, schema and schema.value_schema, value, embedded=True)
        separator = ","
    out.append("}" if values else "{}")


def _write_struct(out: list[str], struct: Struct) -> None:
    separator = "{"
    for field in struct.schema.fields:
        out.append(f"{separator}{_quoted(field.name)}:")
        _write(out, field.schema, struct.get(field.name), embedded=True)
        separator = ","
    out.append("}" if struct.schema.fields else "{}")


def date_text(value: datetime.datetime) -> str:
    """Return the text of an instant: a time within the first day of 1970, a date at midnight."""
    ms = logical.to_ms(value)
    if ms < logical.MS_PER_DAY:
        return _TIME_FORMAT.format(value)
    if ms % logical.MS_PER_DAY == 0:
        return _DATE_FORMAT.format(value)
    return _TIMESTAMP_FORMAT.format(value)


def infer_schema(value: object) -> Schema | None:
    """Return the inferred schema of a value, or None if its elements differ or it is empty."""
    if isinstance(value, Struct):
        return value.schema
    if isinstance(value, list | tuple):
        detected = _common(value)
        return None if detected is None else SchemaBuilder.array(detected).build()
    if isinstance(value, dict):
        keys, values = _common(value), _common(value.values())
        return None if keys is None or values is None else SchemaBuilder.map(keys, values).build()
    kind = type_of(value)
    return None if kind is None else REQUIRED[kind]


def _common(values: Iterable[object]) -> Schema | None:
    known: Type | None = None
    optional = False
    for value in values:
        if value is None:
            optional = True
            continue
        schema = infer_schema(value)
        if schema is None or (known is not None and known is not schema.type):
            return None
        known = schema.type
    return None if known is None else Schema(known, optional=optional)


def as_long(value: object, schema: Schema | None = None) -> int:
    """Return a number, or a text or logical value, as a 64-bit integer. Raises `DataError`."""
    if isinstance(value, int | float | decimal.Decimal) and not isinstance(value, bool):
        return integer_of(value, 64)
    if isinstance(value, str):
        number = parse_decimal(value)
        if number is not None:
            return integer_of(number, 64)
    if schema is None:
        raise DataError(f"Unable to convert {value} (class {java_class(value)}) to a number")
    if isinstance(value, datetime.datetime):
        encoded = encode_date(schema, value)
        if encoded is not None:
            return encoded
    raise DataError(f"Unable to convert {value} (class {java_class(value)}) to {schema}")


def encode_date(schema: Schema, value: datetime.datetime) -> int | None:
    """Return the number of a `Date`, `Time` or `Timestamp`, or None for other schemas."""
    if schema.name == logical.DATE:
        return logical.days_of_date(value)
    if schema.name == logical.TIME:
        return logical.ms_of_time(value)
    if schema.name == logical.TIMESTAMP:
        return logical.to_ms(value)
    return None


def as_double(value: object, schema: Schema | None = None) -> float:
    """Return a number, or a text or logical value, as a double. Raises `DataError`."""
    if isinstance(value, int | float | decimal.Decimal) and not isinstance(value, bool):
        return float(value)
    if isinstance(value, str):
        number = parse_decimal(value)
        if number is not None:
            return float(number)
    return float(as_long(value, schema))


def convert(target: Schema, source: Schema | None, value: object) -> object:
    """Convert a value to schema `target`. `source` is its own schema, if known. Raises
    `DataError`.
    """
    if value is None:
        if target.optional:
            return None
        raise DataError("Unable to convert a null value to a schema that requires a value")
    if target.name in _DATES:
        return _to_date(target, source, value)
    kind = target.type
    bits = INTEGER_BITS.get(kind)
    if bits is not None:
        return narrow(as_long(value, source), bits)
    if kind is Type.STRING:
        return text_of(source, value)
    if kind is Type.BOOLEAN:
        return _to_boolean(source, value)
    if kind is Type.FLOAT32:
        return value if isinstance(value, Float32) else Float32(as_double(value, source))
    if kind is Type.FLOAT64:
        return as_double(value, source)
    if kind is Type.BYTES:
        return _to_bytes(target, value)
    return _to_structure(target, value)


_DATES = (logical.DATE, logical.TIME, logical.TIMESTAMP)


def _to_boolean(source: Schema | None, value: object) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str):
        parsed = parse(value).value
        if isinstance(parsed, bool):
            return parsed
    return as_long(value, source) != 0


def _to_bytes(target: Schema, value: object) -> object:
    is_decimal = target.name == logical.DECIMAL
    if isinstance(value, bytes | bytearray | memoryview):
        data = bytes(value)
        return logical.decimal_from_bytes(target, data) if is_decimal else data
    if isinstance(value, decimal.Decimal):
        return value if is_decimal else logical.decimal_bytes(target, value)
    if is_decimal and isinstance(value, int | float) and not isinstance(value, bool):
        return decimal.Decimal(double_text(float(value)))
    if is_decimal and isinstance(value, str):
        number = parse_decimal(value)
        if number is not None:
            return number
    raise DataError(f"Unable to convert {value} (class {java_class(value)}) to {target}")


def _to_date(target: Schema, source: Schema | None, value: object) -> datetime.datetime:
    if isinstance(value, str):
        value = parse(value).value
    if isinstance(value, datetime.datetime):
        if source is None or source.name == target.name:
            return value
        moved = _between_dates(target, source, value)
        if moved is not None:
            return moved
    number = as_long(value, source)
    if target.name == logical.DATE:
        return logical.date_from_days(narrow(number, 32))
    if target.name == logical.TIME:
        return logical.time_from_ms(narrow(number, 32))
    return logical.from_ms(number)


def _between_dates(
    target: Schema, source: Schema, value: datetime.datetime
) -> datetime.datetime | None:
    if target.name == logical.TIMESTAMP:
        if source.name == logical.DATE:
            return logical.date_from_days(logical.days_of_date(value))
        if source.name == logical.TIME:
            return logical.from_ms(logical.ms_of_time(value))
    elif source.name == logical.TIMESTAMP:
        ms = logical.to_ms(value)
        if target.name == logical.TIME:
            return logical.time_from_ms(ms % logical.MS_PER_DAY)
        # Java truncates towards zero here.
        days = ms // logical.MS_PER_DAY
        return logical.date_from_days(days + 1 if ms < 0 and ms % logical.MS_PER_DAY else days)
    return None


def _to_structure(target: Schema, value: object) -> object:
    if isinstance(value, str) and target.type is not Type.STRUCT:
        value = parse(value).value
    classes = {Type.ARRAY: (list, tuple), Type.MAP: (dict,), Type.STRUCT: (Struct,)}[target.type]
    if isinstance(value, classes):
        return value
    raise DataError(f"Unable to convert {value} (class {java_class(value)}) to {target}")
