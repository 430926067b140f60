"""Which loss of the target a partition's newest one is, kept for good.

A place that was given before the newest loss may not hold any more. The loss page itself does not
stay: what is copied again begins at the same source offset, and is written under the same key; and
a page is deleted when the source has deleted its records. So a record of its own follows each loss
page into the offset map's topic:

    key    -3 INT16 | topic STRING | partition INT32
    value  version INT16 = 0 | session INT64, of the loss page

STRING is an int16 byte length and UTF-8; fixed-width numbers are big-endian. Readers that do not
know these records leave them out, as every record with a negative first number.

Source: ours. Pure.
"""

from __future__ import annotations

import struct

from connect.errors import CorruptData
from connect.protocol.messages import TopicPartition

__all__ = ["NEWEST_LOSS", "decode_loss", "encode_loss", "loss_key", "parse_loss_key"]

NEWEST_LOSS = -1
"""Where such a record stands in a table of pages: its first source offset."""

_MARK = b"\xff\xfd"
_VERSION = 0
_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_VALUE = struct.Struct(">hq")


def loss_key(key: TopicPartition) -> bytes:
    """The record key of a partition's newest loss."""
    name = key[0].encode()
    return _MARK + _INT16.pack(len(name)) + name + _INT32.pack(key[1])


def parse_loss_key(key: bytes | None) -> TopicPartition | None:
    """None: it is another record's. Raises CorruptData."""
    if key is None or not key.startswith(_MARK):
        return None
    try:
        (size,) = _INT16.unpack_from(key, 2)
        name = key[4 : 4 + size].decode()
        (number,) = _INT32.unpack_from(key, 4 + size)
    except (struct.error, UnicodeDecodeError) as error:
        raise CorruptData(f"not a key of a partition's newest loss: {key.hex()}") from error
    return name, number


def encode_loss(session: int) -> bytes:
    """The record value."""
    return _VALUE.pack(_VERSION, session)


def decode_loss(value: bytes) -> int:
    """The session of the loss page. Raises CorruptData."""
    try:
        version, session = _VALUE.unpack(value)
    except struct.error as error:
        raise CorruptData(f"not a partition's newest loss: {value.hex()}") from error
    if version != _VERSION:
        raise CorruptData(f"a partition's newest loss, of version {version}")
    return int(session)
