"""ValueToKey: make the key from fields of the value."""

from __future__ import annotations

from connect.config.definition import ConfigDef, ConfigKey, ConfigType, Importance, ParsedConfig
from connect.config.validators import ValidList
from connect.data.java_map import hash_order
from connect.data.schema import Schema
from connect.data.schema_builder import SchemaBuilder
from connect.data.struct import Struct
from connect.data.transforms.base import (
    REPLACE_NULL_WITH_DEFAULT,
    R,
    SchemaCache,
    Transformation,
    replace_null_key,
    require_map,
    require_struct,
)
from connect.errors import DataError

__all__ = ["ValueToKey"]

_PURPOSE = "copying fields from value to key"


class ValueToKey(Transformation):
    """Replaces the record key by fields of the value."""

    CONFIG_DEF = ConfigDef(
        [
            ConfigKey(
                "fields",
                ConfigType.LIST,
                validator=ValidList(allow_empty=False),
                importance=Importance.HIGH,
                doc="Fields of the value to use as the key.",
            ),
            replace_null_key(),
        ]
    )

    def take(self, config: ParsedConfig) -> None:
        self._fields = config.strings("fields")
        self._with_default = config.boolean(REPLACE_NULL_WITH_DEFAULT)
        self._schemas = SchemaCache(self._key_schema)

    def apply(self, record: R) -> R | None:
        if record.value_schema is None:
            value = require_map(record.value, _PURPOSE)
            fields = {name: value.get(name) for name in self._fields}
            return record.with_key(None, hash_order(fields, len(self._fields)))
        struct = require_struct(record.value, _PURPOSE)
        key = Struct(self._schemas.get(struct.schema))
        for name in self._fields:
            key.put(name, struct.value_of(name, with_default=self._with_default))
        return record.with_key(key.schema, key)

    def _key_schema(self, schema: Schema) -> Schema:
        builder = SchemaBuilder.struct()
        for name in self._fields:
            field = schema.field(name)
            if field is None:
                raise DataError(f"Field does not exist: {name}")
            builder.field(name, field.schema)
        return builder.build()
