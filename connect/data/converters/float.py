"""FloatConverter: 32-bit floating-point numbers."""

from __future__ import annotations

import struct

from connect.data.converters.number import NumberConverter
from connect.data.schema import Type

__all__ = ["FloatConverter"]


class FloatConverter(NumberConverter):
    """Converts big-endian 32-bit floats, as Kafka's FloatSerializer does."""

    TYPE = Type.FLOAT32
    NAME = "float"
    FORMAT = struct.Struct(">f")
