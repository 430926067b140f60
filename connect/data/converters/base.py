"""The converter interface: one side of a record as a Connect value and as bytes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Literal

from connect.config.definition import ConfigDef, ConfigKey, ConfigType, Importance, ParsedConfig
from connect.config.validators import OneOf
from connect.data.schema import Schema, SchemaAndValue

__all__ = ["CONVERTER_TYPE_KEY", "Converter", "ConverterUse", "HeaderConverter"]

ConverterUse = Literal["key", "value", "header"]

CONVERTER_TYPE_KEY = ConfigKey(
    "converter.type",
    ConfigType.STRING,
    validator=OneOf(("key", "value", "header")),
    importance=Importance.LOW,
    doc="Whether the converter is for keys, values or headers; set by the worker.",
)


class Converter(ABC):
    """Converts the keys, values or header values of records to bytes and back.

    Created without arguments and configured once; then used by one task's thread only.
    """

    CONFIG_DEF = ConfigDef([CONVERTER_TYPE_KEY])

    @classmethod
    def config_def(cls) -> ConfigDef:
        """Return the converter's config keys, without the `key.converter.`, `value.converter.` or
        `header.converter.` prefix.
        """
        return cls.CONFIG_DEF

    def configure(self, config: Mapping[str, str], use: ConverterUse) -> None:
        """Accept the `<use>.converter.` properties, without the prefix. Raises `ConfigError`."""
        self.take(self.config_def().parse({**config, "converter.type": use}))

    def take(self, config: ParsedConfig) -> None:  # noqa: B027 - optional hook
        """Accept the parsed values. Raises `ConfigError` for values that contradict one another."""

    @abstractmethod
    def to_bytes(self, topic: str, value: object, schema: Schema | None = None) -> bytes | None:
        """Convert a value to the bytes of a record. Raises `ConnectError` for an unsupported
        value.
        """

    @abstractmethod
    def from_bytes(self, topic: str, data: bytes | None) -> SchemaAndValue:
        """Convert bytes of a record to a value. Raises `DataError`, also for corrupt bytes."""


class HeaderConverter(Converter):
    """A converter for headers only. `to_bytes` and `from_bytes` get one header value."""
