"""TimestampConverter: convert a timestamp between text, Unix time and Connect's logical types."""

from __future__ import annotations

import datetime

from connect.config.definition import ConfigDef, ConfigKey, ConfigType, Importance, ParsedConfig
from connect.config.validators import OneOf
from connect.data import logical
from connect.data.java_dates import DateFormat, InvalidPattern
from connect.data.java_map import copied_order
from connect.data.java_numbers import narrow
from connect.data.schema import Schema, Type, java_class
from connect.data.schema_builder import OPTIONAL, REQUIRED, SchemaBuilder, copy_basics
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

__all__ = ["TimestampConverterKey", "TimestampConverterValue"]

_PURPOSE = "converting timestamp formats"
_STRING, _UNIX = "string", "unix"
_LOGICAL = {
    "Date": logical.DATE_SCHEMA,
    "Time": logical.TIME_SCHEMA,
    "Timestamp": logical.TIMESTAMP_SCHEMA,
}
_TYPES_OF_NAMES = {str(schema.name): name for name, schema in _LOGICAL.items()}

# The units of Unix times, in nanoseconds.
_UNITS = {
    "nanoseconds": 1,
    "microseconds": 1_000,
    "milliseconds": 1_000_000,
    "seconds": 1_000_000_000,
}
_MILLISECOND = 1_000_000
_LONG_MIN, _LONG_MAX = -(1 << 63), (1 << 63) - 1


