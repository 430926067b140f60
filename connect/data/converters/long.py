"""LongConverter: 64-bit integers."""

from __future__ import annotations

import struct

from connect.data.converters.number import NumberConverter
from connect.data.schema import Type

__all__ = ["LongConverter"]


class LongConverter(NumberConverter):
    """Converts big-endian 64-bit integers, as Kafka's LongSerializer does."""

    TYPE = Type.INT64
    NAME = "long"
    FORMAT = struct.Struct(">q")
