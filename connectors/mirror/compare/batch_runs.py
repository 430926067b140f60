"""Batches as the audit compares them: fast equality checks of whole batches, and their records.

A record's timestamp and offset are deltas to those of its batch. So two batches are equal if they
have the same number of records, the same timestamps in their headers and the same records bytes.
Three CRC-32Cs check this for a whole run of batches in one loop. It covers all batches that were
forwarded as bytes. The records of other batches are compared as (timestamp, tail): the tail is the
bytes of a record from its key's length on (`connect.protocol.record_columns`). Pure.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple, Protocol

from crc32c import crc32c

from connect.clients.cluster.partition_reader import FetchedBatches
from connect.errors import CorruptData
from connect.protocol.aborted_transactions import AbortedTransactions
from connect.protocol.batches import (
    ATTRIBUTES_AT,
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

__all__ = [
    "NOTHING_EQUAL",
    "AuditBatch",
    "BatchRun",
    "EqualBatches",
    "WireBatch",
    "WireRun",
    "wire_runs",
]

_TIMESTAMPS = struct.Struct(">qq")
_TIMESTAMPS_AT = 27
_EPOCH = struct.Struct(">i")
_EPOCH_AT = 12
_LEGACY_ATTRIBUTES_AT = 17
_KIND = CODEC_MASK | LOG_APPEND_TIME


class EqualBatches(NamedTuple):
    """Batches of two runs that are pairwise equal, except for a CRC-32C collision."""

    batches: int
    records: int
    last_source: int
    last_target: int
    """The offsets of the last batch's last record."""
    marks: bytes
    """Input of the checksums: eight bytes per batch, independent of how runs are cut."""


NOTHING_EQUAL = EqualBatches(0, 0, -1, -1, b"")


class AuditBatch(Protocol):
    """One batch of one side."""

    def columns(self) -> Columns:
        """Return the records in the audited range, with their tails as bytes. Raises
        CorruptData."""


class BatchRun(Protocol):
    """Consecutive batches of one side in memory."""

    @property
    def size(self) -> int:
        """Return the size in the log, in bytes."""

    def __len__(self) -> int: ...

    def __getitem__(self, index: int) -> AuditBatch: ...

    def spans(self, at: int, batches: int) -> list[tuple[int, int]]:
        """Return (first offset, record count) of `batches` batches from `at` on. Ends before a
        batch with gaps between its offsets."""

    def equal_batches(self, at: int, target: BatchRun, target_at: int) -> EqualBatches:
        """Count the batches of this source run from `at` on that equal the target's from
        `target_at` on. Stops where whole batches cannot be compared. Raises CorruptData."""


class WireBatch:
    """A fetched batch. Keeps the fetch response's buffer alive."""

    __slots__ = ("_data", "_end", "_header", "_start")

    def __init__(self, data: memoryview, header: BatchHeader, start: int, end: int) -> None:
        """Records before offset `start` and from offset `end` on are outside the range."""
        self._data = data
        self._header = header
        self._start = start
        self._end = end

    @property
    def append_time(self) -> bool:
        """Whether the broker set the timestamps."""
        if self._header.magic == 2:
            return bool(self._header.attributes & LOG_APPEND_TIME)
        return bool(self._data[_LEGACY_ATTRIBUTES_AT] & LOG_APPEND_TIME)

    @property
    def leader_epoch(self) -> int:
        """Return the leader epoch in which the broker appended it; -1 if not known."""
        if self._header.magic != 2:
            return -1
        epoch: int = _EPOCH.unpack_from(self._data, _EPOCH_AT)[0]
        return epoch

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


