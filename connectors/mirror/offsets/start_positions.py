"""Where a partition was begun, kept until its first source offset is stored.

Nothing else is known of a partition so early: without this, records would be lost in silence that
the source deletes after a task has begun with it, and before the next one does. Written into the
offset map's topic before anything is copied, and deleted once an offset is stored:

    key    -2 INT16 | topic STRING | partition INT32
    value  version INT16 = 0 | position INT64 | mark INT64 | source topic id UUID | connector STRING

A key with no topic and partition -1 stands for all: those that come before it in the log hold no
more. Its value is a version.

STRING is an int16 byte length and UTF-8; fixed-width numbers are big-endian; an id of zeros: not
known. `mark` is what `connect.plugin.TaskContext.offset_marks` said when it was kept. It holds as
long as that has not grown: whoever has stored an offset since, or deleted it, knows better.

Source: ours. Pure.
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
    """The record key of a partition's first position."""
    name = key[0].encode()
    return _MARK + _INT16.pack(len(name)) + name + _INT32.pack(key[1])


FORGET_ALL = first_key(("", -1))


def parse_first_key(key: bytes | None) -> TopicPartition | None:
    """None: it is another record's. Raises CorruptData."""
    if key is None or not key.startswith(_MARK):
        return None
    try:
        (size,) = _INT16.unpack_from(key, 2)
        name = key[4 : 4 + size].decode()
        (number,) = _INT32.unpack_from(key, 4 + size)
    except (struct.error, UnicodeDecodeError) as error:
        raise CorruptData(f"not a key of a first position: {key.hex()}") from error
    return name, number


@dataclass(frozen=True, slots=True)
class FirstPosition:
    """See the module. `connector`: whose offsets the mark is about."""

    position: int
    mark: int
    source_topic_id: UUID | None
    connector: str

    def holds(self, connector: str, mark: int) -> bool:
        """Whether it still is where to begin, where nothing is stored and this is the mark now."""
        return self.connector == connector and mark <= self.mark

    def encode(self) -> bytes:
        """The record value."""
        name = self.connector.encode()
        topic_id = self.source_topic_id.bytes if self.source_topic_id else _NO_ID
        return _HEAD.pack(_VERSION, self.position, self.mark, topic_id, len(name)) + name

    @classmethod
    def decode(cls, value: bytes) -> FirstPosition:
        """Raises CorruptData."""
        try:
            version, position, mark, topic_id, size = _HEAD.unpack_from(value)
            if version != _VERSION:
                raise CorruptData(f"a first position of version {version}")
            name = value[_HEAD.size :]
            if size != len(name) or position < 0:
                raise CorruptData(f"not a first position: {value.hex()}")
            connector = name.decode()
        except (struct.error, UnicodeDecodeError) as error:
            raise CorruptData("a first position cut off") from error
        return cls(position, mark, None if topic_id == _NO_ID else UUID(bytes=topic_id), connector)