class _TimestampConverter(OnPart):
    CONFIG_DEF = ConfigDef(
        [
            ConfigKey(
                "field",
                ConfigType.STRING,
                "",
                importance=Importance.HIGH,
                doc="The field with the timestamp; empty for the whole key or value.",
            ),
            ConfigKey(
                "target.type",
                ConfigType.STRING,
                validator=OneOf((_STRING, _UNIX, *_LOGICAL)),
                importance=Importance.HIGH,
                doc="The type to convert to: string, unix, Date, Time or Timestamp.",
            ),
            ConfigKey(
                "format",
                ConfigType.STRING,
                "",
                doc="How text is written, as a pattern of java.text.SimpleDateFormat; for text that"
                " is read, and for `target.type=string`. Times are in UTC.",
            ),
            ConfigKey(
                "unix.precision",
                ConfigType.STRING,
                "milliseconds",
                OneOf(tuple(_UNITS)),
                Importance.LOW,
                "The unit of numbers: seconds, milliseconds, microseconds or nanoseconds. What is"
                " below milliseconds is lost.",
            ),
            replace_null_key(),
        ]
    )

    def take(self, config: ParsedConfig) -> None:
        self._field = config.string("field")
        self._target = config.string("target.type")
        self._unit = _UNITS[config.string("unix.precision")]
        self._with_default = config.boolean(REPLACE_NULL_WITH_DEFAULT)
        self._schemas = SchemaCache(self._converted_schema)
        pattern = config.string("format")
        if not pattern.strip() and self._target == _STRING:
            raise ConfigError(
                "TimestampConverter requires format option to be specified when using string"
                " timestamps",
                key="format",
            )
        self._format: DateFormat | None = None
        if pattern.strip():
            try:
                self._format = DateFormat(pattern)
            except InvalidPattern as error:
                raise ConfigError(
                    "TimestampConverter requires a SimpleDateFormat-compatible pattern for string"
                    f" timestamps: {pattern}",
                    key="format",
                    value=pattern,
                ) from error

    def apply(self, record: R) -> R | None:
        schema, value = self.part_schema(record), self.part(record)
        if schema is None:
            return self._schemaless(record, value)
        if not self._field:
            converted = self._convert(value, _type_of_schema(schema))
            return self.with_part(record, self._target_schema(schema.optional), converted)
        struct = None if value is None else require_struct(value, _PURPOSE)
        updated_schema = self._schemas.get(schema)
        if struct is None:
            return self.with_part(record, updated_schema, None)
        return self.with_part(record, updated_schema, self._with_schema(struct, updated_schema))

    def _schemaless(self, record: R, value: object) -> R:
        if value is None or not self._field:
            return self.with_part(record, None, self._convert(value, None))
        members = require_map(value, _PURPOSE)
        updated = {**members, self._field: self._convert(members.get(self._field), None)}
        return self.with_part(record, None, copied_order(len(members), updated))

    def _with_schema(self, value: Struct, schema: Schema) -> Struct:
        updated = Struct(schema)
        for field in value.schema.fields:
            old = value.value_of(field.name, with_default=self._with_default)
            if field.name == self._field:
                old = self._convert(old, _type_of_schema(field.schema))
            updated.put(field.name, old)
        return updated

    def _converted_schema(self, schema: Schema) -> Schema:
        builder = copy_basics(schema, SchemaBuilder.struct())
        for field in schema.struct_fields():
            converted = field.name == self._field
            builder.field(
                field.name,
                self._target_schema(field.schema.optional) if converted else field.schema,
            )
        if schema.optional:
            builder.optional()
        if isinstance(schema.default, Struct):
            builder.default(self._with_schema(schema.default, builder.build()))
        return builder.build()

    def _target_schema(self, optional: bool) -> Schema:
        plain = OPTIONAL if optional else REQUIRED
        if self._target == _STRING:
            return plain[Type.STRING]
        if self._target == _UNIX:
            return plain[Type.INT64]
        schema = _LOGICAL[self._target]
        return copy_basics(schema).optional().build() if optional else schema

    def _convert(self, value: object, source: str | None) -> object:
        if value is None:
            return None
        instant = self._read(value, source or _inferred(value))
        if self._target == _STRING:
            assert self._format is not None
            return self._format.format(instant)
        ms = logical.to_ms(instant)
        if self._target == _UNIX:
            return self._to_unix(ms)
        if self._target == "Date":
            return logical.from_ms(ms - ms % logical.MS_PER_DAY)
        if self._target == "Time":
            return logical.from_ms(ms % logical.MS_PER_DAY)
        return instant

    def _read(self, value: object, source: str) -> datetime.datetime:
        if source == _STRING:
            return self._read_text(value)
        if source == _UNIX:
            if isinstance(value, int):
                return self._from_unix(value)
            raise _unexpected("Unix timestamp", "Long", value)
        if isinstance(value, datetime.datetime):
            return value
        raise _unexpected(source, "java.util.Date", value)

    def _read_text(self, value: object) -> datetime.datetime:
        if not isinstance(value, str):
            raise _unexpected("string timestamp", "String", value)
        if self._format is None:
            raise DataError(
                f"Could not parse timestamp: value ({value}); set `format` to its pattern"
            )
        instant = self._format.parse(value)
        if instant is None:
            raise DataError(
                f"Could not parse timestamp: value ({value}) does not match pattern"
                f" ({self._format.pattern})"
            )
        return instant

    def _from_unix(self, number: int) -> datetime.datetime:
        if self._unit >= _MILLISECOND:
            return logical.from_ms(number * (self._unit // _MILLISECOND))
        # Java truncates towards zero.
        per_ms = _MILLISECOND // self._unit
        return logical.from_ms(abs(number) // per_ms * (1 if number >= 0 else -1))

    def _to_unix(self, ms: int) -> int:
        if self._unit > _MILLISECOND:
            per_unit = self._unit // _MILLISECOND
            return abs(ms) // per_unit * (1 if ms >= 0 else -1)
        return narrow(max(_LONG_MIN, min(_LONG_MAX, ms * (_MILLISECOND // self._unit))), 64)


def _unexpected(what: str, wanted: str, value: object) -> DataError:
    return DataError(f"Expected {what} to be a {wanted}, but found class {java_class(value)}")


def _type_of_schema(schema: Schema) -> str:
    if schema.name in _TYPES_OF_NAMES:
        return _TYPES_OF_NAMES[schema.name]
    if schema.type is Type.STRING:
        return _STRING
    if schema.type is Type.INT64:
        return _UNIX
    raise DataError(f"Schema {schema} does not correspond to a known timestamp type format")


def _inferred(value: object) -> str:
    if isinstance(value, datetime.datetime):
        return "Timestamp"
    if isinstance(value, int) and not isinstance(value, bool):
        return _UNIX
    if isinstance(value, str):
        return _STRING
    raise DataError(
        f"TimestampConverter does not support class {java_class(value)} objects as timestamps"
    )


class TimestampConverterKey(OnKey, _TimestampConverter):
    """TimestampConverter for the record key (`TimestampConverter$Key`)."""


class TimestampConverterValue(OnValue, _TimestampConverter):
    """TimestampConverter for the record value (`TimestampConverter$Value`)."""
