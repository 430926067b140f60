"""Which way each fetched batch goes: forwarded as bytes, recompressed, or record by record.

Pure decisions on headers (design, "The copier"). A batch goes record by record where its bytes
cannot be accepted as they are, and where it is one of a run of tiny batches, which cost the target
more as batches than as records of one batch.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from connect.errors import CorruptData
from connect.protocol.batches import (
    CODEC_MASK,
    CONTROL,
    BatchHeader,
    abort_marker,
    crc_matches,
    shallow_copy_allowed,
)
from connect.protocol.records import Rebatched, rebatch, recompress
from connectors.mirror.copy.aborted import AbortedTransactions
from connectors.mirror.copy.memory import FetchBuffer, MemoryBudget
from connectors.mirror.copy.partition import Outgoing

__all__ = ["CopyOptions", "Way", "choose", "outgoing_batches"]

TINY_BATCH_RECORDS = 4
TINY_BATCH_BYTES = 8 * 1024
"""Below both, handling the batch costs more than re-encoding its records' three leading varints
(measured: tests/benchmarks/bench_copier.py)."""

TINY_RUN_BATCHES = 4
"""A shorter run gains too little from merging to pay for it."""

KEEP_CODEC = -1
_DEFAULT_BATCH_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class CopyOptions:
    """What the flow asks of every partition. Sizes in bytes."""

    read_committed: bool = False
    codec: int | None = None
    """The codec number that batches must have on the target; None keeps each batch's own."""
    level: int | None = None
    merge_bytes: int = 256 * 1024
    check_crcs: bool = True


class Way(enum.Enum):
    SHALLOW = "shallow"
    RECOMPRESS = "recompress"
    RECORDS = "records"


def choose(header: BatchHeader, position: int, max_bytes: int, options: CopyOptions) -> Way:
    """The way of one data batch, runs of tiny batches aside."""
    if not shallow_copy_allowed(header, position, max_bytes):
        return Way.RECORDS
    if options.codec is not None and header.attributes & CODEC_MASK != options.codec:
        return Way.RECOMPRESS
    return Way.SHALLOW


def _data_batches(
    records: memoryview,
    headers: Sequence[BatchHeader],
    position: int,
    aborted: Sequence[tuple[int, int]],
    options: CopyOptions,
) -> Iterator[BatchHeader]:
    """The batches to copy: checked, not control, not aborted, not wholly before the position."""
    transactions = AbortedTransactions(aborted) if options.read_committed and aborted else None
    for header in headers:
        if options.check_crcs and not crc_matches(records, header):
            raise CorruptData(f"the batch at offset {header.base_offset} fails its CRC")
        if header.attributes & CONTROL:
            if transactions is not None:
                batch = records[header.start : header.start + header.size]
                if abort_marker(batch):
                    transactions.ended(header)
            continue
        if transactions is not None and transactions.aborts(header):
            continue
        if header.next_offset <= position or (header.magic == 2 and header.records == 0):
            continue
        yield header


def _ways(
    batches: Sequence[BatchHeader], position: int, max_bytes: int, options: CopyOptions
) -> list[tuple[Way, list[BatchHeader]]]:
    """Runs of batches that go the same way, with runs of tiny batches turned to RECORDS."""
    runs: list[tuple[Way, bool, list[BatchHeader]]] = []
    for header in batches:
        way = choose(header, position, max_bytes, options)
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
    max_batch_bytes: int,
    aborted: Sequence[tuple[int, int]],
    options: CopyOptions,
    buffer: FetchBuffer,
    budget: MemoryBudget,
) -> list[Outgoing]:
    """One partition's fetched records as batches for the target, in order.

    `position` is the first source offset wanted, `max_batch_bytes` the target's limit (0: not
    known). Shallow batches stay slices of `buffer`; others get memory of their own, charged to
    `budget`.

    Raises:
        CorruptData: a batch fails its CRC, or its records do not parse.
    """
    limit = max_batch_bytes or MAX_UNKNOWN_LIMIT
    wanted = list(_data_batches(records, headers, position, aborted, options))
    outgoing: list[Outgoing] = []
    for way, run in _ways(wanted, position, limit, options):
        if way is Way.RECORDS:
            outgoing += _record_by_record(records, run, position, limit, options, budget)
        elif way is Way.RECOMPRESS:
            outgoing += [_recompressed(records, header, options, budget) for header in run]
        else:
            outgoing += [_shallow(records, header, buffer) for header in run]
    return outgoing


MAX_UNKNOWN_LIMIT = 1 << 30
"""Stands for "no limit known": the target then says so by refusing."""


def _shallow(records: memoryview, header: BatchHeader, buffer: FetchBuffer) -> Outgoing:
    return Outgoing(
        data=records[header.start : header.start + header.size],
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
    data = recompress(batch, options.codec or 0, options.level)
    return Outgoing(
        data=memoryview(data),
        records=header.records,
        runs=((header.base_offset, header.records),),
        resume=header.next_offset,
        max_timestamp=header.max_timestamp,
        shallow=True,
        buffer=FetchBuffer(budget, data),
    )


def _record_by_record(
    records: memoryview,
    run: Sequence[BatchHeader],
    position: int,
    limit: int,
    options: CopyOptions,
    budget: MemoryBudget,
) -> list[Outgoing]:
    batches = [records[header.start : header.start + header.size] for header in run]
    largest = max(header.size for header in run)
    rebatched = rebatch(
        batches,
        from_offset=position,
        codec=KEEP_CODEC if options.codec is None else options.codec,
        level=options.level,
        max_bytes=min(limit, max(options.merge_bytes, largest)),
    )
    outgoing = [from_rebatched(part, FetchBuffer(budget, part.data)) for part in rebatched]
    if outgoing:
        outgoing[-1].resume = run[-1].next_offset
    return outgoing


def from_rebatched(part: Rebatched, buffer: FetchBuffer) -> Outgoing:
    """A re-encoded batch as one for the target."""
    return Outgoing(
        data=memoryview(part.data),
        records=part.records,
        runs=part.runs,
        resume=part.last_source_offset + 1,
        max_timestamp=part.max_timestamp,
        shallow=False,
        buffer=buffer,
    )
