"""HeaderFrom: move or copy fields of the key or value to headers."""

from __future__ import annotations

from connect.config.definition import ConfigDef, ConfigKey, ConfigType, Importance, ParsedConfig
from connect.config.types import ConfigScalar
from connect.config.validators import OneOf
from connect.data.java_map import copied_order
from connect.data.record import Header
from connect.data.schema import Schema
from connect.data.schema_builder import SchemaBuilder, copy_basics
from connect.data.struct import Struct
from connect.data.transforms.base import (
    REPLACE_NULL_WITH_DEFAULT,
    OnKey,
    OnPart,
    OnValue,
    R,
    SchemaCache,
    replace_null_key,
    require_map,
    require_struct,
)
from connect.errors import ConfigError, DataError

__all__ = ["HeaderFromKey", "HeaderFromValue"]


class _NonEmptyList:
    """Validates that a list is not empty."""

    def check(self, key: str, value: ConfigScalar) -> ConfigScalar:
        if not value:
            raise ConfigError(f"Invalid value [] for configuration {key}: Empty list", key=key)
        return value

    def describe(self) -> str:
        return "non-empty list"


class _HeaderFrom(OnPart):
    CONFIG_DEF = ConfigDef(
        [
            ConfigKey(
                "fields",
                ConfigType.LIST,
                validator=_NonEmptyList(),
                importance=Importance.HIGH,
                doc="Fields to move or copy.",
            ),
            ConfigKey(
                "headers",
                ConfigType.LIST,
                validator=_NonEmptyList(),
                importance=Importance.HIGH,
                doc="Header names, in the order of `fields`.",
            ),
            ConfigKey(
                "operation",
                ConfigType.STRING,
                validator=OneOf(("move", "copy")),
                importance=Importance.HIGH,
                doc="`move` removes the fields from the record; `copy` keeps them.",
            ),
            replace_null_key(),
        ]
    )

    def take(self, config: ParsedConfig) -> None:
        fields, headers = config.strings("fields"), config.strings("headers")
        if len(fields) != len(headers):
            raise ConfigError(
                "'fields' config must have the same number of elements as 'headers' config.",
                key="headers",
                value=",".join(headers),
            )
        self._headers = list(zip(fields, headers, strict=True))
        self._fields = frozenset(fields)
        self._move = config.string("operation") == "move"
        self._purpose = f"header {config.string('operation')}"
        self._with_default = config.boolean(REPLACE_NULL_WITH_DEFAULT)
        self._schemas = SchemaCache(self._without_moved)

    def apply(self, record: R) -> R | None:
        schema, value = self.part_schema(record), self.part(record)
        if schema is None:
            return self._schemaless(record, require_map(value, self._purpose))
        return self._with_schema(record, schema, require_struct(value, self._purpose))

    def _schemaless(self, record: R, value: dict[str, object]) -> R:
        headers = [Header(header, value.get(field)) for field, header in self._headers]
        kept = {
            name: field
            for name, field in value.items()
            if not (self._move and name in self._fields)
        }
        updated = self.with_part(record, None, copied_order(len(value), kept))
        return updated.with_headers([*record.headers, *headers])

    def _with_schema(self, record: R, schema: Schema, value: Struct) -> R:
        headers = [self._header(field, header, schema, value) for field, header in self._headers]
        updated = record
        if self._move:
            struct = Struct(self._schemas.get(schema))
            for field in struct.schema.fields:
                struct.put(field.name, value.value_of(field.name, with_default=self._with_default))
            updated = self.with_part(record, struct.schema, struct)
        return updated.with_headers([*record.headers, *headers])

    def _header(self, name: str, header: str, schema: Schema, value: Struct) -> Header:
        field = schema.field(name)
        if field is None:
            raise DataError(f"Unknown field: {name}")
        found = None
        if value.schema.field(name) is not None:
            found = value.value_of(name, with_default=self._with_default)
        if found is None and not field.schema.optional:
            raise DataError(f"A null value requires an optional schema but was {field.schema}")
        return Header(header, found, field.schema)

    def _without_moved(self, schema: Schema) -> Schema:
        builder = copy_basics(schema, SchemaBuilder.struct())
        for field in schema.fields:
            if field.name not in self._fields:
                builder.field(field.name, field.schema)
        return builder.build()


class HeaderFromKey(OnKey, _HeaderFrom):
    """HeaderFrom for the record key (`HeaderFrom$Key`)."""


class HeaderFromValue(OnValue, _HeaderFrom):
    """HeaderFrom for the record value (`HeaderFrom$Value`)."""
