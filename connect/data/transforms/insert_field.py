"""InsertField: add record attributes, or a static value, as fields of the key or value."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from connect.config.definition import ConfigDef, ConfigKey, ConfigType, ParsedConfig
from connect.data import logical
from connect.data.java_map import copied_order
from connect.data.record import ConnectRecord
from connect.data.schema import Schema, Type
from connect.data.schema_builder import OPTIONAL, REQUIRED, SchemaBuilder, copy_basics
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
from connect.errors import ConfigError, DataError

__all__ = ["InsertFieldKey", "InsertFieldValue"]

_NAME_DOC = " End the name with `!` for a required field or `?` for an optional one (default)."
_OPTIONAL_TIMESTAMP = (
    SchemaBuilder(Type.INT64).name(logical.TIMESTAMP).version(1).optional().build()
)


def _key(name: str, doc: str) -> ConfigKey:
    return ConfigKey(name, ConfigType.STRING, None, doc=doc)


@dataclass(frozen=True, slots=True)
class _Insertion:
    """A field to insert: its name, and what returns its value of a record."""

    name: str
    optional: bool
    what: str
    of: Callable[[ConnectRecord], Any]


class _InsertField(OnFields):
    PURPOSE = "field insertion"
    CONFIG_DEF = ConfigDef(
        [
            _key("topic.field", f"Field for the topic.{_NAME_DOC}"),
            _key("partition.field", f"Field for the partition.{_NAME_DOC}"),
            _key("offset.field", f"Field for the offset; sink records only.{_NAME_DOC}"),
            _key("timestamp.field", f"Field for the record's timestamp.{_NAME_DOC}"),
            _key("static.field", f"Field for the static value.{_NAME_DOC}"),
            _key("static.value", "That text."),
            replace_null_key(),
        ]
    )

    def take(self, config: ParsedConfig) -> None:
        static = config.optional_string("static.value")
        values: dict[str, Callable[[ConnectRecord], Any]] = {
            "topic": attrgetter("topic"),
            "partition": attrgetter("partition"),
            "offset": _offset,
            "timestamp": attrgetter("timestamp_ms"),
            "static": lambda _: static,
        }
        self._insertions = [
            _insertion(text, what, value)
            for what, value in values.items()
            if (text := config.optional_string(f"{what}.field")) is not None
        ]
        kinds = [insertion.what for insertion in self._insertions]
        self._timestamp = kinds.index("timestamp") if "timestamp" in kinds else None
        self._with_default = config.boolean(REPLACE_NULL_WITH_DEFAULT)
        self._schemas = SchemaCache(self._extended)
        if not self._insertions:
            raise ConfigError("No field insertion configured")
        if self._insertions[-1].what == "static" and static is None:
            raise ConfigError(
                "Invalid value null for configuration static.value: No value specified for static"
                f" field: {self._insertions[-1].name}",
                key="static.value",
            )

    def schemaless(self, record: R, value: dict[str, object]) -> R:
        updated = dict(value)
        for insertion in self._insertions:
            inserted = insertion.of(record)
            if inserted is not None or insertion.what == "topic":
                updated[insertion.name] = inserted
        return self.with_part(record, None, copied_order(len(value), updated))

    def with_schema(self, record: R, value: Struct) -> R:
        schema = self._schemas.get(value.schema)
        inserted = [insertion.of(record) for insertion in self._insertions]
        if self._timestamp is not None and inserted[self._timestamp] is not None:
            inserted[self._timestamp] = logical.from_ms(inserted[self._timestamp])
        updated = value.extended(schema, inserted, with_default=self._with_default)
        return self.with_part(record, schema, updated)

    def _extended(self, schema: Schema) -> Schema:
        builder = copy_basics(schema, SchemaBuilder.struct())
        for field in schema.fields:
            builder.field(field.name, field.schema)
        for insertion in self._insertions:
            builder.field(insertion.name, _schema_of(insertion))
        return builder.build()


def _insertion(text: str, what: str, value: Callable[[ConnectRecord], Any]) -> _Insertion:
    name = text[:-1] if text.endswith(("?", "!")) else text
    return _Insertion(name, not text.endswith("!"), what, value)


def _offset(record: ConnectRecord) -> object:
    offset = getattr(record, "offset", None)
    if offset is None:
        raise DataError(
            f"Only SinkRecord supported for [{_InsertField.PURPOSE}], found:"
            f" org.apache.kafka.connect.source.{type(record).__name__}"
        )
    return offset


def _schema_of(insertion: _Insertion) -> Schema:
    if insertion.what == "timestamp":
        return _OPTIONAL_TIMESTAMP if insertion.optional else logical.TIMESTAMP_SCHEMA
    kind = {"partition": Type.INT32, "offset": Type.INT64}.get(insertion.what, Type.STRING)
    return (OPTIONAL if insertion.optional else REQUIRED)[kind]


class InsertFieldKey(OnKey, _InsertField):
    """InsertField for the record key (`InsertField$Key`)."""


class InsertFieldValue(OnValue, _InsertField):
    """InsertField for the record value (`InsertField$Value`)."""
