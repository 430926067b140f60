"""DoubleConverter: 64-bit floating-point numbers."""

from __future__ import annotations

import struct

from connect.data.converters.number import NumberConverter
from connect.data.schema import Type

__all__ = ["DoubleConverter"]


class DoubleConverter(NumberConverter):
    """Converts big-endian 64-bit floats, as Kafka's DoubleSerializer does."""

    TYPE = Type.FLOAT64
    NAME = "double"
    FORMAT = struct.Struct(">d")
