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
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from uuid import UUID

from connect.errors import CorruptData
from connect.protocol.messages import TopicPartition
from connectors.mirror.offsets.map_notes import Note, id_bytes, note_key, topic_id

__all__ = ["FORGET_ALL", "FORGET_ALL_VALUE", "NOWHERE", "FirstPosition", "StoredStarts"]

_VERSION = 0
_HEAD = struct.Struct(">hqq16sh")

_DELETED_MS = 300_000
"""For how long a deleted start position is found. It bridges the time between two reads of a start,
and clocks that differ."""

Record = tuple[bytes, bytes | None]
"""Key and value in the topic."""

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
one that a task deletes may still be needed (`StoredStarts.all`)."""


class StoredStarts:
    """The start positions in the topic, as last read and as changed by this task since."""

    def __init__(self) -> None:
        self._known: dict[TopicPartition, FirstPosition] = {}
        self._deleted: dict[TopicPartition, FirstPosition] = {}
        """Those that were deleted a moment ago."""
        self._kept: dict[TopicPartition, FirstPosition] = {}
        """Those of this task, which may be in flight while the topic is read."""

    def has_read(
        self,
        found: Mapping[TopicPartition, FirstPosition],
        deleted: Mapping[TopicPartition, tuple[int, FirstPosition]],
        now_ms: int,
    ) -> None:
        """Apply a read of the topic. `deleted`: when positions were deleted, and these."""
        self._known = {**self._kept, **found}
        self._deleted = {
            key: first for key, (at, first) in deleted.items() if at > now_ms - _DELETED_MS
        }

    def all(self) -> Mapping[TopicPartition, FirstPosition]:
        """Return all of them, also those that were deleted a moment ago.

        A start reads the stored offsets before the topic. In between, a worker that was frozen may
        store its first offset and delete its start position. That start position is still valid for
        a reader that did not see the offset (`FirstPosition.holds`).
        """
        return {**self._deleted, **self._known}

    def keep(self, firsts: Mapping[TopicPartition, FirstPosition]) -> list[Record]:
        """Add these. Returns the records to write."""
        self._known.update(firsts)
        self._kept.update(firsts)
        return [(note_key(Note.START, key), first.encode()) for key, first in firsts.items()]

    def forget(self, keys: Collection[TopicPartition]) -> list[Record]:
        """Delete those of these partitions. Returns the records to write."""
        gone = [key for key in keys if self._known.pop(key, None) is not None]
        for key in gone:
            self._kept.pop(key, None)
        return [(note_key(Note.START, key), None) for key in gone]
