"""Convert Connect values to JSON payloads and back like Kafka's JsonConverter.

JSON values are those that `json_codec` writes. When reading, numbers with a point or an exponent
are `decimal.Decimal`. Pure functions; error texts are Java's.
"""

from __future__ import annotations

import base64
import binascii
import datetime
import decimal
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from connect.data import logical
from connect.data.java_numbers import Float32, integer_of
from connect.data.json_codec import JsonValue
from connect.data.schema import INTEGER_BITS, Schema, Type, java_class, type_of
from connect.data.struct import Struct
from connect.errors import DataError

__all__ = ["JsonOptions", "from_json", "to_json"]


@dataclass(frozen=True, slots=True)
class JsonOptions:
    """Options of JsonConverter.

    `decimals_as_numbers` writes decimals as numbers, not as base64 of the unscaled value.
    `replace_nulls` replaces null by the schema's default, if it has one.
    """

    decimals_as_numbers: bool = False
    replace_nulls: bool = True


_PLAIN = frozenset({str, bool, int, float})
"""Types whose values without a schema are their own payload."""


def to_json(schema: Schema | None, value: object, options: JsonOptions) -> JsonValue:
    """Return the JSON payload of a value. Raises `DataError` if it does not match its schema."""
    if schema is None and type(value) in _PLAIN:
        return value  # type: ignore[return-value]
    if value is None:
        if schema is None:
            return None
        if schema.default is not None and options.replace_nulls:
            return to_json(schema, schema.default, options)
        if schema.optional:
            return None
        raise DataError(
            "Conversion error: null value for field that is required and has no default value"
        )
    if schema is not None and type(value) is schema.plain_class:
        return value  # type: ignore[return-value]
    if schema is not None and schema.name in _LOGICAL_TO_JSON:
        return _LOGICAL_TO_JSON[schema.name](schema, value, options)
    kind = type_of(value) if schema is None else schema.type
    if kind is None:
        raise DataError(
            f"Java class class {java_class(value)} does not have corresponding schema type."
        )
    if kind is Type.ARRAY and isinstance(value, list | tuple):
        of_elements = None if schema is None else schema.value_schema
        return [to_json(of_elements, element, options) for element in value]
    if kind is Type.MAP and isinstance(value, dict):
        return _map_to_json(schema, value, options)
    if kind is Type.STRUCT and isinstance(value, Struct):
        return _struct_to_json(schema, value, options)
    return _plain_to_json(kind, schema, value)


def _plain_to_json(kind: Type, schema: Schema | None, value: object) -> JsonValue:
    if kind is Type.BYTES and isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    if kind is Type.BOOLEAN or isinstance(value, bool):
        fits = kind is Type.BOOLEAN and isinstance(value, bool)
    elif kind in INTEGER_BITS:
        fits = isinstance(value, int)
    elif kind is Type.STRING:
        fits = isinstance(value, str)
    else:
        fits = isinstance(value, float)
    if fits:
        assert isinstance(value, str | int | float)
        if kind is Type.FLOAT32 and isinstance(value, float):
            return Float32(value)
        return value
    if kind is Type.BYTES:
        raise DataError(f"Invalid type for bytes type: class {java_class(value)}")
    wanted = "unknown schema" if schema is None else str(schema.type)
    raise DataError(f"Invalid type for {wanted}: class {java_class(value)}")


def _map_to_json(
    schema: Schema | None, value: dict[object, object], options: JsonOptions
) -> JsonValue:
    of_keys = None if schema is None else schema.key_schema
    of_values = None if schema is None else schema.value_schema
    if schema is None:
        as_object = all(isinstance(key, str) for key in value)
    else:
        as_object = of_keys is not None and of_keys.type is Type.STRING
    if not as_object:
        return [
            [to_json(of_keys, key, options), to_json(of_values, member, options)]
            for key, member in value.items()
        ]
    return {
        _name(to_json(of_keys, key, options)): to_json(of_values, member, options)
        for key, member in value.items()
    }


def _name(key: JsonValue) -> str:
    return key if isinstance(key, str) else "null"


def _struct_to_json(schema: Schema | None, value: Struct, options: JsonOptions) -> JsonValue:
    if value.schema is not schema and value.schema != schema:
        raise DataError("Mismatching schema.")
    return {
        field.name: member  # type: ignore[misc]
        if type(member) is field.schema.plain_class
        else to_json(field.schema, member, options)
        for field, member in value.items()
    }


def _decimal_to_json(schema: Schema, value: object, options: JsonOptions) -> JsonValue:
    if not isinstance(value, decimal.Decimal):
        raise DataError(
            f"Invalid type for Decimal, expected BigDecimal but was class {java_class(value)}"
        )
    return value if options.decimals_as_numbers else logical.decimal_bytes(schema, value)


def _dates_to_json(
    name: str, number_of: Callable[[datetime.datetime], int]
) -> Callable[[Schema, object, JsonOptions], JsonValue]:
    def to_number(schema: Schema, value: object, options: JsonOptions) -> JsonValue:
        if not isinstance(value, datetime.datetime):
            raise DataError(
                f"Invalid type for {name}, expected Date but was class {java_class(value)}"
            )
        return number_of(value)

    return to_number


_LOGICAL_TO_JSON: Mapping[str | None, Callable[[Schema, object, JsonOptions], JsonValue]] = {
    logical.DECIMAL: _decimal_to_json,
    logical.DATE: _dates_to_json("Date", logical.days_of_date),
    logical.TIME: _dates_to_json("Time", logical.ms_of_time),
    logical.TIMESTAMP: _dates_to_json("Timestamp", logical.to_ms),
}


