"""HoistField: wrap the key or value as the only field of a struct or map."""

from __future__ import annotations

from connect.config.definition import ConfigDef, ConfigKey, ConfigType, ParsedConfig
from connect.data.schema import Schema
from connect.data.schema_builder import SchemaBuilder
from connect.data.struct import Struct
from connect.data.transforms.base import OnKey, OnPart, OnValue, R, SchemaCache

__all__ = ["HoistFieldKey", "HoistFieldValue"]


class _HoistField(OnPart):
    CONFIG_DEF = ConfigDef([ConfigKey("field", ConfigType.STRING, doc="Name of the new field.")])

    def take(self, config: ParsedConfig) -> None:
        self._field = config.string("field")
        self._schemas = SchemaCache(self._wrapping)

    def apply(self, record: R) -> R | None:
        schema, value = self.part_schema(record), self.part(record)
        if schema is None:
            return self.with_part(record, None, {self._field: value})
        wrapping = self._schemas.get(schema)
        return self.with_part(record, wrapping, Struct(wrapping).put(self._field, value))

    def _wrapping(self, schema: Schema) -> Schema:
        return SchemaBuilder.struct().field(self._field, schema).build()


class HoistFieldKey(OnKey, _HoistField):
    """HoistField for the record key (`HoistField$Key`)."""


class HoistFieldValue(OnValue, _HoistField):
    """HoistField for the record value (`HoistField$Value`)."""
