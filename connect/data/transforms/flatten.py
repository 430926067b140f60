"""Flatten: replace nested structs or maps by flat ones with joined field names."""

from __future__ import annotations

import decimal
from datetime import datetime

from connect.config.definition import ConfigDef, ConfigKey, ConfigType, ParsedConfig
from connect.data.schema import Schema, Type, java_class
from connect.data.schema_builder import SchemaBuilder, copy_basics
from connect.data.struct import Struct
from connect.data.transforms.base import (
    OnKey,
    OnPart,
    OnValue,
    R,
    SchemaCache,
    require_map,
    require_struct,
)
from connect.errors import DataError

__all__ = ["FlattenKey", "FlattenValue"]

_PURPOSE = "flattening"


class _Flatten(OnPart):
    CONFIG_DEF = ConfigDef(
        [
            ConfigKey(
                "delimiter",
                ConfigType.STRING,
                ".",
                doc="Delimiter between the names of outer and inner fields.",
            )
        ]
    )

    def take(self, config: ParsedConfig) -> None:
        self._delimiter = config.string("delimiter")
        self._schemas = SchemaCache(self._flat_schema)

    def apply(self, record: R) -> R | None:
        value, schema = self.part(record), self.part_schema(record)
        if value is None:
            return record
        if schema is None:
            flat: dict[str, object] = {}
            self._flatten_map(require_map(value, _PURPOSE), "", flat)
            return self.with_part(record, None, flat)
        struct = require_struct(value, _PURPOSE)
        updated = Struct(self._schemas.get(schema))
        self._flatten_struct(struct, "", updated)
        return self.with_part(record, updated.schema, updated)

    def _flatten_map(self, value: dict[str, object], prefix: str, flat: dict[str, object]) -> None:
        for key, member in value.items():
            name = self._joined(prefix, key)
            if isinstance(member, dict):
                self._flatten_map(member, name, flat)
            elif isinstance(member, decimal.Decimal | datetime):
                raise DataError(
                    f"Flatten transformation was passed a value of type class {java_class(member)}"
                    " which is not supported by Connect's data API"
                )
            elif isinstance(member, Struct):
                raise DataError(
                    f"Flatten transformation does not support class {java_class(member)} for record"
                    f" without schemas (for field {name})."
                )
            else:
                flat[name] = member

    def _flatten_struct(self, value: Struct, prefix: str, flat: Struct) -> None:
        for field, given in value.items():
            name = self._joined(prefix, field.name)
            if field.schema.type is not Type.STRUCT:
                flat.put(name, value.get(field.name))
            elif isinstance(given, Struct):
                self._flatten_struct(given, name, flat)

    def _flat_schema(self, schema: Schema) -> Schema:
        builder = copy_basics(schema, SchemaBuilder.struct())
        self._add_fields(builder, schema, "", schema.optional, schema.default)
        return builder.build()

    def _add_fields(
        self, builder: SchemaBuilder, schema: Schema, prefix: str, optional: bool, default: object
    ) -> None:
        for field in schema.struct_fields():
            name = self._joined(prefix, field.name)
            may_be_null = optional or field.schema.optional
            value = field.schema.default
            if value is None and isinstance(default, Struct):
                value = default.get(field.name)
            if field.schema.type is Type.STRUCT:
                self._add_fields(builder, field.schema, name, may_be_null, value)
            elif field.schema.type is Type.MAP:
                raise DataError(
                    "Flatten transformation does not support MAP for record with schemas (for field"
                    f" {name})."
                )
            else:
                builder.field(name, _field_schema(field.schema, may_be_null, value))

    def _joined(self, prefix: str, name: str) -> str:
        return f"{prefix}{self._delimiter}{name}" if prefix else name


def _field_schema(schema: Schema, optional: bool, default: object) -> Schema:
    builder = copy_basics(schema)
    if optional:
        builder.optional()
    if default is not None:
        builder.default(default)
    return builder.build()


class FlattenKey(OnKey, _Flatten):
    """Flatten for the record key (`Flatten$Key`)."""


class FlattenValue(OnValue, _Flatten):
    """Flatten for the record value (`Flatten$Value`)."""
