"""Zigzag varints of the v2 record format, with tables for small values.

A signed value n is mapped to the unsigned (n << 1) ^ (n >> 63) and written in groups of seven
bits, the least significant group first, the top bit of each byte saying that another one follows
(KIP-98, "Message Format"; the same encoding as Protocol Buffers' sint32 and sint64).

Pure functions, and a table that the first call makes: safe from any thread.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from connect.errors import CorruptData

__all__ = [
    "SHORT_LIMIT",
    "encode_unsigned",
    "encode_varint",
    "read_unsigned",
    "read_varint",
    "read_varlong",
    "short_varints",
]

SHORT_LIMIT = 16_384
"""The table covers -SHORT_LIMIT <= n < SHORT_LIMIT. This includes lengths of ordinary records,
offset deltas, and timestamp deltas of batches that span less than 16 seconds. The 33,000 short
strings cost 2 MB and a few milliseconds, which a worker that copies whole batches never spends.
"""

_VARINT_BYTES = 5  # The most bytes of a 32-bit value.
_VARLONG_BYTES = 10  # The most bytes of a 64-bit value.


def encode_varint(value: int) -> bytes:
    """Encode any signed 64-bit number as a varint of 1 to 10 bytes."""
    return encode_unsigned((value << 1) ^ (value >> 63))


def encode_unsigned(rest: int) -> bytes:
    """Encode a number that is not negative without the zigzag, as flexible messages have it
    (KIP-482)."""
    if rest < 0x80:
        return rest.to_bytes(1, "big")
    encoded = bytearray()
    while rest >= 0x80:
        encoded.append(rest & 0x7F | 0x80)
        rest >>= 7
    encoded.append(rest)
    return bytes(encoded)


@functools.cache
def short_varints() -> Sequence[bytes]:
    """Return the table: its item n is the varint of n for -SHORT_LIMIT <= n < SHORT_LIMIT. Negative
    values are at its end, where Python's negative indexes find them. Callers check the range first.
    """
    return [encode_varint(n) for n in (*range(SHORT_LIMIT), *range(-SHORT_LIMIT, 0))]


def read_varint(data: bytes | bytearray | memoryview, position: int) -> tuple[int, int]:
    """Read the 32-bit varint at `position`. Return it and the position after it.

    Raises CorruptData if it is cut off, longer than five bytes or wider than 32 bits.
    """
    value, after = read_unsigned(data, position, _VARINT_BYTES)
    if value > 0xFFFF_FFFF:
        raise CorruptData(f"varint at byte {position} is wider than 32 bits")
    return (value >> 1) ^ -(value & 1), after


def read_varlong(data: bytes | bytearray | memoryview, position: int) -> tuple[int, int]:
    """Read the 64-bit varint at `position`. Return it and the position after it.

    Raises the same errors as `read_varint`.
    """
    value, after = read_unsigned(data, position, _VARLONG_BYTES)
    if value > 0xFFFF_FFFF_FFFF_FFFF:
        raise CorruptData(f"varlong at byte {position} is wider than 64 bits")
    return (value >> 1) ^ -(value & 1), after


def read_unsigned(
    data: bytes | bytearray | memoryview, position: int, max_bytes: int
) -> tuple[int, int]:
    """Read the varint at `position` without the zigzag. Return it and the position after it.

    Raises CorruptData if it is cut off or longer than `max_bytes`.
    """
    value = shift = 0
    size = len(data)
    for at in range(position, position + max_bytes):
        if at >= size:
            raise CorruptData(f"varint at byte {position} is cut off by the end of the data")
        byte = data[at]
        if byte < 0x80:
            return value | byte << shift, at + 1
        value |= (byte & 0x7F) << shift
        shift += 7
    raise CorruptData(f"varint at byte {position} is longer than {max_bytes} bytes")
