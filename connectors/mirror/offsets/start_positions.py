"""The start position of a partition, which is stored until its first source offset is.

Before that, nothing else is stored about a partition. Without the start position, records that the
source deletes between the start of a task and the start of the next one would be lost silently. It
is written to the offset map topic before anything is copied, and deleted once an offset is stored:

    key    -2 INT16 | topic STRING | partition INT32
    value  version INT16 = 0 | position INT64 | mark INT64 | source topic id UUID | connector STRING

A key with an empty topic and partition -1 stands for all partitions: it deletes all positions that
precede it in the log. Its value is a version.

STRING is an int16 byte length and UTF-8; fixed-width numbers are big-endian; an ID of zeros means
unknown. `mark` is the value of `connect.plugin.TaskContext.offset_marks` when the position was
stored. The position is valid while the mark has not grown, because otherwise an offset was stored
or deleted since.

This format is our own. Pure.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from uuid import UUID

from connect.errors import CorruptData
from connect.protocol.messages import TopicPartition

__all__ = ["FORGET_ALL", "FORGET_ALL_VALUE", "FirstPosition", "first_key", "parse_first_key"]

_MARK = b"\xff\xfe"
_VERSION = 0
_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_HEAD = struct.Struct(">hqq16sh")
_NO_ID = bytes(16)

FORGET_ALL_VALUE = _INT16.pack(_VERSION)


def first_key(key: TopicPartition) -> bytes:
    """Return the record key of a partition's start position."""
    name = key[0].encode()
    return _MARK + _INT16.pack(len(name)) + name + _INT32.pack(key[1])


FORGET_ALL = first_key(("", -1))


def parse_first_key(key: bytes | None) -> TopicPartition | None:
    """Parse the record key; None for another kind of record. Raises CorruptData."""
    if key is None or not key.startswith(_MARK):
        return None
    try:
        (size,) = _INT16.unpack_from(key, 2)
        name = key[4 : 4 + size].decode()
        (number,) = _INT32.unpack_from(key, 4 + size)
    except (struct.error, UnicodeDecodeError) as error:
        raise CorruptData(f"invalid key of a start position: {key.hex()}") from error
    return name, number


@dataclass(frozen=True, slots=True)
class FirstPosition:
    """A start position. `connector`: the connector whose stored offsets the mark refers to."""

    position: int
    mark: int
    source_topic_id: UUID | None
    connector: str

    def holds(self, connector: str, mark: int) -> bool:
        """Whether it is still valid if no offset is stored. `mark`: the current mark."""
        return self.connector == connector and mark <= self.mark

    def encode(self) -> bytes:
        """Encode the record value."""
        name = self.connector.encode()
        topic_id = self.source_topic_id.bytes if self.source_topic_id else _NO_ID
        return _HEAD.pack(_VERSION, self.position, self.mark, topic_id, len(name)) + name

    @classmethod
    def decode(cls, value: bytes) -> FirstPosition:
        """Decode the record value. Raises CorruptData."""
        try:
            version, position, mark, topic_id, size = _HEAD.unpack_from(value)
            if version != _VERSION:
                raise CorruptData(f"unsupported version {version} of a start position")
            name = value[_HEAD.size :]
            if size != len(name) or position < 0:
                raise CorruptData(f"invalid start position: {value.hex()}")
            connector = name.decode()
        except (struct.error, UnicodeDecodeError) as error:
            raise CorruptData("start position is truncated") from error
        return cls(position, mark, None if topic_id == _NO_ID else UUID(bytes=topic_id), connector)
