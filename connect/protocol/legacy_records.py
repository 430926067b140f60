"""Read messages of magic 0 and 1 (before Kafka 0.11) as columns of v2 records.

Layout, big-endian: offset int64, size int32, crc uint32, magic int8, attributes int8, with magic 1
timestamp int64, then key and value, each an int32 length (-1: null) and bytes. A message whose
attributes name a codec is a wrapper: its value is a compressed set of messages of its own magic.
Inside a magic 1 wrapper (KIP-31) offsets are relative and the wrapper has the offset of the last
message; inside a magic 0 wrapper they are absolute. A magic 1 wrapper of timestamp type
LogAppendTime (KIP-32) gives its own timestamp to every message.

Pure functions: safe from any thread.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from connect.errors import CorruptData
from connect.protocol.compression import DEFAULT_LIMIT, Data, decompress
from connect.protocol.frame import CODEC_MASK, LOG_APPEND_TIME, LOG_OVERHEAD
from connect.protocol.record_columns import Columns
from connect.protocol.varint import encode_varint

__all__ = ["first_legacy_offset", "read_legacy_records"]

_ENTRY = struct.Struct(">qiIbb")
_TIMESTAMP = struct.Struct(">q")
_LENGTH = struct.Struct(">i")
_NULL = encode_varint(-1)
_NO_HEADERS = encode_varint(0)


@dataclass(frozen=True, slots=True)
class _Message:
    offset: int
    magic: int
    attributes: int
    timestamp: int
    key: memoryview | None
    value: memoryview | None


def read_legacy_records(batch: memoryview, from_offset: int, limit: int, into: Columns) -> int:
    """Append the records at or after `from_offset` of one message, plain or wrapper.

    Returns the number of bytes that were decompressed. `limit` is the most bytes that a wrapper may
    decompress to. Raises CorruptData.
    """
    try:
        outer = _read_message(batch, 0, len(batch))
        codec = outer.attributes & CODEC_MASK
        if not codec:
            _append(outer, outer.offset, outer.timestamp, from_offset, into)
            return 0
        if outer.value is None:
            raise CorruptData(f"compressed message at offset {outer.offset} has no value")
        inside = memoryview(decompress(codec, outer.value, limit=limit))
        _append_set(outer, _read_set(inside, outer.magic), from_offset, into)
    except struct.error as error:
        raise CorruptData(f"message runs over the end of its data: {error}") from error
    return len(inside)


def first_legacy_offset(batch: memoryview, limit: int = DEFAULT_LIMIT) -> int:
    """Return the offset of the first record of one message, plain or wrapper.

    Raises CorruptData, also if one of its records cannot be parsed.
    """
    columns = Columns()
    read_legacy_records(batch, 0, limit, columns)
    return columns.offsets[0]


def _read_set(data: memoryview, magic: int) -> list[_Message]:
    messages = []
    position = 0
    while position < len(data):
        size = _LENGTH.unpack_from(data, position + 8)[0]
        end = position + LOG_OVERHEAD + size
        if size < 0 or end > len(data):
            raise CorruptData(f"message of {size} bytes at byte {position} of {len(data)}")
        message = _read_message(data, position, end)
        if message.magic != magic or message.attributes & CODEC_MASK:
            raise CorruptData(
                f"wrapper of magic {magic} holds a message of magic {message.magic}, "
                f"attributes {message.attributes}"
            )
        messages.append(message)
        position = end
    return messages


def _append_set(outer: _Message, messages: list[_Message], from_offset: int, into: Columns) -> None:
    if not messages:
        raise CorruptData(f"compressed message at offset {outer.offset} holds no messages")
    last = messages[-1].offset
    shift = outer.offset - last if outer.magic else 0
    if last + shift > outer.offset:
        raise CorruptData(f"compressed message at offset {outer.offset} ends at offset {last}")
    append_time = outer.magic and outer.attributes & LOG_APPEND_TIME
    for message in messages:
        timestamp = outer.timestamp if append_time else message.timestamp
        _append(message, message.offset + shift, timestamp, from_offset, into)


def _append(
    message: _Message, offset: int, timestamp: int, from_offset: int, into: Columns
) -> None:
    previous = into.last_offset
    if not previous < offset < 1 << 63:
        raise CorruptData(f"offset {offset} follows {previous}: messages are not in order")
    if offset < from_offset:
        return
    into.offsets.append(offset)
    into.timestamps.append(timestamp)
    into.tails.append(
        b"".join((*_field(message.key), *_field(message.value), _NO_HEADERS)),
    )


def _field(data: memoryview | None) -> tuple[Data, ...]:
    return (_NULL,) if data is None else (encode_varint(len(data)), data)


def _read_message(data: memoryview, start: int, end: int) -> _Message:
    offset, _, _, magic, attributes = _ENTRY.unpack_from(data, start)
    position = start + _ENTRY.size
    timestamp = -1
    if magic == 1:
        timestamp = _TIMESTAMP.unpack_from(data, position)[0]
        position += _TIMESTAMP.size
    key, position = _read_field(data, position, end)
    value, position = _read_field(data, position, end)
    if position != end:
        raise CorruptData(f"message at byte {start} ends at byte {position} instead of {end}")
    return _Message(offset, magic, attributes, timestamp, key, value)


def _read_field(data: memoryview, position: int, end: int) -> tuple[memoryview | None, int]:
    length = _LENGTH.unpack_from(data, position)[0]
    position += _LENGTH.size
    if length == -1:
        return None, position
    if length < 0 or position + length > end:
        raise CorruptData(f"field of {length} bytes at byte {position} of a message to {end}")
    return data[position : position + length], position + length
