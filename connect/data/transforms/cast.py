"""Cast: convert fields, or the whole key or value, to another primitive type."""

from __future__ import annotations

import base64
import datetime
import decimal

from connect.config.definition import ConfigDef, ConfigKey, ConfigType, Importance, ParsedConfig
from connect.config.types import ConfigScalar
from connect.data.java_map import copied_order
from connect.data.java_numbers import Float32, integer_of, parse_double, parse_integer
from connect.data.schema import INTEGER_BITS, Schema, Type, java_class, type_of
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
from connect.data.values import date_text, encode_date, plain_text
from connect.errors import ConfigError, DataError

__all__ = ["CastKey", "CastValue"]

_PURPOSE = "cast types"
_OUTPUT = (*INTEGER_BITS, Type.FLOAT32, Type.FLOAT64, Type.BOOLEAN, Type.STRING)
_INPUT = (*_OUTPUT, Type.BYTES)
# Stands for the whole key or value in place of a field name.
_WHOLE = None


class _Casts:
    """Validates `field:type` pairs, or one type for the whole key or value."""

    def check(self, key: str, value: ConfigScalar) -> ConfigScalar:
        assert isinstance(value, tuple)
        if not value:
            raise ConfigError("Must specify at least one field to cast.", key=key)
        _parse_casts(value)
        return value

    def describe(self) -> str:
        return "list of colon-delimited pairs, e.g. foo:bar,abc:xyz"


def _parse_casts(mappings: tuple[str, ...]) -> dict[str | None, Type]:
    casts: dict[str | None, Type] = {}
    for mapping in mappings:
        parts = mapping.split(":")
        while len(parts) > 1 and not parts[-1]:
            parts.pop()
        if len(parts) > 2:
            raise ConfigError(
                f"Invalid value [{', '.join(mappings)}] for configuration renames: Invalid rename"
                f" mapping: {mapping}",
                key="spec",
                value=mapping,
            )
        casts[parts[0].strip() if len(parts) == 2 else _WHOLE] = _output_type(parts[-1].strip())
    if _WHOLE in casts and len(mappings) > 1:
        raise ConfigError(
            "Cast transformations that specify a type to cast the entire value to may only specify"
            " a single cast in their spec",
            key="spec",
        )
    return casts


def _output_type(name: str) -> Type:
    kind = Type.__members__.get(name.upper())
    if kind is None:
        raise ConfigError(f"Invalid type found in casting spec: {name}", key="spec", value=name)
    if kind not in _OUTPUT:
        raise ConfigError(
            f"Cast transformation does not support casting to {kind}; supported types are"
            f" {_names(_OUTPUT)}",
            key="spec",
            value=name,
        )
    return kind


def _names(kinds: tuple[Type, ...]) -> str:
    return f"[{', '.join(kind.name for kind in kinds)}]"


class _Cast(OnPart):
    CONFIG_DEF = ConfigDef(
        [
            ConfigKey(
                "spec",
                ConfigType.LIST,
                validator=_Casts(),
                importance=Importance.HIGH,
                doc="Fields and their new types, `field1:type,field2:type`; or one type for the"
                " whole key or value. Types: int8, int16, int32, int64, float32, float64, boolean,"
                " string. Bytes can only be cast to string.",
            ),
            replace_null_key(),
        ]
    )

    def take(self, config: ParsedConfig) -> None:
        self._casts = _parse_casts(config.strings("spec"))
        self._whole = self._casts.get(_WHOLE)
        self._with_default = config.boolean(REPLACE_NULL_WITH_DEFAULT)
        self._schemas = SchemaCache(self._cast_schema)

    def apply(self, record: R) -> R | None:
        value, schema = self.part(record), self.part_schema(record)
        if value is None:
            return record
        if schema is None:
            return self._schemaless(record, value)
        updated_schema = self._schemas.get(schema)
        if self._whole is not None:
            return self.with_part(record, updated_schema, _cast(schema, value, self._whole))
        struct = require_struct(value, _PURPOSE)
        updated = Struct(updated_schema)
        for field in struct.schema.fields:
            old = struct.value_of(field.name, with_default=self._with_default)
            target = self._casts.get(field.name)
            updated.put(field.name, old if target is None else _cast(field.schema, old, target))
        return self.with_part(record, updated_schema, updated)

    def _schemaless(self, record: R, value: object) -> R:
        if self._whole is not None:
            return self.with_part(record, None, _cast(None, value, self._whole))
        members = require_map(value, _PURPOSE)
        updated = {
            **members,
            **{
                name: _cast(None, members.get(name), kind)
                for name, kind in self._casts.items()
                if name is not None
            },
        }
        return self.with_part(record, None, copied_order(len(members), updated))

    def _cast_schema(self, schema: Schema) -> Schema:
        if self._whole is not None:
            builder = copy_basics(schema, SchemaBuilder(self._whole))
        else:
            builder = copy_basics(schema, SchemaBuilder.struct())
            for field in schema.struct_fields():
                target = self._casts.get(field.name)
                builder.field(
                    field.name,
                    field.schema if target is None else _like(SchemaBuilder(target), field.schema),
                )
        return _like(builder, schema)


def _like(builder: SchemaBuilder, schema: Schema) -> Schema:
    """Return the new schema, with the optional flag and the default of the old one."""
    if schema.optional:
        builder.optional()
    if schema.default is not None:
        builder.default(_cast(schema, schema.default, builder.type))
    return builder.build()


def _cast(schema: Schema | None, value: object, target: Type) -> object:
    if value is None:
        return None
    kind = type_of(value) if schema is None else schema.type
    if kind is None:
        raise DataError(
            f"Cast transformation was passed a value of type class {java_class(value)} which is not"
            " supported by Connect's data API"
        )
    if kind not in _INPUT:
        raise DataError(
            f"Cast transformation does not support casting from {kind}; supported types are"
            f" {_names(_INPUT)}"
        )
    if target is Type.STRING:
        return _to_string(schema, value)
    if schema is not None and isinstance(value, datetime.datetime):
        encoded = encode_date(schema, value)
        value = value if encoded is None else encoded
    converted = _to_number(value, target)
    if converted is None:
        raise DataError(f"Value ({value}) was out of range for requested data type")
    return converted


def _to_number(value: object, target: Type) -> object:
    """Return the boolean or number, or None if the text is not one."""
    if not isinstance(value, bool | int | float | str | decimal.Decimal):
        raise DataError(f"Unexpected type in Cast transformation: class {java_class(value)}")
    if target is Type.BOOLEAN:
        return value.lower() == "true" if isinstance(value, str) else _long(value) != 0
    bits = INTEGER_BITS.get(target)
    if bits is not None:
        if isinstance(value, str):
            return parse_integer(value, bits)
        return int(value) if isinstance(value, bool) else integer_of(value, bits)
    number = parse_double(value) if isinstance(value, str) else float(value)
    return Float32(number) if number is not None and target is Type.FLOAT32 else number


def _long(value: float | decimal.Decimal) -> int:
    return integer_of(value, 64)


def _to_string(schema: Schema | None, value: object) -> str:
    if isinstance(value, datetime.datetime):
        return date_text(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(value).decode()
    return plain_text(schema, value)


class CastKey(OnKey, _Cast):
    """Cast for the record key (`Cast$Key`)."""


class CastValue(OnValue, _Cast):
    """Cast for the record value (`Cast$Value`)."""