def from_json(schema: Schema | None, value: JsonValue, options: JsonOptions) -> object:
    """Return the value of a JSON payload. Raises `DataError`.

    A scalar of another type than the schema's becomes zero, false or null, as in Java.
    """
    if schema is None:
        return _schemaless(value, options)
    if value is None:
        if schema.default is not None and options.replace_nulls:
            return schema.default
        if schema.optional:
            return None
        raise DataError(f"Invalid null value for required {schema.type} field")
    if schema.name in _LOGICAL_FROM_JSON:
        return _LOGICAL_FROM_JSON[schema.name](schema, value)
    kind = schema.type
    if kind is Type.ARRAY:
        return _list_from_json(schema, value, options)
    if kind is Type.MAP:
        return _map_from_json(schema, value, options)
    if kind is Type.STRUCT:
        return _struct_from_json(schema, value, options)
    return _plain_from_json(kind, value)


def _schemaless(value: JsonValue, options: JsonOptions) -> object:
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        return {name: _schemaless(member, options) for name, member in value.items()}
    if isinstance(value, list):
        return [_schemaless(element, options) for element in value]
    if isinstance(value, decimal.Decimal):
        return float(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return integer_of(value, 64)
    return value


def _plain_from_json(kind: Type, value: JsonValue) -> object:
    if kind is Type.STRING:
        return value if isinstance(value, str) else None
    if kind is Type.BOOLEAN:
        return value is True
    if kind is Type.BYTES:
        return _base64(value, "Invalid bytes field") if isinstance(value, str) else None
    number = 0
    if isinstance(value, int | decimal.Decimal) and not isinstance(value, bool):
        bits = INTEGER_BITS.get(kind)
        if bits is None:
            return Float32(float(value)) if kind is Type.FLOAT32 else float(value)
        number = integer_of(value, bits)
    return float(number) if kind in (Type.FLOAT32, Type.FLOAT64) else number


def _base64(text: str, complaint: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise DataError(complaint) from error


def _list_from_json(schema: Schema, value: JsonValue, options: JsonOptions) -> object:
    # Java iterates over the children of any JSON node; scalars have none.
    members = list(value.values()) if isinstance(value, dict) else value
    if not isinstance(members, list):
        return []
    return [from_json(schema.value_schema, element, options) for element in members]


def _map_from_json(schema: Schema, value: JsonValue, options: JsonOptions) -> object:
    if schema.key_schema is not None and schema.key_schema.type is Type.STRING:
        if not isinstance(value, dict):
            raise DataError(
                "Maps with string fields should be encoded as JSON objects, but found"
                f" {node_type(value)}"
            )
        return {
            name: from_json(schema.value_schema, member, options) for name, member in value.items()
        }
    if not isinstance(value, list):
        raise DataError(
            "Maps with non-string fields should be encoded as JSON array of tuples, but found"
            f" {node_type(value)}"
        )
    entries: dict[object, object] = {}
    for entry in value:
        if not isinstance(entry, list):
            raise DataError(f"Found invalid map entry instead of array tuple: {node_type(entry)}")
        if len(entry) != 2:
            raise DataError(f"Found invalid map entry, expected length 2 but found :{len(entry)}")
        key = from_json(schema.key_schema, entry[0], options)
        try:
            entries[key] = from_json(schema.value_schema, entry[1], options)
        except TypeError as error:
            raise DataError(f"A {type(key).__name__} cannot be the key of a map here") from error
    return entries


def _struct_from_json(schema: Schema, value: JsonValue, options: JsonOptions) -> object:
    if not isinstance(value, dict):
        raise DataError(f"Structs should be encoded as JSON objects, but found {node_type(value)}")
    struct = Struct(schema)
    for field in schema.fields:
        struct.put(field.name, from_json(field.schema, value.get(field.name), options))
    return struct


def _decimal_from_json(schema: Schema, value: JsonValue) -> object:
    if isinstance(value, int | decimal.Decimal) and not isinstance(value, bool):
        return decimal.Decimal(value)
    if isinstance(value, str):
        try:
            return logical.decimal_from_bytes(schema, base64.b64decode(value, validate=True))
        except (ValueError, DataError) as error:
            raise DataError("Invalid bytes for Decimal field") from error
    raise DataError(
        "Invalid type for Decimal, underlying representation should be numeric or bytes but was"
        f" {node_type(value)}"
    )


def _date_from_json(
    name: str, bits: int, kind: str, of_number: Callable[[int], datetime.datetime]
) -> Callable[[Schema, JsonValue], object]:
    def from_number(schema: Schema, value: JsonValue) -> object:
        is_whole = isinstance(value, int) and not isinstance(value, bool)
        if not is_whole or (bits == 32 and integer_of(value, 32) != value):  # type: ignore[arg-type]
            raise DataError(
                f"Invalid type for {name}, underlying representation should be {kind} but was"
                f" {node_type(value)}"
            )
        assert isinstance(value, int)
        return of_number(integer_of(value, bits))

    return from_number


_LOGICAL_FROM_JSON: Mapping[str | None, Callable[[Schema, JsonValue], object]] = {
    logical.DECIMAL: _decimal_from_json,
    logical.DATE: _date_from_json("Date", 32, "integer", logical.date_from_days),
    logical.TIME: _date_from_json("Time", 32, "integer", logical.time_from_ms),
    logical.TIMESTAMP: _date_from_json("Timestamp", 64, "integral", logical.from_ms),
}


def node_type(value: JsonValue) -> str:
    """Return Jackson's name for the type of a JSON value."""
    if isinstance(value, bool):
        return "BOOLEAN"
    if isinstance(value, int | decimal.Decimal):
        return "NUMBER"
    if isinstance(value, str):
        return "STRING"
    if isinstance(value, list):
        return "ARRAY"
    return "NULL" if value is None else "OBJECT"
