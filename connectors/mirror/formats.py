"""Serialization of MirrorMaker 2's internal records: offset syncs, checkpoints and heartbeats.

Fields are big-endian Kafka protocol primitives. STRING is an int16 byte length followed by UTF-8
and is never null. Every record goes to partition 0 of its topic and has no headers. Readers ignore
trailing bytes. `str()` of a record prints what Java's console formatters print. Source: KIP-382.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Self

from connect.errors import CorruptData

__all__ = ["Checkpoint", "Heartbeat", "OffsetSync"]

MAX_STRING_BYTES = 0x7FFF
VERSION = 0
"""The only version of checkpoints and heartbeats. Readers decode any other version as this one,
like Java."""

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")
_TWO_INT64 = struct.Struct(">qq")


@dataclass(frozen=True, slots=True)
class OffsetSync:
    """An offset sync: record `upstream_offset` of a source partition was copied to
    `downstream_offset`.

    Key: topic STRING (its name on the source), partition INT32. Value: upstream INT64, downstream
    INT64.
    """

    topic: str
    partition: int
    upstream_offset: int
    downstream_offset: int

    def key(self) -> bytes:
        return _string(self.topic) + _INT32.pack(self.partition)

    def value(self) -> bytes:
        return _TWO_INT64.pack(self.upstream_offset, self.downstream_offset)

    @classmethod
    def decode(cls, key: bytes, value: bytes) -> Self:
        """Decode the record's key and value. Raises `CorruptData`."""
        keys, values = _Reader("offset sync key", key), _Reader("offset sync value", value)
        return cls(keys.string(), keys.int32(), values.int64(), values.int64())

    def __str__(self) -> str:
        return (
            f"OffsetSync{{topicPartition={self.topic}-{self.partition}, "
            f"upstreamOffset={self.upstream_offset}, downstreamOffset={self.downstream_offset}}}"
        )


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A group's committed offset on the source, and the translated one on the target.

    Key: group STRING, topic STRING (its name on the target), partition INT32. Value: version INT16,
    upstream INT64, downstream INT64, metadata STRING (of the commit; "" if it had none).
    """

    group: str
    topic: str
    partition: int
    upstream_offset: int
    downstream_offset: int
    metadata: str = ""

    def key(self) -> bytes:
        return _string(self.group) + _string(self.topic) + _INT32.pack(self.partition)

    def value(self) -> bytes:
        offsets = _TWO_INT64.pack(self.upstream_offset, self.downstream_offset)
        return _INT16.pack(VERSION) + offsets + _string(self.metadata)

    @classmethod
    def decode(cls, key: bytes, value: bytes) -> Self:
        """Decode the record's key and value. Raises `CorruptData`."""
        keys, values = _Reader("checkpoint key", key), _Reader("checkpoint value", value)
        values.int16()
        return cls(
            keys.string(),
            keys.string(),
            keys.int32(),
            values.int64(),
            values.int64(),
            values.string(),
        )

    def __str__(self) -> str:
        return (
            f"Checkpoint{{consumerGroupId={self.group}, "
            f"topicPartition={self.topic}-{self.partition}, "
            f"upstreamOffset={self.upstream_offset}, downstreamOffset={self.downstream_offset}, "
            f"metadata={self.metadata}}}"
        )


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """A heartbeat: the flow from one cluster to another was alive at `timestamp_ms`.

    Key: source alias STRING, target alias STRING. Value: version INT16, timestamp INT64
    (milliseconds since the epoch).
    """

    source_alias: str
    target_alias: str
    timestamp_ms: int

    def key(self) -> bytes:
        return _string(self.source_alias) + _string(self.target_alias)

    def value(self) -> bytes:
        return _INT16.pack(VERSION) + _INT64.pack(self.timestamp_ms)

    @classmethod
    def decode(cls, key: bytes, value: bytes) -> Self:
        """Decode the record's key and value. Raises `CorruptData`."""
        keys, values = _Reader("heartbeat key", key), _Reader("heartbeat value", value)
        values.int16()
        return cls(keys.string(), keys.string(), values.int64())

    def __str__(self) -> str:
        return (
            f"Heartbeat{{sourceClusterAlias={self.source_alias}, "
            f"targetClusterAlias={self.target_alias}, timestamp={self.timestamp_ms}}}"
        )


def _string(text: str) -> bytes:
    encoded = text.encode()
    if len(encoded) > MAX_STRING_BYTES:
        raise ValueError(
            f"string too long for the Kafka protocol: {len(encoded)} bytes, the limit is "
            f"{MAX_STRING_BYTES}"
        )
    return _INT16.pack(len(encoded)) + encoded


class _Reader:
    """Reads protocol primitives sequentially from `data`. `what` names the data in errors."""

    def __init__(self, what: str, data: bytes) -> None:
        self._what = what
        self._data = data
        self._at = 0

    def int16(self) -> int:
        return int.from_bytes(self._take(2), "big", signed=True)

    def int32(self) -> int:
        return int.from_bytes(self._take(4), "big", signed=True)

    def int64(self) -> int:
        return int.from_bytes(self._take(8), "big", signed=True)

    def string(self) -> str:
        length = self.int16()
        if length < 0:
            raise CorruptData(
                f"{self._what}: invalid string length {length} at byte {self._at - 2}"
            )
        try:
            return self._take(length).decode()
        except UnicodeDecodeError as error:
            raise CorruptData(f"{self._what}: string is not valid UTF-8: {error}") from error

    def _take(self, count: int) -> bytes:
        end = self._at + count
        if end > len(self._data):
            raise CorruptData(
                f"{self._what}: truncated, {count} bytes expected at byte {self._at} of "
                f"{len(self._data)}"
            )
        taken = self._data[self._at : end]
        self._at = end
        return taken
