"""InsertField: add record attributes, or a static value, as fields of the key or value."""

from __future__ import annotations

from dataclasses import dataclass

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
    """A field to insert: its name and its value."""

    name: str
    optional: bool
    what: str


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
        self._insertions = [
            _insertion(text, what)
            for what in ("topic", "partition", "offset", "timestamp", "static")
            if (text := config.optional_string(f"{what}.field")) is not None
        ]
        self._static = config.optional_string("static.value")
        self._with_default = config.boolean(REPLACE_NULL_WITH_DEFAULT)
        self._schemas = SchemaCache(self._extended)
        if not self._insertions:
            raise ConfigError("No field insertion configured")
        if self._insertions[-1].what == "static" and self._static is None:
            raise ConfigError(
                "Invalid value null for configuration static.value: No value specified for static"
                f" field: {self._insertions[-1].name}",
                key="static.value",
            )

    def schemaless(self, record: R, value: dict[str, object]) -> R:
        updated = dict(value)
        for insertion in self._insertions:
            inserted = self._inserted(insertion, record)
            if inserted is not None or insertion.what == "topic":
                updated[insertion.name] = inserted
        return self.with_part(record, None, copied_order(len(value), updated))

    def with_schema(self, record: R, value: Struct) -> R:
        schema = self._schemas.get(value.schema)
        updated = value.extended(schema, with_default=self._with_default)
        for insertion in self._insertions:
            inserted = self._inserted(insertion, record)
            if inserted is None:
                continue
            if insertion.what == "timestamp":
                assert isinstance(inserted, int)
                inserted = logical.from_ms(inserted)
            updated.put(insertion.name, inserted)
        return self.with_part(record, updated.schema, updated)

    def _inserted(self, insertion: _Insertion, record: ConnectRecord) -> object:
        if insertion.what == "topic":
            return record.topic
        if insertion.what == "partition":
            return record.partition
        if insertion.what == "timestamp":
            return record.timestamp_ms
        if insertion.what == "static":
            return self._static
        offset = getattr(record, "offset", None)
        if offset is None:
            raise DataError(
                f"Only SinkRecord supported for [{self.PURPOSE}], found:"
                f" org.apache.kafka.connect.source.{type(record).__name__}"
            )
        return offset

    def _extended(self, schema: Schema) -> Schema:
        builder = copy_basics(schema, SchemaBuilder.struct())
        for field in schema.fields:
            builder.field(field.name, field.schema)
        for insertion in self._insertions:
            builder.field(insertion.name, _schema_of(insertion))
        return builder.build()


def _insertion(text: str, what: str) -> _Insertion:
    name = text[:-1] if text.endswith(("?", "!")) else text
    return _Insertion(name, not text.endswith("!"), what)


def _schema_of(insertion: _Insertion) -> Schema:
    if insertion.what == "timestamp":
        return _OPTIONAL_TIMESTAMP if insertion.optional else logical.TIMESTAMP_SCHEMA
    kind = {"partition": Type.INT32, "offset": Type.INT64}.get(insertion.what, Type.STRING)
    return (OPTIONAL if insertion.optional else REQUIRED)[kind]


class InsertFieldKey(OnKey, _InsertField):
    """InsertField for the record key (`InsertField$Key`)."""


class InsertFieldValue(OnValue, _InsertField):
    """InsertField for the record value (`InsertField$Value`)."""
