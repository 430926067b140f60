"""ByteArrayConverter: bytes, unchanged. Mirroring uses it."""

from __future__ import annotations

from connect.data.converters.base import Converter
from connect.data.schema import Schema, SchemaAndValue, Type
from connect.data.schema_builder import OPTIONAL
from connect.errors import DataError

__all__ = ["ByteArrayConverter"]

_SCHEMA = OPTIONAL[Type.BYTES]


class ByteArrayConverter(Converter):
    """Passes bytes and null unchanged, for keys, values and headers. Refuses other types."""

    def to_bytes(self, topic: str, value: object, schema: Schema | None = None) -> bytes | None:
        if schema is not None and schema.type is not Type.BYTES:
            raise DataError(f"Invalid schema type for ByteArrayConverter: {schema.type}")
        if value is None or isinstance(value, bytes):
            return value
        if isinstance(value, bytearray | memoryview):
            return bytes(value)
        raise DataError(
            f"ByteArrayConverter needs bytes, but a record for topic {topic} has a"
            f" {type(value).__name__}; set a converter that matches the connector's data"
        )

    def from_bytes(self, topic: str, data: bytes | None) -> SchemaAndValue:
        return SchemaAndValue(_SCHEMA, data)
