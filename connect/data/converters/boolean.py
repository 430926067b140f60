"""BooleanConverter: booleans as one byte, 0 or 1."""

from __future__ import annotations

from connect.data.converters.base import Converter
from connect.data.schema import Schema, SchemaAndValue, Type, java_class
from connect.data.schema_builder import OPTIONAL
from connect.errors import CorruptData, DataError

__all__ = ["BooleanConverter"]

_SCHEMA = OPTIONAL[Type.BOOLEAN]


class BooleanConverter(Converter):
    """Converts booleans; null stays null."""

    def to_bytes(self, topic: str, value: object, schema: Schema | None = None) -> bytes | None:
        if schema is not None and schema.type is not Type.BOOLEAN:
            raise DataError(f"Invalid schema type for BooleanConverter: {schema.type}")
        if value is None:
            return None
        if not isinstance(value, bool):
            raise DataError(
                f"BooleanConverter is not compatible with objects of type class {java_class(value)}"
            )
        return b"\x01" if value else b"\x00"

    def from_bytes(self, topic: str, data: bytes | None) -> SchemaAndValue:
        if data is None:
            return SchemaAndValue(_SCHEMA, None)
        if data not in (b"\x00", b"\x01"):
            raise CorruptData("Failed to deserialize boolean: ")
        return SchemaAndValue(_SCHEMA, data == b"\x01")
