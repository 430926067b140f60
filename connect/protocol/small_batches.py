"""Find runs of small batches in a record set, and merge each run into few large batches.

A batch with one record costs a broker about as much as one with a hundred. In Python each such
batch takes microseconds, so runs are found and merged by a compiled part (`native/`, built with the
package where there is a C compiler). Without it `read_runs` finds no run, and `records.rebatch`
merges small batches record by record: the same records, more slowly.

Keys, values and headers are not read. An LZ4 batch of one record is not decompressed: only the
first literals of its block, which hold the record's offset and timestamp deltas, are replaced, if
nothing later in the block refers to them. Such a merged batch has a block for each record, and the
size that its producers gave it. Other compressed batches are decompressed and compressed together.

Pure functions on buffers; safe from any thread that owns the buffer. The compiled part holds the
GIL for about a millisecond per 4 MiB.
"""

from __future__ import annotations

from collections.abc import Iterator

from connect.protocol.batches import (
    CODEC_MASK,
    CONTROL,
    HEADER_SIZE,
    LOG_OVERHEAD,
    BatchHeader,
    read_headers,
)
from connect.protocol.compiled import native
from connect.protocol.compression import LZ4, NONE, decompress
from connect.protocol.records import Rebatched, recompress

__all__ = ["MAX_BATCH_BYTES", "CannotMerge", "largest_batch", "merge_run", "read_runs"]

MAX_BATCH_BYTES = 8 * 1024
MAX_BATCH_RECORDS = 64
MAX_PACKED_RECORDS = 16
MAX_DENSE_RECORDS = 4
"""Limits of a small batch; `MAX_PACKED_RECORDS` if it is compressed with snappy or lz4,
`MAX_DENSE_RECORDS` with gzip or zstd. Below them, merging costs less than what the target's broker
and our own requests spend on each batch (`docs/contributing/small-batches.md`)."""

MIN_BATCHES = 4
"""Minimum number of batches in a run; fewer gain too little."""

_MAX_MERGED_RECORDS = 16_384
_MAX_UNPACKED_BYTES = 64 * MAX_BATCH_BYTES
"""The most that one small batch may decompress to."""

_PORTION = 4
"""Multiples of `max_bytes` that are decompressed at once. Bounds memory, and keeps the share of
small last batches low."""

_GROWTH = 64
"""Data that cannot be compressed may grow by this fraction, and by as many bytes."""


class CannotMerge(Exception):
    """The records of a run cannot be read, or its batches decompress to too much."""


def read_runs(
    records: memoryview, position: int, max_batch_bytes: int = MAX_BATCH_BYTES
) -> list[BatchHeader]:
    """Return the headers of the whole batches in a record set, in order, as `read_headers` does,
    but with one header for each run of small batches.

    A run has complete batches (not compacted) with the right CRCs, whose records are all at or
    after `position`. None is larger than `max_batch_bytes` or `MAX_BATCH_BYTES`. They have one
    leader epoch and one codec. Control batches may be among them.

    Raises:
        CorruptData: as `read_headers`.
    """
    if native is not None:
        found = native.scan(
            records,
            position,
            min(max_batch_bytes, MAX_BATCH_BYTES),
            MIN_BATCHES,
            MAX_BATCH_RECORDS,
            MAX_PACKED_RECORDS,
            MAX_DENSE_RECORDS,
        )
        if found is not None:
            return list(map(BatchHeader._make, found))
    return read_headers(records)


def largest_batch(header: BatchHeader) -> int:
    """Return the size of a batch, in bytes, or the most that a batch of a run can have."""
    return header.size if header.batches == 1 else MAX_BATCH_BYTES


def merge_run(
    records: memoryview, run: BatchHeader, max_bytes: int, codec: int, level: int | None
) -> list[Rebatched]:
    """Merge a run of `read_runs` into as few batches with this codec as `max_bytes` allows, before
    and after compression. They have their CRCs. A single record above `max_bytes` makes a larger
    batch of its own.

    Raises:
        CannotMerge: nothing was merged.
        CorruptData: data cannot be decompressed; nothing was merged.
    """
    assert native is not None, "only the compiled part finds runs"
    batches = records[run.start : run.start + run.size]
    own = run.attributes & CODEC_MASK
    if codec == own == LZ4:
        try:
            return _merge(batches, max_bytes)
        except CannotMerge:
            pass  # Some have more than one record, or refer to its deltas.
    elif codec == own == NONE:
        return _merge(batches, max_bytes)
    room = max_bytes - max_bytes // _GROWTH - _GROWTH
    merged = []
    for portion in _unpacked(batches, _PORTION * max_bytes) if own else (batches,):
        merged += _merge(portion, room)
    for each in merged if codec else ():
        each.data = recompress(memoryview(each.data), codec, level)
    return merged


def _merge(batches: memoryview, max_bytes: int) -> list[Rebatched]:
    assert native is not None
    try:
        made = native.merge(batches, max_bytes, _MAX_MERGED_RECORDS)
    except ValueError as error:
        raise CannotMerge(str(error)) from error
    return [Rebatched(*part) for part in made]


def _unpacked(batches: memoryview, portion: int) -> Iterator[memoryview]:
    """Yield the batches that have records without compression, about `portion` bytes at a time.
    Their CRCs are wrong."""
    parts: list[bytes | bytearray | memoryview] = []
    size = 0
    for header in read_headers(batches):
        if header.attributes & CONTROL:
            continue
        end = header.start + header.size
        section = decompress(
            header.attributes & CODEC_MASK,
            batches[header.start + HEADER_SIZE : end],
            limit=_MAX_UNPACKED_BYTES,
        )
        head = bytearray(batches[header.start : header.start + HEADER_SIZE])
        head[8:12] = (HEADER_SIZE - LOG_OVERHEAD + len(section)).to_bytes(4, "big")
        head[22] &= ~CODEC_MASK
        parts += (head, section)
        size += len(section)
        if size >= portion:
            yield memoryview(b"".join(parts))
            parts, size = [], 0
    if parts:
        yield memoryview(b"".join(parts))
