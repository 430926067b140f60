"""Decides how each fetched batch is copied: as bytes, recompressed, or record by record.

Pure decisions on batch headers. Runs of small batches are merged (`small_batches`), because many
batches cost the target more than one with the same records. A batch is copied record by record if
the target cannot accept its bytes as they are, or if it is in a run of tiny batches that
`small_batches` cannot merge.
"""

from __future__ import annotations

import enum
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
    shallow_copy_allowed,
)
from connect.protocol.records import Rebatched, rebatch, recompress, split
from connect.protocol.small_batches import CannotMerge, merge_run, read_runs
from connectors.mirror.copy.batches.outgoing import Outgoing, from_rebatched
from connectors.mirror.copy.memory import FetchBuffer, MemoryBudget

__all__ = [
    "Chosen",
    "CopyOptions",
    "Unreadable",
    "Way",
    "choose",
    "corrupt",
    "outgoing_batches",
    "read_batches",
    "split_batch",
    "wanted_batches",
]

TINY_BATCH_RECORDS = 4
TINY_BATCH_BYTES = 8 * 1024
"""Limits of a tiny batch: below both, handling the batch costs more than re-encoding its records'
three leading varints (measured: tests/benchmarks/bench_copier.py)."""

TINY_RUN_BATCHES = 4
"""Minimum number of tiny batches to merge; fewer gain too little."""

KEEP_CODEC = -1
_DEFAULT_BATCH_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class CopyOptions:
    """The flow's settings for every partition. Sizes in bytes."""

    read_committed: bool = False
    codec: int | None = None
    """The compression codec that target batches must have; None keeps each batch's own codec."""
    level: int | None = None
    merge_bytes: int = 256 * 1024
    """The size to which runs of small batches are merged; 0: they are not."""
    check_crcs: bool = True
    """False: batches with a wrong CRC are copied, with the right one."""


class Way(enum.Enum):
    SHALLOW = "shallow"
    RECOMPRESS = "recompress"
    MERGE = "merge"
    RECORDS = "records"


def read_batches(
    records: memoryview,
    *,
    position: int,
    end: int,
    aborted: Sequence[tuple[int, int]],
    options: CopyOptions,
    runs: bool = True,
) -> list[BatchHeader]:
    """Read the headers of one partition's fetched records, with runs of small batches as one if all
    their records are wanted: none is before `position`, at or after `end` (-1: there is no end), or
    of an aborted transaction. `runs` False: each batch by itself.

    Raises:
        CorruptData: as `read_headers`.
    """
    if not runs or (options.read_committed and aborted):
        return read_headers(records)
    headers = read_runs(records, position, options.merge_bytes)
    if headers and 0 <= end < headers[-1].next_offset:
        return read_headers(records)
    return headers


def choose(
    header: BatchHeader,
    position: int,
    max_bytes: int,
    options: CopyOptions,
    end: int | None = None,
) -> Way:
    """Choose how to copy one data batch, without considering runs of tiny batches."""
    if end is not None and header.next_offset > end:
        return Way.RECORDS
    if not shallow_copy_allowed(header, position, max_bytes):
        return Way.RECORDS
    if options.codec is not None and header.attributes & CODEC_MASK != options.codec:
        return Way.RECOMPRESS
    return Way.SHALLOW


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


def _data_batches(
    records: memoryview,
    headers: Sequence[BatchHeader],
    position: int,
    end: int | None,
    aborted: Sequence[tuple[int, int]],
    options: CopyOptions,
) -> Iterator[BatchHeader]:
    """Yield the batches to copy, with their CRC checked. Leaves out control batches, aborted
    batches, batches wholly before the position and batches from the end on.

    Raises:
    _Unreadable: the next batch does not match its CRC, or is a control batch with a record that is
    not a marker.
    """
    transactions = AbortedTransactions(aborted) if options.read_committed and aborted else None
    for header in headers:
        if end is not None and header.base_offset >= end:
            return
        if header.batches > 1:
            yield header
            continue
        if options.check_crcs and not crc_matches(records, header):
            raise _Unreadable(header, "it fails its CRC")
        if header.attributes & CONTROL:
            if transactions is not None and _ends_by_abort(records, header):
                transactions.ended(header)
            continue
        if transactions is not None and transactions.aborts(header):
            continue
        if header.next_offset <= position or (header.magic == 2 and header.records == 0):
            continue
        yield header


