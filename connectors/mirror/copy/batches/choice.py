"""Chooses how each batch is copied: as bytes, recompressed, merged, or record by record.

Pure decisions on batch headers. Runs of small batches are merged (`small_batches`), because many
batches cost the target more than one with the same records. A batch is copied record by record if
the target cannot accept its bytes as they are, or if it is in a run of tiny batches that
`small_batches` cannot merge.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass

from connect.protocol.batches import (
    CODEC_MASK,
    BatchHeader,
    read_headers,
    shallow_copy_allowed,
)
from connect.protocol.small_batches import read_runs

__all__ = ["CopyOptions", "Way", "choose", "read_batches", "ways"]

TINY_BATCH_RECORDS = 4
TINY_BATCH_BYTES = 8 * 1024
"""Limits of a tiny batch: below both, handling the batch costs more than re-encoding its records'
three leading varints (measured: tests/benchmarks/bench_copier.py)."""

TINY_RUN_BATCHES = 4
"""Minimum number of tiny batches to merge; fewer gain too little."""


@dataclass(frozen=True, slots=True)
class CopyOptions:
    """The flow's settings for every partition. Sizes in bytes."""

    read_committed: bool = False
    codec: int | None = None
    """The compression codec that target batches must have; None keeps each batch's own codec."""
    level: int | None = None
    merge_bytes: int = 256 * 1024
    """The size to which runs of small batches are merged; 0: they are not merged."""
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


def ways(
    batches: Sequence[BatchHeader],
    position: int,
    max_bytes: int,
    options: CopyOptions,
    end: int | None,
) -> list[tuple[Way, list[BatchHeader]]]:
    """Group consecutive batches that are copied the same way. Runs of small batches are copied as
    MERGE, and several tiny batches in a row outside these runs as RECORDS."""
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
