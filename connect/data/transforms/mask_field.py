"""MaskField: replace fields by the zero value of their type, or by a given text or number."""

from __future__ import annotations

import datetime
import decimal

from connect.config.definition import ConfigDef, ConfigKey, ConfigType, Importance, ParsedConfig
from connect.config.validators import NonEmptyString, ValidList
from connect.data import logical
from connect.data.java_map import copied_order
from connect.data.java_numbers import Float32, narrow, parse_decimal
from connect.data.schema import INTEGER_BITS, Schema, Type, java_class
from connect.data.struct import Struct
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
from connect.data.values import as_double, as_long
from connect.errors import DataError

__all__ = ["MaskFieldKey", "MaskFieldValue"]

_PURPOSE = "mask fields"


class _MaskField(OnPart):
    CONFIG_DEF = ConfigDef(
        [
            ConfigKey(
                "fields",
                ConfigType.LIST,
                validator=ValidList(allow_empty=False),
                importance=Importance.HIGH,
                doc="Fields to mask.",
            ),
            ConfigKey(
                "replacement",
                ConfigType.STRING,
                None,
                NonEmptyString(),
                Importance.LOW,
                "Replacement value, for fields that are numbers or strings.",
            ),
            replace_null_key(),
        ]
    )

    def take(self, config: ParsedConfig) -> None:
        self._fields = config.strings("fields")
        self._replacement = config.optional_string("replacement")
        self._with_default = config.boolean(REPLACE_NULL_WITH_DEFAULT)

    def apply(self, record: R) -> R | None:
        schema = self.part_schema(record)
        if schema is None:
            return self._schemaless(record, require_map(self.part(record), _PURPOSE))
        return self._with_schema(record, require_struct(self.part(record), _PURPOSE))

    def _schemaless(self, record: R, value: dict[str, object]) -> R:
        updated = value.copy()
        for name in self._fields:
            updated[name] = self._masked(value.get(name), None)
        return self.with_part(record, None, copied_order(len(value), updated))

    def _with_schema(self, record: R, value: Struct) -> R:
        updated = Struct(value.schema)
        for field in value.schema.fields:
            old = value.value_of(field.name, with_default=self._with_default)
            masked = field.name in self._fields
            updated.put(field.name, self._masked(old, field.schema) if masked else old)
        return self.with_part(record, self.part_schema(record), updated)

    def _masked(self, value: object, schema: Schema | None) -> object:
        if value is None:
            return None
        return _zero(value) if self._replacement is None else self._replaced(value, schema)

    def _replaced(self, value: object, schema: Schema | None) -> object:
        replacement = self._replacement
        assert replacement is not None
        if isinstance(value, str):
            return replacement
        if isinstance(value, decimal.Decimal):
            number = parse_decimal(replacement)
            if number is None:
                raise DataError(
                    f"Unable to convert {replacement} (class java.lang.String) to number"
                )
            return number
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise DataError(
                f"Cannot mask value of type class {java_class(value)} with custom replacement."
            )
        if isinstance(value, int):
            bits = INTEGER_BITS.get(schema.type, 64) if schema is not None else 64
            return narrow(as_long(replacement), bits)
        is_float = isinstance(value, Float32) or (schema and schema.type is Type.FLOAT32)
        return Float32(as_double(replacement)) if is_float else as_double(replacement)


def _zero(value: object) -> object:
    if isinstance(value, bool):
        return False
    if isinstance(value, int):
        return 0
    if isinstance(value, Float32):
        return Float32(0.0)
    if isinstance(value, float):
        return 0.0
    if isinstance(value, decimal.Decimal):
        return decimal.Decimal(0)
    if isinstance(value, datetime.datetime):
        return logical.from_ms(0)
    if isinstance(value, str):
        return ""
    if isinstance(value, list | tuple):
        return []
    if isinstance(value, dict):
        return {}
    raise DataError(f"Cannot mask value of type: class {java_class(value)}")


class MaskFieldKey(OnKey, _MaskField):
    """MaskField for the record key (`MaskField$Key`)."""


class MaskFieldValue(OnValue, _MaskField):
    """MaskField for the record value (`MaskField$Value`)."""
