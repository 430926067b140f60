"""StringConverter: strings; other values are written as Java's `toString()` does."""

from __future__ import annotations

import codecs
import datetime

from connect.config.definition import ConfigDef, ConfigKey, ConfigType, Importance, ParsedConfig
from connect.config.types import invalid_value
from connect.data.converters.base import CONVERTER_TYPE_KEY, Converter
from connect.data.schema import Schema, SchemaAndValue, Type
from connect.data.schema_builder import OPTIONAL
from connect.data.struct import Struct
from connect.data.values import plain_text
from connect.errors import DataError

__all__ = ["StringConverter"]

_SCHEMA = OPTIONAL[Type.STRING]
_WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]


class StringConverter(Converter):
    """Converts strings in UTF-8, or the character set of `converter.encoding`.

    Bytes are decoded with that character set; Java would write the object's class name and hash.
    """

    CONFIG_DEF = ConfigDef(
        [
            CONVERTER_TYPE_KEY,
            ConfigKey(
                "converter.encoding",
                ConfigType.STRING,
                "UTF-8",
                importance=Importance.HIGH,
                doc="Java name of the character set.",
            ),
        ]
    )

    def take(self, config: ParsedConfig) -> None:
        name = config.string("converter.encoding")
        try:
            self._codec = codecs.lookup(name).name
        except LookupError as error:
            raise invalid_value("converter.encoding", name, "unknown character set") from error

    def to_bytes(self, topic: str, value: object, schema: Schema | None = None) -> bytes | None:
        if value is None:
            return None
        if isinstance(value, bytes | bytearray | memoryview):
            return bytes(value)
        text = java_string(schema, value)
        if self._codec == "utf-16":
            return codecs.BOM_UTF16_BE + text.encode("utf-16-be", "replace")
        # Java writes a question mark for characters that the character set lacks.
        return text.encode(self._codec, "replace")

    def from_bytes(self, topic: str, data: bytes | None) -> SchemaAndValue:
        if data is None:
            return SchemaAndValue(_SCHEMA, None)
        return SchemaAndValue(_SCHEMA, data.decode(self._codec, "replace"))


def java_string(schema: Schema | None, value: object) -> str:
    """Return Java's `toString()` of a value. Raises `DataError` for types that Connect does not
    have.
    """
    if isinstance(value, str):
        return value
    if value is None:
        return "null"
    if isinstance(value, datetime.datetime):
        return _date_string(value)
    if isinstance(value, list | tuple):
        of_elements = None if schema is None else schema.value_schema
        texts = (java_string(of_elements, element) for element in value)
        return f"[{', '.join(texts)}]"
    if isinstance(value, dict):
        return _map_string(schema, value)
    if isinstance(value, Struct):
        fields = (
            f"{field.name}={java_string(field.schema, member)}"
            for field, member in value.items()
            if member is not None
        )
        return f"Struct{{{','.join(fields)}}}"
    if isinstance(value, bytes | bytearray | memoryview):
        raise DataError("StringConverter cannot write bytes inside a struct, map or array")
    return plain_text(schema, value)


def _map_string(schema: Schema | None, values: dict[object, object]) -> str:
    of_keys = None if schema is None else schema.key_schema
    of_values = None if schema is None else schema.value_schema
    entries = (
        f"{java_string(of_keys, key)}={java_string(of_values, value)}"
        for key, value in values.items()
    )
    return f"{{{', '.join(entries)}}}"


def _date_string(value: datetime.datetime) -> str:
    return (
        f"{_WEEKDAYS[value.weekday()]} {_MONTHS[value.month - 1]} {value.day:02d}"
        f" {value:%H:%M:%S} UTC {value.year:04d}"
    )
