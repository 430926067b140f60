"""The frame of a record batch: layout, size, magic and checksum.

Every entry of a log begins with baseOffset int64 and a length int32 of what follows; the byte at
position 16 is the magic in all versions. Magic 2 is the record batch of KIP-98; with magic 0 and 1
an entry is one message, plain or a wrapper whose value holds a compressed set of messages.

Pure functions: safe from any thread.
"""

from __future__ import annotations

import struct
import zlib

import crc32c

from connect.errors import CorruptData
from connect.protocol.batches import (
    CODEC_MASK,
    CONTROL,
    DELETE_HORIZON,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    TRANSACTIONAL,
)

__all__ = [
    "BATCH_HEADER",
    "CODEC_MASK",
    "CONTROL",
    "CRC_START",
    "DELETE_HORIZON",
    "HEADER_SIZE",
    "LOG_APPEND_TIME",
    "LOG_OVERHEAD",
    "TRANSACTIONAL",
    "batch_attributes",
    "check_frame",
    "to_int64",
    "verify_crc",
]

BATCH_HEADER = struct.Struct(">qiibIhiqqqhii")
"""baseOffset, batchLength (bytes after this field), partitionLeaderEpoch, magic, crc, attributes,
lastOffsetDelta, baseTimestamp, maxTimestamp, producerId, producerEpoch, baseSequence,
recordsCount."""

CRC_START = 21  # magic 2: the CRC-32C covers everything from the attributes on
_MAGIC_POSITION = 16
_LEGACY_CRC_START = 16  # magic 0 and 1: a CRC-32 of everything from the magic on
_LEGACY_MIN_SIZE = 26  # a magic 0 message without key and value


def check_frame(batch: memoryview) -> int:
    """Check that `batch` is one whole log entry, and return its magic. Raises CorruptData."""
    if len(batch) < _LEGACY_MIN_SIZE:
        raise CorruptData(f"{len(batch)} bytes are too few for a record batch")
    magic = batch[_MAGIC_POSITION]
    length = int.from_bytes(batch[8:12], "big", signed=True)
    if length + LOG_OVERHEAD != len(batch):
        raise CorruptData(f"batch of {len(batch)} bytes has the invalid length field {length}")
    if magic > 2:
        raise CorruptData(f"unknown batch magic {magic}; valid values are 0 to 2")
    if magic == 2 and len(batch) < HEADER_SIZE:
        raise CorruptData(f"{len(batch)} bytes are too few for a record batch header")
    return magic


def batch_attributes(batch: memoryview) -> int:
    """Return the attributes of an entry of any magic. Raises CorruptData."""
    return batch[22] if check_frame(batch) == 2 else batch[17]


def verify_crc(batch: memoryview) -> bool:
    """Return whether the checksum of an entry of any magic is right.

    Raises CorruptData if `batch` is not one whole entry. Messages inside a compressed wrapper have
    their own checksums, which the wrapper's checksum covers.
    """
    if check_frame(batch) == 2:
        return crc32c.crc32c(batch[CRC_START:]) == int.from_bytes(batch[17:21], "big")
    return zlib.crc32(batch[_LEGACY_CRC_START:]) == int.from_bytes(batch[12:16], "big")


def to_int64(value: int) -> int:
    """Wrap `value` into a signed 64-bit number, as Java's long arithmetic does."""
    return (value + (1 << 63) & (1 << 64) - 1) - (1 << 63)
