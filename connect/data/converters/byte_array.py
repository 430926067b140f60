"""Bytes as they are: the converter of mirroring."""

from __future__ import annotations

from connect.data.converters.base import Converter
from connect.errors import ConnectError

__all__ = ["ByteArrayConverter"]


class ByteArrayConverter(Converter):
    """Passes bytes and null on unchanged, for keys, values and headers; refuses all else."""

    def to_bytes(self, topic: str, value: object) -> bytes | None:
        if value is None or isinstance(value, bytes):
            return value
        if isinstance(value, bytearray | memoryview):
            return bytes(value)
        raise ConnectError(
            f"ByteArrayConverter takes bytes, but a record for topic {topic} has a"
            f" {type(value).__name__}; set the converter that fits the connector's data"
        )

    def from_bytes(self, topic: str, data: bytes | None) -> bytes | None:
        return data
