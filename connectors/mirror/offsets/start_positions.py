"""The start position of a partition, which is stored until its first source offset is.

Nothing else is known of a partition so early: without it, records that the source deletes after one
task has begun and before the next one does would be lost silently. Written as a note into the
offset map's topic (`map_notes.py`) before anything is copied, and deleted once an offset is stored.
Its value:

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
from connectors.mirror.offsets.map_notes import Note, id_bytes, note_key, topic_id

__all__ = ["FORGET_ALL", "FORGET_ALL_VALUE", "NOWHERE", "FirstPosition"]

_VERSION = 0
_HEAD = struct.Struct(">hqq16sh")

FORGET_ALL = note_key(Note.START, ("", -1))
FORGET_ALL_VALUE = bytes(2)


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
        known_id = id_bytes(self.source_topic_id)
        return _HEAD.pack(_VERSION, self.position, self.mark, known_id, len(name)) + name

    @classmethod
    def decode(cls, value: bytes) -> FirstPosition:
        """Decode the record value. Raises CorruptData."""
        try:
            version, position, mark, known_id, size = _HEAD.unpack_from(value)
            if version != _VERSION:
                raise CorruptData(f"unsupported version {version} of a start position")
            name = value[_HEAD.size :]
            if size != len(name) or position < 0:
                raise CorruptData(f"invalid start position: {value.hex()}")
            connector = name.decode()
        except (struct.error, UnicodeDecodeError) as error:
            raise CorruptData(f"truncated start position: {value.hex()}") from error
        return cls(position, mark, topic_id(known_id), connector)


NOWHERE = FirstPosition(0, -1, None, "")
"""Applies to no connector. Written before a start position is deleted because of a user's request:
one that a task deletes may still be needed (`OffsetSyncWriter.first_positions`)."""
