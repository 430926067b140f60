"""Records of batches as columns (offsets, timestamps, tails), for re-batching.

A v2 record (KIP-98) is ``length varint | attributes int8 | timestamp delta varlong | offset delta
varint | tail``; the tail (key, value and headers with their lengths) does not depend on the batch
around it and is carried as an opaque slice. Reading a batch appends to three parallel lists,
writing one takes a slice of them. Work per record: a few table lookups and C-level maps.

Not thread-safe: a `Columns` belongs to one call. The input buffers must not change while it lives.
"""

from __future__ import annotations

import functools
import struct
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import chain
from operator import add

from connect.errors import CorruptData
from connect.protocol.batches import set_crc
from connect.protocol.compression import NONE, Data, compress, decompress
from connect.protocol.frame import (
    BATCH_HEADER,
    CODEC_MASK,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    TRANSACTIONAL,
    to_int64,
)
from connect.protocol.varint import (
    SHORT_LIMIT,
    encode_varint,
    read_varint,
    read_varlong,
    short_varints,
)

__all__ = [
    "Columns",
    "encode_columns",
    "read_batch_records",
    "read_single_records",
    "record_overhead",
]

_MIN_RECORD_SIZE = 7  # One byte for each varint; no key, no value, no headers.

# A batch with one record as a producer sends it (uncompressed, deltas 0): baseOffset, batchLength,
# magic, attributes with lastOffsetDelta, baseTimestamp, maxTimestamp, and recordsCount with the
# first five bytes of the record.
_SINGLE = struct.Struct(">qi4xb4x6sqq14x9s")
_PLAIN = bytes(6)
_IN_TRANSACTION = bytes([0, TRANSACTIONAL, 0, 0, 0, 0])
_STAMPED = bytes([0, LOG_APPEND_TIME, 0, 0, 0, 0])
_STAMPED_IN_TRANSACTION = bytes([0, LOG_APPEND_TIME | TRANSACTIONAL, 0, 0, 0, 0])
# The batchLength from which on the record length takes two bytes.
_TINY = HEADER_SIZE - LOG_OVERHEAD + 1 + 64
# The batchLength from which on it takes three.
_SINGLE_LIMIT = HEADER_SIZE - LOG_OVERHEAD + 2 + 8192


def _single_head(batch_length: int) -> bytes:
    room = batch_length - (HEADER_SIZE - LOG_OVERHEAD)
    length = room - 1 if batch_length < _TINY else room - 2
    return b"\0\0\0\1" + encode_varint(length) + b"\0\0\0"


@functools.cache
def _single_heads() -> Sequence[bytes]:
    """Return, by batchLength, the nine bytes (eight for a tiny record) that _SINGLE must find at
    its end. A batchLength that no encoding of the record length can give has a value that no record
    matches."""
    return [_single_head(n) for n in range(_SINGLE_LIMIT)]


@functools.cache
def _short_stamps() -> Sequence[bytes]:
    """Return the attributes (always 0: KIP-98 defines none for records) followed by the timestamp
    delta, by the delta as in `short_varints`."""
    return [b"\0" + encoded for encoded in short_varints()]


_NO_HEADER = bytes(HEADER_SIZE)


class Columns:
    """Records in order, as parallel lists of source offset, timestamp and tail.

    Timestamps are in ms since the epoch, -1 for none. Offsets strictly increase, also after records
    were dropped.
    """

    __slots__ = ("_last_dropped", "offsets", "tails", "timestamps")

    def __init__(self) -> None:
        self._last_dropped = -1
        self.offsets: list[int] = []
        self.timestamps: list[int] = []
        self.tails: list[Data] = []

    @property
    def last_offset(self) -> int:
        """The offset of the newest record ever added; -1 before the first."""
        return self.offsets[-1] if self.offsets else self._last_dropped

    def drop_from(self, offset: int) -> None:
        """Drop the records at or after `offset`."""
        keep = bisect_left(self.offsets, offset)
        del self.offsets[keep:]
        del self.timestamps[keep:]
        del self.tails[keep:]

    def drop_first(self, count: int) -> None:
        """Drop the first `count` records."""
        if count:
            self._last_dropped = self.offsets[count - 1]
        del self.offsets[:count]
        del self.timestamps[:count]
        del self.tails[:count]


