"""JsonConverter: JSON, with the schema in an envelope (`schemas.enable`) or without a schema."""

from __future__ import annotations

import json
from collections import OrderedDict
from decimal import Decimal, InvalidOperation
from typing import Final

from connect.config.definition import (
    ConfigDef,
    ConfigKey,
    ConfigType,
    Importance,
    ParsedConfig,
    Width,
)
from connect.config.types import invalid_value
from connect.config.validators import OneOf
from connect.data import json_codec
from connect.data.compiled import native
from connect.data.converters.base import CONVERTER_TYPE_KEY, Converter
from connect.data.json_codec import JsonValue
from connect.data.json_schema import schema_from_json, schema_to_json
from connect.data.json_values import JsonOptions, from_json, to_json
from connect.data.schema import Schema, SchemaAndValue
from connect.errors import CorruptData, DataError

__all__ = ["JsonConverter"]

_SCHEMAS, _SERIALIZATION = "Schemas", "Serialization"
_DECODER: Final = json.JSONDecoder(parse_float=Decimal, parse_constant=json_codec.refuse_constant)
_BLANK = " \t\r\n"


class JsonConverter(Converter):
    """Converts to the same bytes as Kafka's JsonConverter: compact, fields in schema order."""

    CONFIG_DEF = ConfigDef(
        [
            CONVERTER_TYPE_KEY,
            ConfigKey(
                "schemas.enable",
                ConfigType.BOOLEAN,
                True,
                importance=Importance.HIGH,
                doc="Whether each JSON document is an envelope with schema and payload.",
                group=_SCHEMAS,
                order=0,
                width=Width.MEDIUM,
                display_name="Enable Schemas",
            ),
            ConfigKey(
                "schemas.cache.size",
                ConfigType.INT,
                1000,
                importance=Importance.HIGH,
                doc="Maximum number of schemas cached in their JSON form.",
                group=_SCHEMAS,
                order=1,
                width=Width.MEDIUM,
                display_name="Schema Cache Size",
            ),
            ConfigKey(
                "schema.content",
                ConfigType.STRING,
                None,
                importance=Importance.HIGH,
                doc="The schema, in JSON, of everything that is read; what is read is then the"
                " payload alone. For sinks, and with `schemas.enable` only.",
                group=_SCHEMAS,
                order=2,
                width=Width.MEDIUM,
                display_name="Schema Content",
            ),
            ConfigKey(
                "decimal.format",
                ConfigType.STRING,
                "BASE64",
                OneOf(("NUMERIC", "BASE64"), ignore_case=True),
                Importance.LOW,
                "How decimals are written: BASE64 of their bytes, or as numbers (NUMERIC).",
                _SERIALIZATION,
                0,
                Width.MEDIUM,
                "Decimal Format",
            ),
            ConfigKey(
                "replace.null.with.default",
                ConfigType.BOOLEAN,
                True,
                importance=Importance.LOW,
                doc="Whether a null that has a default is written, and read, as the default.",
                group=_SERIALIZATION,
                order=1,
                width=Width.MEDIUM,
                display_name="Replace null with default",
            ),
        ]
    )

    def take(self, config: ParsedConfig) -> None:
        self._options = JsonOptions(
            decimals_as_numbers=config.string("decimal.format").upper() == "NUMERIC",
            replace_nulls=config.boolean("replace.null.with.default"),
        )
        self._enveloped = config.boolean("schemas.enable")
        self._cache_size = config.integer("schemas.cache.size")
        self._written: OrderedDict[Schema, str] = OrderedDict()
        self._read: OrderedDict[str, Schema] = OrderedDict()
        self._fixed_schema = self._content_schema(config.optional_string("schema.content"))

    def to_bytes(self, topic: str, value: object, schema: Schema | None = None) -> bytes | None:
        if schema is None and value is None:
            return None
        payload = json_codec.encode_plain(value) if schema is None else None
        if payload is None:
            payload = json_codec.encode(to_json(schema, value, self._options))
        if not self._enveloped:
            return payload
        return f'{{"schema":{self._schema_text(schema)},"payload":'.encode() + payload + b"}"

    def from_bytes(self, topic: str, data: bytes | None) -> SchemaAndValue:
        if data is None:
            return SchemaAndValue(None, None)
        if not self._enveloped:
            return SchemaAndValue(None, self._schemaless(data))
        value = _parsed(data)
        schema = self._fixed_schema
        if schema is not None:
            return SchemaAndValue(schema, from_json(schema, value, self._options))
        if not isinstance(value, dict) or value.keys() != {"schema", "payload"}:
            raise DataError(
                'JsonConverter with schemas.enable requires "schema" and "payload" fields and may'
                " not contain additional fields. If you are trying to deserialize plain JSON data,"
                " set schemas.enable=false in your converter configuration."
            )
        schema = self._schema_of(value["schema"])
        return SchemaAndValue(schema, from_json(schema, value["payload"], self._options))

    def _schemaless(self, data: bytes) -> object:
        value: object = NotImplemented if native is None else native.read_json(data)
        if value is NotImplemented:
            value = from_json(None, _parsed(data), self._options)
        return value

    def _schema_text(self, schema: Schema | None) -> str:
        if schema is None:
            return "null"
        text = self._written.get(schema)
        if text is None:
            text = json_codec.encode(schema_to_json(schema, self._options)).decode()
            self._written[schema] = text
            if len(self._written) > self._cache_size:
                self._written.popitem(last=False)
        return text

    def _schema_of(self, value: JsonValue) -> Schema | None:
        if value is None:
            return None
        text = repr(value)
        schema = self._read.get(text)
        if schema is None:
            schema = schema_from_json(value, self._options)
            assert schema is not None
            self._read[text] = schema
            if len(self._read) > self._cache_size:
                self._read.popitem(last=False)
        return schema

    def _content_schema(self, text: str | None) -> Schema | None:
        if not text:
            return None
        try:
            return schema_from_json(_parsed(text.encode()), self._options)
        except (CorruptData, DataError) as error:
            raise invalid_value("schema.content", text, str(error)) from error


def _parsed(data: bytes) -> JsonValue:
    """Return the first JSON value in these bytes, as Jackson reads it. Empty bytes are null."""
    try:
        text = data.decode().lstrip(_BLANK)
        value: JsonValue = _DECODER.raw_decode(text)[0] if text else None
    except (ValueError, RecursionError, InvalidOperation) as error:
        raise CorruptData(
            "Converting byte[] to Kafka Connect data failed due to serialization error: "
        ) from error
    return value