def _ends_by_abort(records: memoryview, header: BatchHeader) -> bool:
    try:
        return abort_marker(records[header.start : header.start + header.size])
    except CorruptData as error:
        raise _Unreadable(header, str(error)) from error


def _ways(
    batches: Sequence[BatchHeader],
    position: int,
    max_bytes: int,
    options: CopyOptions,
    end: int | None,
) -> list[tuple[Way, list[BatchHeader]]]:
    """Group consecutive batches that are copied the same way. Runs of small batches are copied as
    MERGE, and the tiny batches that are in none as RECORDS if there are several in a row."""
    runs: list[tuple[Way, bool, list[BatchHeader]]] = []
    for header in batches:
        if header.batches > 1:
            runs.append((Way.MERGE, False, [header]))
            continue
        way = choose(header, position, max_bytes, options, end)
        tiny = header.size <= TINY_BATCH_BYTES and 0 < header.records <= TINY_BATCH_RECORDS
        if runs and runs[-1][0] is way and runs[-1][1] == tiny:
            runs[-1][2].append(header)
        else:
            runs.append((way, tiny, [header]))
    return [
        (Way.RECORDS if tiny and len(run) >= TINY_RUN_BATCHES else way, run)
        for way, tiny, run in runs
    ]


def outgoing_batches(
    records: memoryview,
    headers: Sequence[BatchHeader],
    *,
    position: int,
    end: int | None = None,
    max_batch_bytes: int,
    aborted: Sequence[tuple[int, int]],
    options: CopyOptions,
    buffer: FetchBuffer,
    budget: MemoryBudget,
) -> Chosen:
    """Convert one partition's fetched records into batches for the target, in order.

    `position`: the first wanted source offset. `end`: the first unwanted one. `max_batch_bytes`:
    the target's limit (0: not known). Shallow batches stay slices of `buffer`. Others get their own
    memory, charged to `budget`, which the caller manages with `retain` and `release`.
    """
    limit = max_batch_bytes or MAX_UNKNOWN_LIMIT
    wanted, unreadable = wanted_batches(records, headers, position, end, aborted, options)
    outgoing: list[Outgoing] = []
    waiting = deque(_ways(wanted, position, limit, options, end))
    try:
        while waiting:
            way, run = waiting.popleft()
            if way is Way.RECORDS:
                _record_by_record(records, run, position, end, limit, options, budget, outgoing)
            elif way is Way.RECOMPRESS:
                for header in run:
                    outgoing.append(_recompressed(records, header, options, budget))
            elif way is Way.SHALLOW:
                outgoing += [_shallow(records, header, options, buffer) for header in run]
            elif not _merged(records, run[0], limit, options, budget, outgoing):
                batches = _batches_of(records, run[0])
                waiting.extendleft(reversed(_ways(batches, position, limit, options, end)))
    except _Unreadable as error:
        unreadable = error.at(position)  # It is before the one that was found first.
    return Chosen(outgoing, unreadable)


def wanted_batches(
    records: memoryview,
    headers: Sequence[BatchHeader],
    position: int,
    end: int | None,
    aborted: Sequence[tuple[int, int]],
    options: CopyOptions,
) -> tuple[list[BatchHeader], Unreadable | None]:
    """Return the batches with records to copy, with their CRC checked, up to the first that cannot
    be read."""
    wanted: list[BatchHeader] = []
    try:
        for header in _data_batches(records, headers, position, end, aborted, options):
            wanted.append(header)
    except _Unreadable as error:
        return wanted, error.at(position)
    return wanted, None