def read_single_records(
    batches: Sequence[memoryview], start: int, from_offset: int, into: Columns
) -> int:
    """Append the records of plain one-record batches from `batches[start:]`.

    Stops at the first batch that has another shape or lies before `from_offset`, and returns its
    index for `read_batch_records`. Raises CorruptData if an offset is not above the one before.
    """
    unpack = _SINGLE.unpack_from
    heads = _single_heads()
    usual, stamped = (_PLAIN, _IN_TRANSACTION), (_STAMPED, _STAMPED_IN_TRANSACTION)
    offsets, timestamps, tails = into.offsets, into.timestamps, into.tails
    previous = into.last_offset
    for index in range(start, len(batches)):
        batch = batches[index]
        try:
            offset, length, magic, attributes, timestamp, newest, head = unpack(batch)
        except struct.error:
            return index
        if (
            offset < from_offset
            or magic != 2
            or not 0 < length < _SINGLE_LIMIT
            or len(batch) != length + LOG_OVERHEAD
        ):
            return index
        if attributes not in usual:
            if attributes not in stamped:
                return index
            timestamp = newest
        if head == heads[length]:
            tail = batch[66:]
        elif length < _TINY and head.startswith(heads[length]):
            tail = batch[65:]
        else:
            return index
        if offset <= previous:
            raise CorruptData(f"offset {offset} follows {previous}: batches are not in order")
        previous = offset
        offsets.append(offset)
        timestamps.append(timestamp)
        tails.append(tail)
    return len(batches)


def read_batch_records(
    batch: memoryview | bytes, from_offset: int, limit: int, into: Columns
) -> int:
    """Append the records at or after `from_offset` of a whole magic 2 batch.

    Returns the decompressed size of its records in bytes; `limit` is the most allowed. Raises
    CorruptData if the header, the compression or the leading fields of a record do not match. Tails
    are not checked.
    """
    header = BATCH_HEADER.unpack_from(batch)
    base_offset, attributes, last_delta = header[0], header[5], header[6]
    base_timestamp, max_timestamp, count = header[7], header[8], header[12]
    section: Data = batch[HEADER_SIZE:]
    if attributes & CODEC_MASK and (count or len(section)):
        section = decompress(attributes & CODEC_MASK, section, limit=limit)
    if count < 0 or count * _MIN_RECORD_SIZE > len(section):
        raise CorruptData(f"batch has the invalid record count {count} for {len(section)} bytes")
    first = len(into.offsets)
    previous = into.last_offset
    if base_offset <= previous or base_offset < 0:
        raise CorruptData(f"offset {base_offset} follows {previous}: batches are not in order")
    try:
        last = _read_records(section, count, base_offset, base_timestamp, into)
    except IndexError:
        raise CorruptData("record runs over the end of its batch") from None
    if last > last_delta or base_offset + last_delta >= 1 << 63:
        raise CorruptData(
            f"record has offset delta {last}, beyond the batch's last delta {last_delta}"
        )
    if attributes & LOG_APPEND_TIME:
        into.timestamps[first:] = [max_timestamp] * count
    elif count and not _fits_int64(into.timestamps, first):
        into.timestamps[first:] = map(to_int64, into.timestamps[first:])
    if count and into.offsets[first] < from_offset:
        _drop_before(from_offset, first, into)
    return len(section)


def _fits_int64(values: list[int], first: int) -> bool:
    part = values[first:]
    return min(part) >= -(1 << 63) and max(part) < 1 << 63


def _drop_before(from_offset: int, first: int, columns: Columns) -> None:
    keep = first
    while keep < len(columns.offsets) and columns.offsets[keep] < from_offset:
        keep += 1
    del columns.offsets[first:keep]
    del columns.timestamps[first:keep]
    del columns.tails[first:keep]


