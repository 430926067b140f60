"""SimpleHeaderConverter: headers as text with inferred schemas. Kafka Connect's default."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from connect.config.definition import ConfigDef
from connect.config.types import invalid_value
from connect.data.converters.base import ConverterUse, HeaderConverter
from connect.data.schema import Schema, SchemaAndValue, Type
from connect.data.schema_builder import REQUIRED
from connect.data.values import parse, text_of
from connect.errors import DataError

__all__ = ["SimpleHeaderConverter"]

_log = logging.getLogger(__name__)


class SimpleHeaderConverter(HeaderConverter):
    """Converts headers to text. When it reads a header, it infers the schema from the text."""

    CONFIG_DEF = ConfigDef([])

    def configure(self, config: Mapping[str, str], use: ConverterUse) -> None:
        if use != "header":
            raise invalid_value(
                f"{use}.converter", "SimpleHeaderConverter", "it converts headers only"
            )

    def to_bytes(self, topic: str, value: object, schema: Schema | None = None) -> bytes | None:
        text = value if isinstance(value, str) else text_of(schema, value)
        return None if text is None else text.encode()

    def from_bytes(self, topic: str, data: bytes | None) -> SchemaAndValue:
        if data is None:
            return SchemaAndValue(None, None)
        try:
            return parse(data.decode("utf-8", "replace"))
        except (DataError, RecursionError) as error:
            _log.warning(
                "Reading a header on topic %s as bytes; nothing has to be done if it is "
                "not Connect's: %s",
                topic,
                error,
            )
            return SchemaAndValue(REQUIRED[Type.BYTES], data)
