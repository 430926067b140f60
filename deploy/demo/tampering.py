"""Changes one record in a broker's log files so that brokers and consumers cannot notice.

Simulates damage by a disk or a person, for an audit to find: one byte of a record's value is
changed, and the checksum of its batch is corrected.
"""

from __future__ import annotations

import struct
from pathlib import Path

import crc32c

from connect.errors import DataError
from connect.protocol.batches import BatchHeader, read_headers
from connect.protocol.frame import CRC_START, HEADER_SIZE
from connect.protocol.record_codec import Record, iter_records

__all__ = ["tamper"]

_CODEC_BITS = 7
_CRC = struct.Struct(">I")
_CRC_AT = CRC_START - _CRC.size


def tamper(data: Path, topic: str, partition: int, offset: int) -> tuple[bytes, bytes]:
    """Change a record with a value. `data`: the broker's log directory. The broker may run.

    Returns the value before and after. Raises `DataError` if there is no such record, or its batch
    is compressed.
    """
    where = f"{topic}-{partition}"
    for segment in sorted((data / where).glob("*.log"), reverse=True):
        if int(segment.stem) <= offset:
            return _tamper_in(segment, offset)
    raise DataError(f"{data} has no record at offset {offset} of {where}")


def _tamper_in(segment: Path, offset: int) -> tuple[bytes, bytes]:
    content = memoryview(bytearray(segment.read_bytes()))
    for header in read_headers(content):
        if header.base_offset <= offset < header.next_offset:
            if header.attributes & _CODEC_BITS:
                raise DataError(f"The batch at offset {header.base_offset} is compressed")
            batch = content[header.start : header.start + header.size]
            before, after = _change(batch, offset)
            _write(segment, header, batch)
            return before, after
    raise DataError(f"{segment} has no record at offset {offset}")


def _change(batch: memoryview, offset: int) -> tuple[bytes, bytes]:
    """Change the record in place, and correct the batch's checksum."""
    records = list(iter_records(batch))
    found = bytes(batch)
    at = HEADER_SIZE
    for record in records:
        value = record.value or b""
        at = found.index(value, at)
        if record.offset == offset and value:
            break
        at += len(value)
    else:
        raise DataError(f"There is no record with a value at offset {offset}")
    batch[at] ^= 1
    _CRC.pack_into(batch, _CRC_AT, crc32c.crc32c(batch[CRC_START:]))
    after = list(iter_records(batch))
    _check_one_differs(records, after, offset)
    changed = next(record.value for record in after if record.offset == offset)
    return value, changed or b""


def _check_one_differs(before: list[Record], after: list[Record], offset: int) -> None:
    """Raise unless only this record's value differs, because the value's bytes might occur in
    another field too."""
    differing = [
        old.offset for old, new in zip(before, after, strict=True) if old.value != new.value
    ]
    if differing != [offset]:
        raise DataError(f"The value at offset {offset} was not found in its batch")


def _write(segment: Path, header: BatchHeader, batch: memoryview) -> None:
    with segment.open("r+b") as file:
        file.seek(header.start)
        file.write(batch)
