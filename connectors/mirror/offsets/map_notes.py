"""Notes: records of the offset map's topic that are not pages, each about one partition.

    key    kind INT16 | topic STRING | partition INT32

    -1   facts about both logs (`log_identity.py`)
    -2   start position (`start_positions.py`)
    -3   the newest loss: version INT16 = 0 | session INT64 of the loss page
    -4   the owner: version INT16 = 0 | session INT64 | session INT64 of the owner before

STRING is an int16 byte length and UTF-8; fixed-width numbers are big-endian. Readers skip negative
kinds that they do not know; a page's key begins with the length of the topic's name.

The note of the newest loss is needed because an offset that was translated before that loss may not
hold any more, and the loss page itself does not stay: records that are copied again begin at the
same source offset, so their page replaces it; and a page is deleted when the source has deleted its
records.

The note of the owner says from where on pages of earlier sessions do not count: a task writes it
when it takes a partition over, before its first page. Pages that a frozen worker writes later have
an earlier session. A note counts only if its writer knew the owner before, so that a note that is
delayed cannot replace that of a successor (`in_force`).

Source: ours. Pure.
"""

from __future__ import annotations

import struct
from collections.abc import Collection
from enum import Enum
from typing import NamedTuple
from uuid import UUID

from connect.errors import CorruptData
from connect.protocol.messages import TopicPartition

__all__ = [
    "NEWEST_LOSS",
    "NO_OWNER",
    "SESSIONS",
    "Note",
    "Owner",
    "decode_loss",
    "encode_loss",
    "id_bytes",
    "in_force",
    "is_note_key",
    "note_key",
    "parse_note_key",
    "topic_id",
]

NEWEST_LOSS = -1
"""Stands in place of the first source offset in rows that hold the note of the newest loss."""

NO_OWNER = -1
"""The owner's session of a partition that has no note of an owner."""

SESSIONS = 1 << 16
"""How many sessions an owner may begin without another note; each re-copied range and each loss
takes one or two."""

_VERSION = 0
_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_LOSS = struct.Struct(">hq")
_OWNER = struct.Struct(">hqq")
_NO_ID = bytes(16)


class Note(Enum):
    """The kinds of notes; values are the first bytes of their keys."""

    FACTS = b"\xff\xff"
    START = b"\xff\xfe"
    LOSS = b"\xff\xfd"
    OWNER = b"\xff\xfc"


def note_key(kind: Note, key: TopicPartition) -> bytes:
    """The record key of a partition's note."""
    name = key[0].encode()
    return kind.value + _INT16.pack(len(name)) + name + _INT32.pack(key[1])


def is_note_key(key: bytes | None) -> bool:
    """Whether a record of the map's topic is a note, not a page."""
    return key is not None and key.startswith(b"\xff")


def parse_note_key(kind: Note, key: bytes | None) -> TopicPartition | None:
    """The partition of a note of this kind; None: the key is another record's. Raises
    CorruptData."""
    if key is None or not key.startswith(kind.value):
        return None
    try:
        (size,) = _INT16.unpack_from(key, 2)
        name = key[4 : 4 + size].decode()
        (number,) = _INT32.unpack_from(key, 4 + size)
    except (struct.error, UnicodeDecodeError) as error:
        raise CorruptData(f"cannot read the key of a {kind.name} record: {key.hex()}") from error
    return name, number


def encode_loss(session: int) -> bytes:
    """The record value of a note of the newest loss."""
    return _LOSS.pack(_VERSION, session)


def decode_loss(value: bytes) -> int:
    """Decode the session of the loss page. Raises CorruptData."""
    try:
        version, session = _LOSS.unpack(value)
    except struct.error as error:
        raise CorruptData(f"cannot read a record of the newest loss: {value.hex()}") from error
    if version != _VERSION:
        raise CorruptData(f"a record of the newest loss has the unknown version {version}")
    return int(session)


class Owner(NamedTuple):
    """A note of the owner. `before`: the owner that its writer knew."""

    session: int
    before: int = NO_OWNER

    def encode(self) -> bytes:
        return _OWNER.pack(_VERSION, self.session, self.before)

    @classmethod
    def decode(cls, value: bytes) -> Owner:
        """Decode a record value. Raises CorruptData."""
        try:
            version, session, before = _OWNER.unpack(value)
        except struct.error as error:
            raise CorruptData(f"cannot read an owner record: {value.hex()}") from error
        if version != _VERSION or session < 0:
            raise CorruptData(f"an owner record has version {version} and session {session}")
        return cls(session, before)


def in_force(owner: int, noted: Owner, late: Collection[int] = ()) -> int:
    """Return the session of the owner after another note. `owner`: the one before it in the
    topic. `late`: the sessions of the notes since the owner's that do not count.

    Compaction keeps the last note, and so one that does not count in place of the owner's. The next
    owner then finds only that one, and names it. A reader of both must follow.
    """
    if noted.before in late:
        return noted.session
    known = owner in (NO_OWNER, noted.before)
    return max(owner, noted.session) if known else owner


def id_bytes(known: UUID | None) -> bytes:
    """A topic's id in a note; zeros: not known."""
    return known.bytes if known else _NO_ID


def topic_id(data: bytes) -> UUID | None:
    """The id that `id_bytes` wrote."""
    return None if data == _NO_ID else UUID(bytes=data)
