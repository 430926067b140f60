"""Converts fetched batches into batches for the target, each in the way that `choice` chose."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from connect.errors import CorruptData
from connect.plugin import RawRecord
from connect.protocol.aborted_transactions import AbortedTransactions
from connect.protocol.batches import (
    CODEC_MASK,
    CONTROL,
    BatchHeader,
    abort_marker,
    crc_matches,
    read_headers,
    set_crc,
)
from connect.protocol.records import Rebatched, rebatch, recompress, split
from connect.protocol.small_batches import CannotMerge, merge_run
from connectors.mirror.copy.batches.choice import CopyOptions, Way, ways
from connectors.mirror.copy.batches.outgoing import Outgoing, from_rebatched
from connectors.mirror.copy.memory import FetchBuffer, MemoryBudget

__all__ = [
    "Chosen",
    "FetchedRecords",
    "Unreadable",
    "corrupt",
    "outgoing_batches",
    "split_batch",
    "wanted_batches",
]

KEEP_CODEC = -1

_NO_LIMIT = 1 << 30
"""No limit is known. The target rejects a batch that is too large."""


@dataclass(frozen=True, slots=True)
class FetchedRecords:
    """The fetched records of one partition, and how to copy them.

    `position`: the first wanted source offset. `end`: the first unwanted one. `max_batch_bytes`:
    the target's limit (0: not known). The records are in `buffer`. Batches that are not slices of
    it get their own memory, charged to `budget`, which the caller manages with `retain` and
    `release`.
    """

    records: memoryview
    headers: Sequence[BatchHeader]
    position: int
    end: int | None
    max_batch_bytes: int
    aborted: Sequence[tuple[int, int]]
    options: CopyOptions
    buffer: FetchBuffer
    budget: MemoryBudget

    @property
    def limit(self) -> int:
        return self.max_batch_bytes or _NO_LIMIT

    def batch(self, header: BatchHeader) -> memoryview:
        return self.records[header.start : header.start + header.size]

    def resume_after(self, header: BatchHeader) -> int:
        """Return where to continue after this batch, the last one that is copied."""
        after = header.next_offset
        return after if self.end is None else min(after, self.end)


class Unreadable(NamedTuple):
    """The first batch that cannot be copied: the offset from which to fetch it again, and the
    reason. No earlier batch contains a record from `position` on. `record`: the one at `position`,
    if only its transformation failed; None: the batch cannot be read."""

    position: int
    reason: str
    header: BatchHeader
    record: RawRecord | None = None


class Chosen(NamedTuple):
    """The batches for the target, in order, up to the `unreadable` batch if there is one.
    `dropped`: number of records that transformations left out."""

    batches: list[Outgoing]
    unreadable: Unreadable | None
    dropped: int = 0


def _data_batches(fetched: FetchedRecords) -> Iterator[BatchHeader]:
    """Yield the batches to copy, with their CRC checked. Leaves out control batches, aborted
    batches, batches wholly before the position and batches from the end on.

    Raises:
    _Unreadable: the next batch does not match its CRC, or is a control batch with a record that is
    not a marker.
    """
    options, position, end = fetched.options, fetched.position, fetched.end
    transactions = None
    if options.read_committed and fetched.aborted:
        transactions = AbortedTransactions(fetched.aborted)
    for header in fetched.headers:
        if end is not None and header.base_offset >= end:
            return
        if header.batches > 1:
            yield header
            continue
        if options.check_crcs and not crc_matches(fetched.records, header):
            raise _Unreadable(header, "it fails its CRC")
        if header.attributes & CONTROL:
            if transactions is not None and _ends_by_abort(fetched, header):
                transactions.ended(header)
            continue
        if transactions is not None and transactions.aborts(header):
            continue
        if header.next_offset <= position or (header.magic == 2 and header.records == 0):
            continue
        yield header


def _ends_by_abort(fetched: FetchedRecords, header: BatchHeader) -> bool:
    try:
        return abort_marker(fetched.batch(header))
    except CorruptData as error:
        raise _Unreadable(header, str(error)) from error


def outgoing_batches(fetched: FetchedRecords) -> Chosen:
    """Convert fetched records into batches for the target, in order. Shallow batches stay slices of
    the buffer."""
    wanted, unreadable = wanted_batches(fetched)
    outgoing: list[Outgoing] = []
    waiting = deque(_ways(fetched, wanted))
    try:
        while waiting:
            way, run = waiting.popleft()
            if way is Way.RECORDS:
                _record_by_record(fetched, run, outgoing)
            elif way is Way.RECOMPRESS:
                for header in run:  # One by one: those before an unreadable batch stay.
                    outgoing.append(_recompressed(fetched, header))
            elif way is Way.SHALLOW:
                outgoing += [_shallow(fetched, header) for header in run]
            elif not _merged(fetched, run[0], outgoing):
                waiting.extendleft(reversed(_ways(fetched, _batches_of(fetched, run[0]))))
    except _Unreadable as error:
        unreadable = error.at(fetched.position)  # It is before the one that was found first.
    return Chosen(outgoing, unreadable)


def _ways(
    fetched: FetchedRecords, batches: Sequence[BatchHeader]
) -> list[tuple[Way, list[BatchHeader]]]:
    return ways(batches, fetched.position, fetched.limit, fetched.options, fetched.end)


def wanted_batches(fetched: FetchedRecords) -> tuple[list[BatchHeader], Unreadable | None]:
    """Return the batches with records to copy, with their CRC checked, up to the first that cannot
    be read."""
    wanted: list[BatchHeader] = []
    try:
        for header in _data_batches(fetched):
            wanted.append(header)
    except _Unreadable as error:
        return wanted, error.at(fetched.position)
    return wanted, None


class _Unreadable(Exception):
    """The batch with this header cannot be read."""

    def __init__(self, header: BatchHeader, reason: str) -> None:
        super().__init__(reason)
        self.header = header

    def at(self, position: int) -> Unreadable:
        """Return the report for a fetch from `position` on."""
        return corrupt(self.header, position, str(self))


def corrupt(header: BatchHeader, position: int, reason: str) -> Unreadable:
    """Return the report of a corrupt batch that was fetched from `position` on."""
    first = max(position, header.base_offset)
    return Unreadable(first, f"the batch at source offset {first} is corrupt: {reason}", header)


def _shallow(fetched: FetchedRecords, header: BatchHeader) -> Outgoing:
    data = fetched.batch(header)
    if not fetched.options.check_crcs:
        set_crc(data)
    return _whole(header, data, fetched.buffer)


def _recompressed(fetched: FetchedRecords, header: BatchHeader) -> Outgoing:
    options = fetched.options
    try:
        data = recompress(fetched.batch(header), options.codec or 0, options.level)
    except CorruptData as error:
        raise _Unreadable(header, str(error)) from error
    return _whole(header, memoryview(data), FetchBuffer(fetched.budget, data))


def _whole(header: BatchHeader, data: memoryview, buffer: FetchBuffer) -> Outgoing:
    """Return a batch with all records of the one with this header."""
    return Outgoing(
        data=data,
        records=header.records,
        runs=((header.base_offset, header.records),),
        resume=header.next_offset,
        max_timestamp=header.max_timestamp,
        shallow=True,
        buffer=buffer,
    )


def _merged(fetched: FetchedRecords, run: BatchHeader, into: list[Outgoing]) -> bool:
    """Merge a run of small batches. Returns False if that is not possible."""
    options = fetched.options
    largest = min(fetched.limit, options.merge_bytes)
    codec = run.attributes & CODEC_MASK if options.codec is None else options.codec
    try:
        merged = merge_run(fetched.records, run, largest, codec, options.level)
    except (CannotMerge, CorruptData):
        return False
    into += [from_rebatched(part, fetched.budget) for part in merged]
    into[-1].resume = run.next_offset
    return True


def _batches_of(fetched: FetchedRecords, run: BatchHeader) -> list[BatchHeader]:
    headers = read_headers(fetched.batch(run))
    return [
        header._replace(start=run.start + header.start)
        for header in headers
        if not header.attributes & CONTROL
    ]


def _record_by_record(
    fetched: FetchedRecords, run: Sequence[BatchHeader], into: list[Outgoing]
) -> None:
    options = fetched.options
    largest = max(header.size for header in run)
    try:
        rebatched = rebatch(
            [fetched.batch(header) for header in run],
            from_offset=fetched.position,
            until_offset=fetched.end,
            codec=KEEP_CODEC if options.codec is None else options.codec,
            level=options.level,
            max_bytes=min(fetched.limit, max(options.merge_bytes, largest)),
        )
        _check_beginning(rebatched, run[0])
    except CorruptData as error:
        if len(run) == 1:
            raise _Unreadable(run[0], str(error)) from error
        for header in run:  # Only up to the corrupt batch.
            _record_by_record(fetched, [header], into)
        return
    outgoing = [from_rebatched(part, fetched.budget) for part in rebatched]
    if outgoing:
        outgoing[-1].resume = fetched.resume_after(run[-1])
    into += outgoing


def _check_beginning(rebatched: Sequence[Rebatched], header: BatchHeader) -> None:
    """Check where a message of magic 0 or 1 starts, which only decoding shows. If it starts before
    the end of the previous batch, offsets would be copied twice. Raises CorruptData."""
    if rebatched and rebatched[0].runs[0][0] < header.base_offset:
        raise CorruptData(
            f"it starts at offset {rebatched[0].runs[0][0]}, but the previous batch ends at "
            f"{header.base_offset}"
        )


def split_batch(batch: Outgoing, budget: MemoryBudget) -> list[Outgoing]:
    """Return the halves of a batch, as batches that are new. Raises CorruptData."""
    parts = split(batch.data, runs=list(batch.runs))
    halves = [from_rebatched(part, budget) for part in parts]
    halves[-1].resume = batch.resume
    return halves