def _read_records(
    section: Data,
    count: int,
    base_offset: int,
    base_timestamp: int,
    into: Columns,
) -> int:
    """Append `count` records. Return the last offset delta, -1 if there are no records.

    Reads the three leading varints inline if they take one or two bytes. IndexError means that a
    record runs over the end.
    """
    add_offset, add_timestamp = into.offsets.append, into.timestamps.append
    add_tail = into.tails.append
    position = 0
    previous = -1
    for _ in range(count):
        value = section[position]
        if value < 0x80:
            position += 1
        elif (high := section[position + 1]) < 0x80:
            value = value & 0x7F | high << 7
            position += 2
        else:
            length, position = read_varint(section, position)
            value = length << 1 if length >= 0 else 1
        if value & 1:
            raise CorruptData(f"record at byte {position} has a negative length")
        end = position + (value >> 1)
        value = section[position + 1]
        if value < 0x80:
            position += 2
            delta = (value >> 1) ^ -(value & 1)
        elif (high := section[position + 2]) < 0x80:
            value = value & 0x7F | high << 7
            position += 3
            delta = (value >> 1) ^ -(value & 1)
        else:
            delta, position = read_varlong(section, position + 1)
        add_timestamp(base_timestamp + delta)
        value = section[position]
        if value < 0x80:
            position += 1
        elif (high := section[position + 1]) < 0x80:
            value = value & 0x7F | high << 7
            position += 2
        else:
            delta, position = read_varint(section, position)
            value = delta << 1 if delta >= 0 else 1
        delta = value >> 1
        if value & 1 or delta <= previous or position > end:
            raise CorruptData(f"record at byte {position} has a wrong offset delta or length")
        previous = delta
        add_offset(base_offset + delta)
        add_tail(section[position:end])
        position = end
    if position != len(section):
        raise CorruptData(f"records end at byte {position} of {len(section)}")
    return previous


def record_overhead(columns: Columns, max_records: int) -> int:
    """Return the most bytes that any of these records takes in a new batch besides its tail."""
    if not columns.offsets:
        return 0
    span = max(columns.timestamps) - min(columns.timestamps)
    stamp = len(encode_varint(to_int64(-span))) if span < 1 << 63 else 10
    offset = len(encode_varint(min(max_records, len(columns.offsets))))
    inner = 1 + stamp + offset
    return inner + len(encode_varint(max(map(len, columns.tails)) + inner))


def encode_columns(
    timestamps: list[int], tails: list[Data], *, codec: int, level: int | None
) -> bytearray:
    """Encode these records as one v2 batch.

    The batch has CreateTime, baseOffset 0, no leader epoch, no producer and its CRC. Offset deltas
    are 0 to n - 1, and the first timestamp is the base, as in Java's builder.
    """
    count = len(tails)
    base, newest = timestamps[0], max(timestamps)
    if newest - base < SHORT_LIMIT and base - min(timestamps) <= SHORT_LIMIT:
        short = _short_stamps()
        stamps = [short[timestamp - base] for timestamp in timestamps]
    else:
        stamps = [b"\0" + encode_varint(to_int64(stamp - base)) for stamp in timestamps]
    leads: list[bytes] = list(map(add, stamps, _offset_deltas(count)))
    sizes = list(map(add, map(len, leads), map(len, tails)))
    lengths: Iterable[bytes]
    if max(sizes) < SHORT_LIMIT:
        lengths = map(short_varints().__getitem__, sizes)
    else:
        lengths = map(encode_varint, sizes)
    pieces: Iterable[Data] = chain.from_iterable(zip(lengths, leads, tails, strict=True))
    if codec == NONE:
        data = bytearray().join(chain((_NO_HEADER,), pieces))
    else:
        data = bytearray().join((_NO_HEADER, compress(codec, b"".join(pieces), level)))
    BATCH_HEADER.pack_into(
        data, 0, 0, len(data) - LOG_OVERHEAD, -1, 2, 0, codec, count - 1, base, newest,
        -1, -1, -1, count,
    )  # fmt: skip
    set_crc(memoryview(data))
    return data


def _offset_deltas(count: int) -> Sequence[bytes]:
    if count <= SHORT_LIMIT:
        return short_varints()[:count]
    return [*short_varints()[:SHORT_LIMIT], *map(encode_varint, range(SHORT_LIMIT, count))]
