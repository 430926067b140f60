"""The identity of both logs of a partition. It is stored, so that losses are detected after a
restart too.

Written with each commit as a note into the offset map's topic (`map_notes.py`,
docs/reference/offset-map.md). Its value:

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
from collections.abc import Iterable
from dataclasses import dataclass, replace
from uuid import UUID

from connect.errors import CorruptData
from connectors.mirror.offsets.map_notes import id_bytes, topic_id
from connectors.mirror.offsets.offset_map_pages import get_varint, put_varint

__all__ = ["LogIdentity", "anchored", "joined_by", "noted_facts"]

_LOG = logging.getLogger(__name__)

VERSION = 0
_HEAD = struct.Struct(">hqqq16s16s")
_NOTED = 4

_MOST_FORMER_IDS = 4
"""Number of former IDs kept. A broker's metadata is rarely older than a few re-creations."""

Pairs = tuple[tuple[int, int], ...]
Ids = tuple[UUID, ...]


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
                id_bytes(self.source_topic_id),
                id_bytes(self.target_topic_id),
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
            topic_id(source),
            topic_id(target),
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
        _LOG.warning("ignoring the partition facts stored with offset %d: %s", position - 1, error)
        return None
    return facts if facts.position == position else None


def anchored(anchors: Iterable[tuple[int, int]], target_offset: int) -> tuple[int, int] | None:
    """Return the last of these (source offset, target offset) pairs up to `target_offset`."""
    found = [anchor for anchor in anchors if anchor[1] <= target_offset]
    return found[-1] if found else None


def joined_by(former: Ids, topic_id: UUID | None) -> Ids:
    """Return the former IDs after the topic with `topic_id` (None: not known) was deleted too."""
    return former if topic_id is None else (*former, topic_id)[-_MOST_FORMER_IDS:]


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
    end = at + 16 * count
    if end > len(value):
        raise CorruptData("a partition's facts are truncated")
    return tuple(UUID(bytes=value[n : n + 16]) for n in range(at, end, 16)), end