class _Unreadable(Exception):
    """The batch with this header cannot be read."""

    def __init__(self, header: BatchHeader, reason: str) -> None:
        super().__init__(reason)
        self.header = header

    def at(self, position: int) -> Unreadable:
        """Return what to report of a fetch from `position` on."""
        return corrupt(self.header, position, str(self))


def corrupt(header: BatchHeader, position: int, reason: str) -> Unreadable:
    """Return what to report of a corrupt batch, fetched from `position` on."""
    first = max(position, header.base_offset)
    return Unreadable(first, f"the batch at source offset {first} is corrupt: {reason}", header)


MAX_UNKNOWN_LIMIT = 1 << 30
"""No limit is known. The target rejects a batch that is too large."""


def _shallow(
    records: memoryview, header: BatchHeader, options: CopyOptions, buffer: FetchBuffer
) -> Outgoing:
    data = records[header.start : header.start + header.size]
    if not options.check_crcs:
        set_crc(data)
    return Outgoing(
        data=data,
        records=header.records,
        runs=((header.base_offset, header.records),),
        resume=header.next_offset,
        max_timestamp=header.max_timestamp,
        shallow=True,
        buffer=buffer,
    )


def _recompressed(
    records: memoryview, header: BatchHeader, options: CopyOptions, budget: MemoryBudget
) -> Outgoing:
    batch = records[header.start : header.start + header.size]
    try:
        data = recompress(batch, options.codec or 0, options.level)
    except CorruptData as error:
        raise _Unreadable(header, str(error)) from error
    return Outgoing(
        data=memoryview(data),
        records=header.records,
        runs=((header.base_offset, header.records),),
        resume=header.next_offset,
        max_timestamp=header.max_timestamp,
        shallow=True,
        buffer=FetchBuffer(budget, data),
    )


def _merged(
    records: memoryview,
    run: BatchHeader,
    limit: int,
    options: CopyOptions,
    budget: MemoryBudget,
    into: list[Outgoing],
) -> bool:
    """Merge a run of small batches. Returns False if that is not possible."""
    codec = run.attributes & CODEC_MASK if options.codec is None else options.codec
    try:
        merged = merge_run(records, run, min(limit, options.merge_bytes), codec, options.level)
    except (CannotMerge, CorruptData):
        return False
    into += [from_rebatched(part, budget) for part in merged]
    into[-1].resume = run.next_offset
    return True


def _batches_of(records: memoryview, run: BatchHeader) -> list[BatchHeader]:
    headers = read_headers(records[run.start : run.start + run.size])
    return [
        header._replace(start=run.start + header.start)
        for header in headers
        if not header.attributes & CONTROL
    ]


def _record_by_record(
    records: memoryview,
    run: Sequence[BatchHeader],
    position: int,
    end: int | None,
    limit: int,
    options: CopyOptions,
    budget: MemoryBudget,
    into: list[Outgoing],
) -> None:
    batches = [records[header.start : header.start + header.size] for header in run]
    largest = max(header.size for header in run)
    try:
        rebatched = rebatch(
            batches,
            from_offset=position,
            until_offset=end,
            codec=KEEP_CODEC if options.codec is None else options.codec,
            level=options.level,
            max_bytes=min(limit, max(options.merge_bytes, largest)),
        )
        _check_beginning(rebatched, run[0])
    except CorruptData as error:
        if len(run) == 1:
            raise _Unreadable(run[0], str(error)) from error
        for header in run:  # Only up to the corrupt batch.
            _record_by_record(records, [header], position, end, limit, options, budget, into)
        return
    outgoing = [from_rebatched(part, budget) for part in rebatched]
    if outgoing:
        resume = run[-1].next_offset
        outgoing[-1].resume = resume if end is None else min(resume, end)
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
