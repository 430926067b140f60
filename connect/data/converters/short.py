"""ShortConverter: 16-bit integers."""

from __future__ import annotations

import struct

from connect.data.converters.number import NumberConverter
from connect.data.schema import Type

__all__ = ["ShortConverter"]


class ShortConverter(NumberConverter):
    """Converts big-endian 16-bit integers, as Kafka's ShortSerializer does."""

    TYPE = Type.INT16
    NAME = "short"
    FORMAT = struct.Struct(">h")
