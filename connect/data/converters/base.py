"""What a converter does: one side of a record between Connect's values and bytes."""

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
    doc="How this converter is used; set by the worker.",
)


class Converter(ABC):
    """Turns the keys, values or header values of records into bytes and back.

    Made without arguments, then configured once; afterwards called from one task's thread only.
    """

    CONFIG_DEF = ConfigDef([CONVERTER_TYPE_KEY])

    @classmethod
    def config_def(cls) -> ConfigDef:
        """The converter's own config keys, without the `key.converter.`, `value.converter.` or
        `header.converter.` prefix."""
        return cls.CONFIG_DEF

    def configure(self, config: Mapping[str, str], use: ConverterUse) -> None:
        """Take the `<use>.converter.` properties, prefix stripped. Raises `ConfigError`."""
        self.take(self.config_def().parse({**config, "converter.type": use}))

    def take(self, config: ParsedConfig) -> None:  # noqa: B027 - optional hook
        """Take the checked values. Raises `ConfigError` for what is wrong between them."""

    @abstractmethod
    def to_bytes(self, topic: str, value: object, schema: Schema | None = None) -> bytes | None:
        """The bytes for a record's topic. Raises `ConnectError` for a value it does not take."""

    @abstractmethod
    def from_bytes(self, topic: str, data: bytes | None) -> SchemaAndValue:
        """The value of bytes read from a topic. Raises `DataError`, also for corrupt bytes."""


class HeaderConverter(Converter):
    """A converter that is of use for headers only; `to_bytes` and `from_bytes` get one value."""
