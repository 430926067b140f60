"""Read record batch headers, and rewrite magic 2 headers in place. Records are not read.

Layout, 61 bytes, big-endian (Kafka protocol, "Record Batch"):

    0  baseOffset int64            21 attributes int16         43 producerId int64
    8  batchLength int32           23 lastOffsetDelta int32    51 producerEpoch int16
    12 partitionLeaderEpoch int32  27 baseTimestamp int64      53 baseSequence int32
    16 magic int8                  35 maxTimestamp int64       57 recordsCount int32
    17 crc uint32 (CRC-32C of everything from attributes on)

`batchLength` counts the bytes after itself, so a batch takes `batchLength + 12` bytes.
attributes: bits 0-2 codec, 3 LogAppendTime, 4 transactional, 5 control, 6 delete horizon.

Pure functions on buffers; safe from any thread that owns the buffer.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from typing import NamedTuple

from crc32c import crc32c

from connect.errors import CorruptData
from connect.protocol.compiled import native

__all__ = [
    "ATTRIBUTES_AT",
    "CODEC_MASK",
    "CONTROL",
    "DELETE_HORIZON",
    "HEADER_SIZE",
    "LOG_APPEND_TIME",
    "LOG_OVERHEAD",
    "TRANSACTIONAL",
    "BatchHeader",
    "abort_marker",
    "crc_matches",
    "read_headers",
    "set_crc",
    "shallow_copy_allowed",
    "stamp_for_produce",
]

HEADER_SIZE = 61
LOG_OVERHEAD = 12
"""Bytes before those that batchLength counts: baseOffset and batchLength itself (magic 0 to 2)."""
ATTRIBUTES_AT = 21
"""The position of the first byte that the CRC covers."""

CODEC_MASK = 0x07
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20
DELETE_HORIZON = 0x40

_NOT_SHALLOW = LOG_APPEND_TIME | CONTROL | DELETE_HORIZON

_HEADER = struct.Struct(">qiibIhiqqqhii")
_OFFSET_LENGTH = struct.Struct(">qi")
_PREFIX = struct.Struct(">qiibI")
_CRC = struct.Struct(">I")
_CRC_AT = 17
_PRODUCER = struct.Struct(">qhi")
_PRODUCER_AT = 43
_MAGIC_AT = 16
_MIN_LEGACY_SIZE = 14
_LEGACY_CRC = struct.Struct(">I")
_LEGACY_CRC_AT = 12
_RECORDS_COUNT = struct.Struct(">i")
_RECORDS_COUNT_AT = 57
_SEQUENCE_SPACE = 1 << 31
_CONTROL_KEY_OFFSET_LIMIT = 80
_LAST_OFFSET = (1 << 63) - 1


class BatchHeader(NamedTuple):
    """The header of one whole batch in a record set. `start` and `size` locate the batch, in bytes.

    All offsets of the batch are in [`base_offset`, `next_offset`). A message of magic 0 or 1 may be
    a compressed set of messages, and its header has only the offset of the last one. `base_offset`
    is then a lower bound: the end of the previous batch, or 0 for the first batch of the record
    set. The real first offset is known only after decompression. For magic 0 and 1 only `start`,
    `size`, `magic`, `crc` and these two offsets are meaningful.
    """

    start: int
    size: int
    base_offset: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    max_timestamp: int
    producer_id: int
    records: int
    batches: int = 1
    """More than 1: a run of adjacent small batches, with this number of batches that have records
    (`small_batches`). `start`, `size`, both offsets and `records` are of the whole run.
    `max_timestamp` is the newest, `attributes` the codec. `crc` and `producer_id` mean nothing."""

    @property
    def next_offset(self) -> int:
        """The first offset after this batch."""
        return self.base_offset + self.last_offset_delta + 1


def read_headers(records: memoryview) -> list[BatchHeader]:
    """Return the headers of the whole batches in a record set, in order.

    A partial batch at the end of a fetch response is ignored.

    Raises:
        CorruptData: a length, magic, count or offset is invalid, or offsets do not increase. No
            checksum covers the offsets.
    """
    headers = _read_headers(records)
    after = 0
    for header in headers:
        base = header.base_offset
        if base < after:
            raise CorruptData(
                f"record batch at offset {base} overlaps the batch before it, which ends before"
                f" offset {after}"
            )
        after = base + header.last_offset_delta + 1
    if after > _LAST_OFFSET:
        raise CorruptData(
            f"record batches end at offset {after - 1}, beyond the largest valid offset"
        )
    return headers


def _read_headers(records: memoryview) -> list[BatchHeader]:
    headers: list[BatchHeader] = []
    append = headers.append
    make = BatchHeader._make
    unpack = _HEADER.unpack_from
    end = len(records)
    at = 0
    while end - at >= HEADER_SIZE:
        fields = unpack(records, at)
        size = fields[1] + LOG_OVERHEAD
        if fields[3] != 2:
            legacy = _legacy_header(records, at, end, headers)
            if legacy is None:
                break
            append(legacy)
            at += legacy.size
            continue
        if size < HEADER_SIZE or fields[6] < 0 or fields[12] < 0:
            raise CorruptData(
                f"record batch at offset {fields[0]}: batchLength {fields[1]}, lastOffsetDelta "
                f"{fields[6]}, recordsCount {fields[12]} are invalid"
            )
        if at + size > end:
            break
        (base, _, _, _, crc, attributes, delta, _, newest, producer, _, _, count) = fields
        append(make((at, size, base, 2, crc, attributes, delta, newest, producer, count, 1)))
        at += size
    else:
        legacy = _legacy_header(records, at, end, headers)
        if legacy is not None:
            append(legacy)
    return headers


def _legacy_header(
    records: memoryview, at: int, end: int, before: Sequence[BatchHeader]
) -> BatchHeader | None:
    """Return the header of the magic 0 or 1 message at `at`, or None if it is incomplete."""
    if end - at <= _MAGIC_AT:
        return None
    offset, length = _OFFSET_LENGTH.unpack_from(records, at)
    magic = records[at + _MAGIC_AT]
    size = length + LOG_OVERHEAD
    if magic == 2:
        return None
    if magic > 1 or length < _MIN_LEGACY_SIZE:
        raise CorruptData(f"message at offset {offset}: magic {magic}, length {length} is invalid")
    if at + size > end:
        return None
    (crc,) = _LEGACY_CRC.unpack_from(records, at + _LEGACY_CRC_AT)
    first = min(before[-1].next_offset if before else 0, offset)
    return BatchHeader(at, size, first, magic, crc, 0, offset - first, -1, -1, 0)


def crc_matches(records: memoryview, header: BatchHeader) -> bool:
    """Return whether a batch's checksum matches its bytes.

    The checksum is a CRC-32C, or a CRC-32 for magic 0 and 1, where it covers compressed messages
    too.
    """
    start = header.start
    if header.magic != 2:
        return zlib.crc32(records[start + _MAGIC_AT : start + header.size]) == header.crc
    return bool(crc32c(records[start + ATTRIBUTES_AT : start + header.size]) == header.crc)


def shallow_copy_allowed(header: BatchHeader, position: int, max_bytes: int) -> bool:
    """Return whether a batch may be forwarded without reading its records.

    `position` is the first source offset that is not copied yet, `max_bytes` the target's limit.
    """
    return (
        header.magic == 2
        and not header.attributes & _NOT_SHALLOW
        and header.records == header.last_offset_delta + 1
        and header.base_offset >= position
        and header.size <= max_bytes
    )


def set_crc(batch: memoryview) -> None:
    """Compute the CRC of a whole magic 2 batch and write it into its header."""
    _CRC.pack_into(batch, _CRC_AT, crc32c(batch[ATTRIBUTES_AT:]))


def stamp_for_produce(
    batch: memoryview,
    producer_id: int,
    producer_epoch: int,
    sequence: int,
    *,
    transactional: bool = False,
) -> None:
    """Rewrite a whole magic 2 batch in place so that a broker accepts it from this producer.

    Sets baseOffset 0, leader epoch -1, the producer's id, epoch and first sequence and the
    transactional bit, and the CRC that follows from the one before, which must be right.
    Idempotent.
    """
    if native is not None:
        # The new CRC follows from the old one and the changed bytes: the records are not read.
        native.stamp(batch, producer_id, producer_epoch, sequence, transactional)
        return
    attributes = batch[ATTRIBUTES_AT + 1] & ~TRANSACTIONAL & 0xFF
    batch[ATTRIBUTES_AT + 1] = attributes | TRANSACTIONAL if transactional else attributes
    _PRODUCER.pack_into(
        batch, _PRODUCER_AT, producer_id, producer_epoch, sequence % _SEQUENCE_SPACE
    )
    length = len(batch) - LOG_OVERHEAD
    _PREFIX.pack_into(batch, 0, 0, length, -1, 2, crc32c(batch[ATTRIBUTES_AT:]))


def abort_marker(batch: memoryview) -> bool:
    """Return whether a control batch aborts a transaction.

    A control record's key is `version int16 | type int16`, where type 0 aborts and 1 commits
    (KIP-98). A control batch without records ends no transaction: compaction removed the marker and
    kept the batch for its producer's epoch.

    Raises:
        CorruptData: the first record has no key of 4 bytes.
    """
    (count,) = _RECORDS_COUNT.unpack_from(batch, _RECORDS_COUNT_AT)
    if count == 0:
        return False
    body = bytes(batch[HEADER_SIZE : HEADER_SIZE + _CONTROL_KEY_OFFSET_LIMIT])
    at = _skip_varints(body, 0, 1) + 1  # length, then attributes
    at = _skip_varints(body, at, 3)  # timestamp delta, offset delta, key length
    if at + 4 > len(body):
        raise CorruptData("control batch without a key of 4 bytes")
    return body[at + 2 : at + 4] == b"\x00\x00"


def _skip_varints(body: Sequence[int], at: int, count: int) -> int:
    for _ in range(count):
        while at < len(body) and body[at] & 0x80:
            at += 1
        at += 1
    return at
