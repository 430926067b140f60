"""The identity of both logs of a partition. It is stored, so that losses are detected after a
restart too.

It is written with each commit to the offset map topic, beside the map's pages
(docs/reference/offset-map.md):

    key    -1 INT16 | topic STRING | partition INT32
    value  version INT16 = 0 | stored before INT64 | position INT64 | target end INT64 |
           source topic id UUID | target topic id UUID |
           count VARINT of epochs | (epoch VARINT, first offset VARINT)... |
           count VARINT of anchors | (source offset VARINT, target offset VARINT)... |
           former ids of the source's topic | of the target's: count VARINT, (id UUID)...

Former IDs are those of deleted topics with the same name, newest last, because a broker with old
metadata may still return one. Values without any end after the anchors.

Under exactly-once the value is also in a header of the record of each stored offset
(`connect.plugin.OFFSET_NOTE`), where it describes exactly that offset.

STRING is an int16 byte length and UTF-8; fixed-width numbers are big-endian; VARINT is unsigned
LEB128; an ID of zeros means unknown. The facts are valid for the stored position `position` and, if
the commit failed, for `stored before`. Any other stored position was written by somebody else, and
the facts are ignored.

This format is our own. Pure.
"""

from __future__ import annotations

import logging
import struct
from dataclasses import dataclass, replace
from uuid import UUID

from connect.errors import CorruptData
from connect.protocol.messages import TopicPartition
from connectors.mirror.offsets.offset_map_pages import get_varint, put_varint

__all__ = [
    "LogIdentity",
    "facts_key",
    "is_facts_key",
    "joined_by",
    "noted_facts",
    "parse_facts_key",
]

_LOG = logging.getLogger(__name__)

VERSION = 0
_MARK = b"\xff\xff"
_NO_PAGE = b"\xff"
"""A negative INT16, which cannot be the length of a topic name in a page key."""
_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_HEAD = struct.Struct(">hqqq16s16s")
_NO_ID = bytes(16)
_NOTED = 4

_MOST_FORMER_IDS = 4
"""Number of former IDs kept. A broker's metadata is rarely older than a few re-creations."""

Pairs = tuple[tuple[int, int], ...]
Ids = tuple[UUID, ...]


def facts_key(key: TopicPartition) -> bytes:
    """Return the record key of a partition's facts."""
    name = key[0].encode()
    return _MARK + _INT16.pack(len(name)) + name + _INT32.pack(key[1])


def is_facts_key(key: bytes | None) -> bool:
    """Whether a record of the offset map topic holds facts about a partition or its start position
    (`start_positions.py`) instead of a page."""
    return key is not None and key.startswith(_NO_PAGE)


def parse_facts_key(key: bytes) -> TopicPartition:
    """Parse the record key of a partition's facts. Raises CorruptData."""
    try:
        (size,) = _INT16.unpack_from(key, 2)
        name = key[4 : 4 + size].decode()
        (number,) = _INT32.unpack_from(key, 4 + size)
    except (struct.error, UnicodeDecodeError) as error:
        raise CorruptData(f"invalid key of a partition's facts: {key.hex()}") from error
    return name, number


@dataclass(frozen=True, slots=True)
class LogIdentity:
    """The facts about both logs of a partition. `target_end` -1: not known."""

    stored_before: int
    position: int
    target_end: int
    source_topic_id: UUID | None
    target_topic_id: UUID | None
    epochs: Pairs
    anchors: Pairs
    former_source_ids: Ids = ()
    former_target_ids: Ids = ()

    def hold_for(self, position: int) -> bool:
        """Whether the facts belong to this stored position."""
        return position in (self.stored_before, self.position)

    def reached(self, position: int) -> tuple[int, int] | None:
        """Return the last known (source offset, target offset) pair up to which everything is
        copied, at or before this stored position; None if it is not known."""
        if position == self.position and self.target_end >= 0:
            return position, self.target_end
        return max((anchor for anchor in self.anchors if anchor[0] <= position), default=None)

    @property
    def newest(self) -> LogIdentity:
        """Return a shorter copy for a note that is written with every commit. It lacks most of what
        is only needed after a deep truncation."""
        return replace(self, epochs=self.epochs[-_NOTED:], anchors=self.anchors[-_NOTED:])

    def encode(self) -> bytes:
        """Encode the record value."""
        out = bytearray(
            _HEAD.pack(
                VERSION,
                self.stored_before,
                self.position,
                self.target_end,
                self.source_topic_id.bytes if self.source_topic_id else _NO_ID,
                self.target_topic_id.bytes if self.target_topic_id else _NO_ID,
            )
        )
        for pairs in (self.epochs, self.anchors):
            put_varint(out, len(pairs))
            for first, second in pairs:
                put_varint(out, first)
                put_varint(out, second)
        if self.former_source_ids or self.former_target_ids:
            for ids in (self.former_source_ids, self.former_target_ids):
                put_varint(out, len(ids))
                for each in ids:
                    out += each.bytes
        return bytes(out)

    @classmethod
    def decode(cls, value: bytes) -> LogIdentity:
        """Decode the record value. Raises CorruptData."""
        try:
            version, before, position, end, source, target = _HEAD.unpack_from(value)
            if version != VERSION:
                raise CorruptData(f"unsupported version {version} of a partition's facts")
            epochs, at = _pairs(value, _HEAD.size)
            anchors, at = _pairs(value, at)
            # Values written by earlier versions end here.
            old_sources, at = _ids(value, at) if at < len(value) else ((), at)
            old_targets, at = _ids(value, at) if at < len(value) else ((), at)
        except (struct.error, IndexError) as error:
            raise CorruptData("a partition's facts are truncated") from error
        return cls(
            before,
            position,
            end,
            _topic_id(source),
            _topic_id(target),
            epochs,
            anchors,
            old_sources,
            old_targets,
        )


def noted_facts(note: bytes | None, position: int) -> LogIdentity | None:
    """Return the facts in the note of a stored offset, if they are for this position."""
    if note is None:
        return None
    try:
        facts = LogIdentity.decode(note)
    except CorruptData as error:
        _LOG.warning("ignoring the note stored with offset %d: %s", position - 1, error)
        return None
    return facts if facts.position == position else None


def joined_by(former: Ids, topic_id: UUID) -> Ids:
    """Return the former IDs after the topic with `topic_id` was deleted too."""
    return (*former, topic_id)[-_MOST_FORMER_IDS:]


def _pairs(value: bytes, at: int) -> tuple[Pairs, int]:
    count, at = get_varint(value, at)
    pairs: list[tuple[int, int]] = []
    for _ in range(min(count, len(value))):
        first, at = get_varint(value, at)
        second, at = get_varint(value, at)
        pairs.append((first, second))
    return tuple(pairs), at


def _ids(value: bytes, at: int) -> tuple[Ids, int]:
    count, at = get_varint(value, at)
    end = at + len(_NO_ID) * count
    if end > len(value):
        raise CorruptData("a partition's facts are truncated")
    return tuple(UUID(bytes=value[n : n + 16]) for n in range(at, end, 16)), end


def _topic_id(data: bytes) -> UUID | None:
    return None if data == _NO_ID else UUID(bytes=data)
