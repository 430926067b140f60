"""ExtractField: replace the key or value by one of its fields."""

from __future__ import annotations

from connect.config.definition import ConfigDef, ConfigKey, ConfigType, ParsedConfig
from connect.data.transforms.base import (
    REPLACE_NULL_WITH_DEFAULT,
    OnKey,
    OnPart,
    OnValue,
    R,
    replace_null_key,
    require_map,
    require_struct,
)
from connect.data.transforms.field_path import FieldPath, field_syntax_key
from connect.errors import DataError

__all__ = ["ExtractFieldKey", "ExtractFieldValue"]

_PURPOSE = "field extraction"


class _ExtractField(OnPart):
    CONFIG_DEF = ConfigDef(
        [
            ConfigKey("field", ConfigType.STRING, doc="The field to extract."),
            replace_null_key(),
            field_syntax_key(),
        ]
    )

    def take(self, config: ParsedConfig) -> None:
        self._path = FieldPath(config.string("field"), config)
        self._with_default = config.boolean(REPLACE_NULL_WITH_DEFAULT)

    def apply(self, record: R) -> R | None:
        schema, value = self.part_schema(record), self.part(record)
        if schema is None:
            found = None if value is None else self._path.of_map(require_map(value, _PURPOSE))
            return self.with_part(record, None, found)
        struct = None if value is None else require_struct(value, _PURPOSE)
        field = self._path.field(schema)
        if field is None:
            raise DataError(f"Unknown field: {self._path.text}")
        if struct is None:
            return self.with_part(record, field.schema, None)
        return self.with_part(
            record, field.schema, self._path.of_struct(struct, with_default=self._with_default)
        )


class ExtractFieldKey(OnKey, _ExtractField):
    """ExtractField for the record key (`ExtractField$Key`)."""


class ExtractFieldValue(OnValue, _ExtractField):
    """ExtractField for the record value (`ExtractField$Value`)."""
