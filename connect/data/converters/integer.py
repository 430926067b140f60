"""IntegerConverter: 32-bit integers."""

from __future__ import annotations

import struct

from connect.data.converters.number import NumberConverter
from connect.data.schema import Type

__all__ = ["IntegerConverter"]


class IntegerConverter(NumberConverter):
    """Converts big-endian 32-bit integers, as Kafka's IntegerSerializer does."""

    TYPE = Type.INT32
    NAME = "integer"
    FORMAT = struct.Struct(">i")
