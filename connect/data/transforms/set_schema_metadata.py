"""SetSchemaMetadata: set the name or version of the key's or value's schema.

As in Kafka Connect 4.3.1, the schema must be a struct schema.
"""

from __future__ import annotations

from connect.config.definition import ConfigDef, ConfigKey, ConfigType, Importance, ParsedConfig
from connect.data.schema import Schema
from connect.data.struct import Struct
from connect.data.transforms.base import (
    REPLACE_NULL_WITH_DEFAULT,
    OnKey,
    OnPart,
    OnValue,
    R,
    replace_null_key,
)
from connect.errors import ConfigError, DataError

__all__ = ["SetSchemaMetadataKey", "SetSchemaMetadataValue"]


class _SetSchemaMetadata(OnPart):
    CONFIG_DEF = ConfigDef(
        [
            ConfigKey(
                "schema.name",
                ConfigType.STRING,
                None,
                importance=Importance.HIGH,
                doc="The schema's new name.",
            ),
            ConfigKey(
                "schema.version",
                ConfigType.INT,
                None,
                importance=Importance.HIGH,
                doc="The schema's new version.",
            ),
            replace_null_key(),
        ]
    )

    def take(self, config: ParsedConfig) -> None:
        self._name = config.optional_string("schema.name")
        self._version = config.optional_integer("schema.version")
        self._with_default = config.boolean(REPLACE_NULL_WITH_DEFAULT)
        if self._name is None and self._version is None:
            raise ConfigError("Neither schema name nor version configured")

    def apply(self, record: R) -> R | None:
        schema, value = self.part_schema(record), self.part(record)
        if schema is None:
            if value is None:
                return record
            raise DataError("Schema required for [updating schema metadata]")
        updated = Schema(
            schema.type,
            optional=schema.optional,
            default=schema.default,
            name=schema.name if self._name is None else self._name,
            version=schema.version if self._version is None else self._version,
            doc=schema.doc,
            parameters=schema.parameters,
            fields=[(field.name, field.schema) for field in schema.struct_fields()],
            key_schema=schema.key_schema,
            value_schema=schema.value_schema,
        )
        if not isinstance(value, Struct):
            return self.with_part(record, updated, value)
        struct = Struct(updated)
        for field in updated.fields:
            struct.put(field.name, value.value_of(field.name, with_default=self._with_default))
        return self.with_part(record, updated, struct)


class SetSchemaMetadataKey(OnKey, _SetSchemaMetadata):
    """SetSchemaMetadata for the record key (`SetSchemaMetadata$Key`)."""


class SetSchemaMetadataValue(OnValue, _SetSchemaMetadata):
    """SetSchemaMetadata for the record value (`SetSchemaMetadata$Value`)."""
