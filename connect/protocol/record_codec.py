"""Encode and decode records with all their fields.

Used by single-message transforms, checks and tools. The copier does not decode records and
uses `records` instead. Pure functions: safe from any thread.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import crc32c

from connect.errors import CorruptData
from connect.protocol.compression import DEFAULT_LIMIT, Data
from connect.protocol.frame import (
    BATCH_HEADER,
    CRC_START,
    HEADER_SIZE,
    LOG_OVERHEAD,
    check_frame,
    to_int64,
)
from connect.protocol.legacy_records import read_legacy_records
from connect.protocol.record_columns import Columns, read_batch_records
from connect.protocol.varint import SHORT_LIMIT, encode_varint, read_varint, short_varints

__all__ = [
    "Record",
    "RecordFields",
    "TailFields",
    "encode_batch",
    "encode_record",
    "encode_tail",
    "iter_fields",
    "iter_records",
    "tail_fields",
]


@dataclass(frozen=True, slots=True)
class Record:
    """One record. `timestamp` is in ms since the epoch, -1 for none.

    Key, value and header values may be None. Headers keep their order and may repeat a key. A key
    that is not UTF-8 is kept with surrogate escapes, so that encoding gives the same bytes.
    """

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


RecordFields = tuple[int, int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]
"""Offset, timestamp, key, value and headers of a record."""

TailFields = tuple[bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]
"""Key, value and headers of a record."""


def iter_records(
    batch: memoryview | bytearray | bytes, *, max_decompressed: int = DEFAULT_LIMIT
) -> Iterator[Record]:
    """Yield the records of one whole batch of any magic and codec. A control batch yields its
    markers.

    Raises CorruptData if any byte of the batch is invalid. Records before the invalid one may have
    been yielded by then.
    """
    for fields in iter_fields(batch, max_decompressed=max_decompressed):
        yield Record(*fields)


def iter_fields(
    batch: memoryview | bytearray | bytes,
    *,
    from_offset: int = 0,
    max_decompressed: int = DEFAULT_LIMIT,
) -> Iterator[RecordFields]:
    """Yield each record's fields as a tuple, from an offset on. Cheaper than `iter_records`."""
    view = memoryview(batch)
    columns = Columns()
    if check_frame(view) == 2:  # Fields are read faster from bytes than from a view.
        read_batch_records(bytes(view), from_offset, max_decompressed, columns)
    else:
        read_legacy_records(view, from_offset, max_decompressed, columns)
    for offset, timestamp, tail in zip(
        columns.offsets, columns.timestamps, columns.tails, strict=True
    ):
        data = bytes(tail)
        try:  # As in `tail_fields`: a call for each record would cost 6 %.
            plain = _plain_fields(data)
        except IndexError:
            plain = None
        if plain is None:
            yield (offset, timestamp, *_decode_tail(offset, data))
        else:
            yield (offset, timestamp, *plain, ())


def tail_fields(offset: int, tail: bytes) -> TailFields:
    """Return key, value and headers of a record's tail, as `encode_tail` made it. `offset`: of the
    record, for errors. Raises CorruptData."""
    try:
        plain = _plain_fields(tail)
    except IndexError:
        plain = None
    return _decode_tail(offset, tail) if plain is None else (*plain, ())


def _plain_fields(tail: bytes) -> tuple[bytes | None, bytes | None] | None:
    """Return key and value if their lengths take at most two bytes and there are no headers.

    Most records are like that. None or IndexError: this one is not, or is corrupt.
    """
    length, start = tail[0], 1
    if length & 0x80:
        length, start = length & 0x7F | tail[1] << 7, 2
    key = None
    if length != 1:
        if length & 0x4001:  # Negative, or a third byte.
            return None
        end = start + (length >> 1)
        key = tail[start:end]
        start = end
    length = tail[start]
    start += 1
    if length & 0x80:
        length, start = length & 0x7F | tail[start] << 7, start + 1
    value = None
    if length != 1:
        if length & 0x4001:
            return None
        end = start + (length >> 1)
        value = tail[start:end]
        start = end
    return (key, value) if tail[start] == 0 and start + 1 == len(tail) else None


def _decode_tail(offset: int, tail: Data) -> TailFields:
    key, position = _nullable(tail, 0)
    value, position = _nullable(tail, position)
    count, position = read_varint(tail, position)
    if not 0 <= count <= len(tail):
        raise CorruptData(f"record at offset {offset} claims {count} headers")
    headers = []
    for _ in range(count):
        name, position = _nullable(tail, position)
        if name is None:
            raise CorruptData(f"record at offset {offset} has a header without a key")
        content, position = _nullable(tail, position)
        headers.append((name.decode("utf-8", "surrogateescape"), content))
    if position != len(tail):
        raise CorruptData(f"record at offset {offset} has {len(tail) - position} bytes too many")
    return key, value, tuple(headers)


def _nullable(data: Data, position: int) -> tuple[bytes | None, int]:
    try:  # Most lengths take one or two bytes.
        value = data[position]
        if value < 0x80:
            position += 1
            length = (value >> 1) ^ -(value & 1)
        elif (high := data[position + 1]) < 0x80:
            value = value & 0x7F | high << 7
            position += 2
            length = (value >> 1) ^ -(value & 1)
        else:
            length, position = read_varint(data, position)
    except IndexError:
        raise CorruptData(f"a length runs over the end of {len(data)} bytes") from None
    if length == -1:
        return None, position
    end = position + length
    if length < 0 or end > len(data):
        raise CorruptData(f"field of {length} bytes at byte {position} of {len(data)}")
    return bytes(data[position:end]), end


def encode_batch(records: Sequence[Record]) -> bytes:
    """Encode `records`, whose offsets count from 0, as an uncompressed v2 batch with its CRC."""
    stamps = [record.timestamp for record in records]
    section = b"".join(encode_record(record, 0, stamps[0]) for record in records)
    data = bytearray().join((bytes(HEADER_SIZE), section))
    fields = [
        0, len(data) - LOG_OVERHEAD, -1, 2, 0, 0, len(records) - 1,
        stamps[0], max(stamps), -1, -1, -1, len(records),
    ]  # fmt: skip
    BATCH_HEADER.pack_into(data, 0, *fields)
    fields[4] = crc32c.crc32c(memoryview(data)[CRC_START:])
    BATCH_HEADER.pack_into(data, 0, *fields)
    return bytes(data)


def encode_record(record: Record, base_offset: int, base_timestamp: int) -> bytes:
    """Encode a record of a batch with this first offset and timestamp."""
    body = b"".join(
        (
            b"\0",
            encode_varint(to_int64(record.timestamp - base_timestamp)),
            encode_varint(record.offset - base_offset),
            encode_tail(record.key, record.value, record.headers),
        )
    )
    return encode_varint(len(body)) + body


def encode_tail(
    key: bytes | None, value: bytes | None, headers: Sequence[tuple[str, bytes | None]]
) -> bytes:
    """Return the part of a record that does not depend on the batch around it."""
    parts = [_size_of(key), key or b"", _size_of(value), value or b"", _length(len(headers))]
    for name, content in headers:
        data = name.encode("utf-8", "surrogateescape")
        parts += (_size_of(data), data, _size_of(content), content or b"")
    return b"".join(parts)


def _size_of(data: bytes | None) -> bytes:
    """Return the length of a field, which is -1 for null."""
    return b"\x01" if data is None else _length(len(data))


def _length(size: int) -> bytes:
    return short_varints()[size] if size < SHORT_LIMIT else encode_varint(size)
