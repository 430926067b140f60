"""ReplaceField: remove or rename fields."""

from __future__ import annotations

from connect.config.definition import ConfigDef, ConfigKey, ConfigType, ParsedConfig
from connect.config.types import ConfigScalar
from connect.config.validators import ValidList
from connect.data.java_map import hash_order
from connect.data.schema import Schema
from connect.data.schema_builder import SchemaBuilder, copy_basics
from connect.data.struct import Struct
from connect.data.transforms.base import (
    REPLACE_NULL_WITH_DEFAULT,
    OnFields,
    OnKey,
    OnValue,
    R,
    SchemaCache,
    replace_null_key,
)
from connect.errors import ConfigError

__all__ = ["ReplaceFieldKey", "ReplaceFieldValue"]


class _Renames:
    """Validates `old:new` pairs of names."""

    def check(self, key: str, value: ConfigScalar) -> ConfigScalar:
        assert isinstance(value, tuple)
        _parse_renames(value)
        return value

    def describe(self) -> str:
        return "list of colon-delimited pairs, e.g. foo:bar,abc:xyz"


def _parse_renames(mappings: tuple[str, ...]) -> dict[str, str]:
    renames = {}
    for mapping in mappings:
        parts = mapping.split(":")
        while parts and not parts[-1]:
            parts.pop()
        if len(parts) != 2:
            raise ConfigError(
                f"Invalid value [{', '.join(mappings)}] for configuration renames: Invalid rename"
                f" mapping: {mapping}",
                key="renames",
                value=mapping,
            )
        renames[parts[0]] = parts[1]
    return renames


class _ReplaceField(OnFields):
    PURPOSE = "field replacement"
    CONFIG_DEF = ConfigDef(
        [
            ConfigKey(
                "exclude",
                ConfigType.LIST,
                (),
                ValidList(),
                doc="Fields to remove, even if `include` contains them.",
            ),
            ConfigKey(
                "include",
                ConfigType.LIST,
                (),
                ValidList(),
                doc="Fields to keep; empty keeps all.",
            ),
            ConfigKey(
                "renames",
                ConfigType.LIST,
                (),
                _Renames(),
                doc="Fields to rename, as `old:new` separated by commas.",
            ),
            replace_null_key(),
        ]
    )

    def take(self, config: ParsedConfig) -> None:
        self._exclude = frozenset(config.strings("exclude"))
        self._include = frozenset(config.strings("include"))
        self._renames = _parse_renames(config.strings("renames"))
        self._old_names = {new: old for old, new in self._renames.items()}
        self._with_default = config.boolean(REPLACE_NULL_WITH_DEFAULT)
        self._schemas = SchemaCache(self._reduced)

    def schemaless(self, record: R, value: dict[str, object]) -> R:
        exclude, include, new_name = self._exclude, self._include, self._renames.get
        kept = {
            new_name(name, name): field
            for name, field in value.items()
            if name not in exclude and (not include or name in include)
        }
        return self.with_part(record, None, hash_order(kept, len(value)))

    def with_schema(self, record: R, value: Struct) -> R:
        updated = Struct(self._schemas.get(value.schema))
        for field in updated.schema.fields:
            old_name = self._old_names.get(field.name, field.name)
            updated.put(field.name, value.value_of(old_name, with_default=self._with_default))
        return self.with_part(record, updated.schema, updated)

    def _keeps(self, name: str) -> bool:
        return name not in self._exclude and (not self._include or name in self._include)

    def _reduced(self, schema: Schema) -> Schema:
        builder = copy_basics(schema, SchemaBuilder.struct())
        for field in schema.fields:
            if self._keeps(field.name):
                builder.field(self._renames.get(field.name, field.name), field.schema)
        return builder.build()


class ReplaceFieldKey(OnKey, _ReplaceField):
    """ReplaceField for the record key (`ReplaceField$Key`)."""


class ReplaceFieldValue(OnValue, _ReplaceField):
    """ReplaceField for the record value (`ReplaceField$Value`)."""
