"""Batches as the audit sees them: what makes two of them equal at a glance, and their records.

Two batches with the same number of records, the same timestamps in their headers and the same bytes
of records hold the same keys, values, headers and timestamps: a record's own timestamp and offset
are deltas to its batch. That is so for all that was forwarded as bytes, and costs a CRC-32C on each
side. Of others the records themselves are compared, as (timestamp, tail): the tail is a record's
bytes from its key's length on (`connect.protocol.record_columns`). Pure.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

from crc32c import crc32c

from connect.errors import CorruptData
from connect.protocol.batches import (
    CODEC_MASK,
    CONTROL,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    BatchHeader,
    abort_marker,
    crc_matches,
)
from connect.protocol.compression import DEFAULT_LIMIT
from connect.protocol.legacy_records import read_legacy_records
from connect.protocol.record_columns import Columns, read_batch_records
from connectors.mirror.copy.aborted import AbortedTransactions

__all__ = ["AuditBatch", "Fingerprint", "WireBatch", "data_batches"]

_TIMESTAMPS = struct.Struct(">qq")
_TIMESTAMPS_AT = 27


class Fingerprint(NamedTuple):
    """Equal for two batches only if all their records are equal, up to a collision of CRC-32C."""

    records: int
    kind: int
    base_timestamp: int
    max_timestamp: int
    size: int
    crc: int


class AuditBatch(Protocol):
    """One batch of one side."""

    @property
    def first_offset(self) -> int: ...

    @property
    def last_offset(self) -> int: ...

    @property
    def size(self) -> int:
        """In bytes, as it is in the log."""

    @property
    def fingerprint(self) -> Fingerprint | None:
        """None where only its records can be compared."""

    def columns(self) -> Columns:
        """The records that belong to the audited range; tails as bytes. Raises CorruptData."""


class WireBatch:
    """A batch as it was fetched. Holds on to the fetch response's buffer."""

    __slots__ = ("_data", "_end", "_fingerprint", "_header", "_start", "_whole")

    def __init__(self, records: memoryview, header: BatchHeader, start: int, end: int) -> None:
        """Records before offset `start` and from `end` on do not belong to the range."""
        self._data = records[header.start : header.start + header.size]
        self._header = header
        self._start = start
        self._end = end
        self._whole = (
            header.magic == 2 and header.base_offset >= start and header.next_offset <= end
        )
        self._fingerprint: Fingerprint | None = None

    @property
    def first_offset(self) -> int:
        return self._header.base_offset

    @property
    def last_offset(self) -> int:
        return self._header.next_offset - 1

    @property
    def size(self) -> int:
        return self._header.size

    @property
    def fingerprint(self) -> Fingerprint | None:
        if self._whole and self._fingerprint is None:
            header = self._header
            base, newest = _TIMESTAMPS.unpack_from(self._data, _TIMESTAMPS_AT)
            kind = header.attributes & (CODEC_MASK | LOG_APPEND_TIME)
            section = self._data[HEADER_SIZE:]
            self._fingerprint = Fingerprint(
                header.records, kind, base, newest, len(section), crc32c(section)
            )
        return self._fingerprint

    def columns(self) -> Columns:
        found = Columns()
        data = memoryview(bytes(self._data))
        if self._header.magic == 2:
            read_batch_records(data, self._start, DEFAULT_LIMIT, found)
        else:
            read_legacy_records(data, self._start, DEFAULT_LIMIT, found)
        found.drop_from(self._end)
        found.tails = [bytes(tail) for tail in found.tails]
        return found


def data_batches(
    records: memoryview,
    headers: Sequence[BatchHeader],
    aborted: Sequence[tuple[int, int]] | None,
    start: int,
    end: int,
) -> Iterator[WireBatch]:
    """Of one fetched record set, what readers get: no markers, and where `aborted` is given
    (read_committed), nothing of aborted transactions; offsets from `start` to before `end`.

    Raises CorruptData for a batch that fails its CRC.
    """
    transactions = AbortedTransactions(aborted) if aborted else None
    for header in headers:
        if header.base_offset >= end and header.magic == 2:
            return
        if not crc_matches(records, header):
            raise CorruptData(f"the batch at offset {header.base_offset} fails its CRC")
        if header.attributes & CONTROL:
            marker = records[header.start : header.start + header.size]
            if transactions is not None and abort_marker(marker):
                transactions.ended(header)
            continue
        if transactions is not None and transactions.aborts(header):
            continue
        if header.next_offset <= start or (header.magic == 2 and header.records == 0):
            continue
        yield WireBatch(records, header, start, end)
