"""Records of each partition's newest loss on the target, which are kept permanently.

A translated offset from before the newest loss may be invalid. The loss page itself is not kept:
records that are copied again start at the same source offset, so their page has the same key, and a
page is deleted once the source has deleted its records. So each loss page in the offset map topic
is followed by a record of its own:

    key    -3 INT16 | topic STRING | partition INT32
    value  version INT16 = 0 | session INT64, of the loss page

STRING is an int16 byte length and UTF-8; fixed-width numbers are big-endian. Readers that do not
know these records ignore them, like every record with a negative first number.

This format is our own. Pure.
"""

from __future__ import annotations

import struct

from connect.errors import CorruptData
from connect.protocol.messages import TopicPartition

__all__ = ["NEWEST_LOSS", "decode_loss", "encode_loss", "loss_key", "parse_loss_key"]

NEWEST_LOSS = -1
"""The first source offset of such a record in a table of pages."""

_MARK = b"\xff\xfd"
_VERSION = 0
_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_VALUE = struct.Struct(">hq")


def loss_key(key: TopicPartition) -> bytes:
    """Return the record key of a partition's newest loss."""
    name = key[0].encode()
    return _MARK + _INT16.pack(len(name)) + name + _INT32.pack(key[1])


def parse_loss_key(key: bytes | None) -> TopicPartition | None:
    """Parse the record key; None for another kind of record. Raises CorruptData."""
    if key is None or not key.startswith(_MARK):
        return None
    try:
        (size,) = _INT16.unpack_from(key, 2)
        name = key[4 : 4 + size].decode()
        (number,) = _INT32.unpack_from(key, 4 + size)
    except (struct.error, UnicodeDecodeError) as error:
        raise CorruptData(f"invalid key of a partition's newest loss: {key.hex()}") from error
    return name, number


def encode_loss(session: int) -> bytes:
    """Encode the record value."""
    return _VALUE.pack(_VERSION, session)


def decode_loss(value: bytes) -> int:
    """Decode the session of the loss page. Raises CorruptData."""
    try:
        version, session = _VALUE.unpack(value)
    except struct.error as error:
        raise CorruptData(f"invalid value of a partition's newest loss: {value.hex()}") from error
    if version != _VERSION:
        raise CorruptData(f"unsupported version {version} of a partition's newest loss")
    return int(session)
