"""The base of the number converters: a big-endian number of fixed size."""

from __future__ import annotations

import struct
from typing import ClassVar

from connect.data.converters.base import Converter
from connect.data.java_numbers import Float32
from connect.data.schema import INTEGER_BITS, Schema, SchemaAndValue, Type, java_class
from connect.data.schema_builder import OPTIONAL
from connect.errors import CorruptData, DataError

__all__ = ["NumberConverter"]


class NumberConverter(Converter):
    """Converts numbers; null stays null. Subclasses define the type and its layout."""

    TYPE: ClassVar[Type]
    NAME: ClassVar[str]
    FORMAT: ClassVar[struct.Struct]

    def to_bytes(self, topic: str, value: object, schema: Schema | None = None) -> bytes | None:
        if value is None:
            return None
        if not self._takes(value, schema):
            raise DataError(f"Failed to serialize to {self.NAME} (was class {java_class(value)}): ")
        if isinstance(value, float):
            value = self._rounded(value)
        return self.FORMAT.pack(value)

    def from_bytes(self, topic: str, data: bytes | None) -> SchemaAndValue:
        schema = OPTIONAL[self.TYPE]
        if data is None:
            return SchemaAndValue(schema, None)
        if len(data) != self.FORMAT.size:
            raise CorruptData(f"Failed to deserialize {self.NAME}: ")
        return SchemaAndValue(schema, self.FORMAT.unpack(data)[0])

    def _takes(self, value: object, schema: Schema | None) -> bool:
        # A schema must have this type; a number without a schema is accepted if it fits.
        if schema is not None and schema.type is not self.TYPE:
            return False
        bits = INTEGER_BITS.get(self.TYPE)
        if bits is None:
            return isinstance(value, float)
        if isinstance(value, bool) or not isinstance(value, int):
            return False
        return -(1 << bits - 1) <= value < 1 << (bits - 1)

    def _rounded(self, value: float) -> float:
        return Float32(value) if self.TYPE is Type.FLOAT32 else value
