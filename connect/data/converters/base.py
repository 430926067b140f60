"""What a converter does: one side of a record between Connect's values and bytes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Literal

__all__ = ["Converter", "ConverterUse"]

ConverterUse = Literal["key", "value", "header"]


class Converter(ABC):
    """Turns the keys, values or header values of records into bytes and back.

    Made without arguments, then configured once; afterwards called from one task's thread only.
    """

    def configure(self, config: Mapping[str, str], use: ConverterUse) -> None:  # noqa: B027
        """Take the `<use>.converter.` properties, prefix stripped. Raises `ConfigError`."""

    @abstractmethod
    def to_bytes(self, topic: str, value: object) -> bytes | None:
        """The bytes for a record's topic. Raises `ConnectError` for a value it does not take."""

    @abstractmethod
    def from_bytes(self, topic: str, data: bytes | None) -> object:
        """The value of bytes read from a topic. Raises `CorruptData`."""