class WireRun:
    """The batches of one fetched record set that consumers see, for offsets from `start` to before
    `end`.

    Control batches are left out; with `aborted` given (read_committed), aborted batches too. Keeps
    the fetch response's buffer alive. The CRC of every batch is checked before its use, and that of
    skipped batches in the constructor. Raises CorruptData if it does not match.
    """

    def __init__(
        self,
        records: memoryview,
        headers: Sequence[BatchHeader],
        aborted: Sequence[tuple[int, int]] | None,
        start: int,
        end: int,
    ) -> None:
        self._records = records
        self._start = start
        self._end = end
        self._headers = list(self._readable(headers, aborted))
        self.size = sum([header.size for header in self._headers])

    def __len__(self) -> int:
        return len(self._headers)

    def __getitem__(self, index: int) -> WireBatch:
        """Return one batch. Raises CorruptData."""
        header = self._headers[index]
        self._check(header)
        data = self._records[header.start : header.start + header.size]
        return WireBatch(data, header, self._start, self._end)

    def __iter__(self) -> Iterator[WireBatch]:
        return map(self.__getitem__, range(len(self)))

    def spans(self, at: int, batches: int) -> list[tuple[int, int]]:
        found: list[tuple[int, int]] = []
        for header in self._headers[at : at + batches]:
            if header.records != header.last_offset_delta + 1:
                break
            found.append((header.base_offset, header.records))
        return found

    def equal_batches(self, at: int, target: BatchRun, target_at: int) -> EqualBatches:
        """Compare two WireRuns by CRC.

        The target's CRC must match the target's records, and also the source's records put in their
        place. Then both are equal. The source's batch is checked with its own CRC.
        """
        if not isinstance(target, WireRun):
            return NOTHING_EQUAL
        ours, theirs = self._records, target._records
        last, last_there = None, None
        records = 0
        marks: list[int] = []
        for mine, other in zip(
            islice(self._headers, at, None), islice(target._headers, target_at, None), strict=False
        ):
            if not (
                self._alike(mine, target, other) and self._whole(mine) and target._whole(other)
            ):
                break
            covered, end = mine.start + ATTRIBUTES_AT, mine.start + mine.size
            covered_there, end_there = other.start + ATTRIBUTES_AT, other.start + other.size
            if crc32c(ours[covered:end]) != mine.crc:
                raise _corrupt(mine)
            if crc32c(theirs[covered_there:end_there]) != other.crc:
                raise _corrupt(other)
            head = crc32c(theirs[covered_there : other.start + HEADER_SIZE])
            if crc32c(ours[mine.start + HEADER_SIZE : end], head) != other.crc:
                break
            last, last_there = mine, other
            records += mine.records
            marks += (mine.records, mine.crc)
        if last is None or last_there is None:
            return NOTHING_EQUAL
        return EqualBatches(
            batches=len(marks) // 2,
            records=records,
            last_source=last.next_offset - 1,
            last_target=last_there.next_offset - 1,
            marks=array("I", marks).tobytes(),
        )

    def _alike(self, mine: BatchHeader, target: WireRun, other: BatchHeader) -> bool:
        """Whether two batch headers are equal, so that only the records remain to be compared."""
        return (
            mine.size == other.size
            and mine.records == other.records
            and not (mine.attributes ^ other.attributes) & _KIND
            and _TIMESTAMPS.unpack_from(self._records, mine.start + _TIMESTAMPS_AT)
            == _TIMESTAMPS.unpack_from(target._records, other.start + _TIMESTAMPS_AT)
        )

    def _whole(self, header: BatchHeader) -> bool:
        """Whether the whole batch is in the range."""
        return (
            header.magic == 2
            and header.base_offset >= self._start
            and header.base_offset + header.last_offset_delta < self._end
        )

    def _check(self, header: BatchHeader) -> None:
        if not crc_matches(self._records, header):
            raise _corrupt(header)

    def _readable(
        self, headers: Sequence[BatchHeader], aborted: Sequence[tuple[int, int]] | None
    ) -> Iterator[BatchHeader]:
        transactions = AbortedTransactions(aborted) if aborted else None
        for header in headers:
            if header.base_offset >= self._end:
                return
            if header.attributes & CONTROL:
                self._check(header)
                marker = self._records[header.start : header.start + header.size]
                if transactions is not None and abort_marker(marker):
                    transactions.ended(header)
            elif transactions is not None and transactions.aborts(header):
                self._check(header)
            elif header.next_offset > self._start and (header.magic != 2 or header.records):
                yield header


def wire_runs(
    answers: Iterable[FetchedBatches], start: int, end: int, *, committed: bool
) -> Iterator[WireRun]:
    """Yield the batches of these offsets that consumers see, fetch by fetch. `committed`: without
    aborted batches."""
    for fetched in answers:
        aborted = fetched.aborted if committed else None
        yield WireRun(fetched.records, fetched.headers, aborted, start, end)


def _corrupt(header: BatchHeader) -> CorruptData:
    last = header.next_offset - 1
    where = f"at offset {header.base_offset}" if header.magic == 2 else f"to offset {last}"
    return CorruptData(f"the batch {where} fails its CRC")
