"""DoubleConverter: 64-bit floating-point numbers."""

from __future__ import annotations

import struct

from connect.data.converters.number import NumberConverter
from connect.data.schema import Type

__all__ = ["DoubleConverter"]


class DoubleConverter(NumberConverter):
    """Big-endian, as Kafka's DoubleSerializer."""

    TYPE = Type.FLOAT64
    NAME = "double"
    FORMAT = struct.Struct(">d")
