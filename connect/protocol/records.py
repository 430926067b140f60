"""Copy records one by one into new plain v2 batches.

Used for batches that cannot be forwarded as they are: compacted batches, LogAppendTime, a delete
horizon, partial overlap with the resume position, batches above the target's limit, old magics,
another codec, and runs of tiny batches, which are merged. Keys, values and headers are not decoded:
`record_columns` carries them as bytes, `record_codec` decodes them.

Pure functions on bytes: safe from any thread, as long as the input buffers do not change.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from connect.errors import CorruptData
from connect.protocol.batches import set_crc
from connect.protocol.compression import DEFAULT_LIMIT, NONE, Data, compress, decompress
from connect.protocol.frame import (
    BATCH_HEADER,
    CODEC_MASK,
    CONTROL,
    HEADER_SIZE,
    LOG_OVERHEAD,
    batch_attributes,
    check_frame,
    verify_crc,
)
from connect.protocol.legacy_records import read_legacy_records
from connect.protocol.record_codec import Record, encode_tail, iter_records
from connect.protocol.record_columns import (
    Columns,
    encode_columns,
    read_batch_records,
    read_single_records,
    record_overhead,
)

__all__ = [
    "KEEP_CODEC",
    "Rebatched",
    "Record",
    "RecordBatcher",
    "iter_records",
    "rebatch",
    "recompress",
    "split",
    "verify_crc",
]

KEEP_CODEC = -1
"""A value for `codec` of `rebatch`: keep the codec of each batch."""

_DRAIN_FACTOR = 4
"""The decompressed data that may wait before complete batches are made of it, in multiples of
max_bytes. This bounds memory, and keeps the share of small last batches low.
"""


@dataclass(slots=True)
class Rebatched:
    """A new v2 batch and the source offsets of its records.

    `data` is the whole batch with its CRC: CreateTime, baseOffset 0, leader epoch -1, no producer
    (-1, -1, -1), which the sender fills in. `records` is recordsCount; offset deltas are 0 to
    records - 1. `runs` are (first source offset, count) of consecutive source offsets, in order;
    the counts sum up to `records`. `max_timestamp` is in ms since the epoch, -1 for none.
    `last_source_offset` is that of the last record.
    """

    data: bytearray
    records: int
    runs: list[tuple[int, int]]
    max_timestamp: int
    last_source_offset: int


def rebatch(
    batches: Sequence[memoryview],
    *,
    from_offset: int,
    until_offset: int | None = None,
    codec: int,
    level: int | None,
    max_bytes: int,
    max_records: int = 16_384,
    max_decompressed: int = DEFAULT_LIMIT,
) -> list[Rebatched]:
    """Re-batch the records from `from_offset` to before `until_offset` of whole data batches.

    The records keep their order and go into as few batches as `max_bytes` (encoded size of each
    batch) and `max_records` allow.

    Input may have magic 0, 1 or 2 (a magic 0 or 1 "batch" is one message of the set, plain or
    compressed wrapper) and any codec. Output has `codec` at `level`, or with KEEP_CODEC the codec
    of its input; then inputs of different codecs are not merged. A batch is filled up to
    `max_bytes` before compression, so compressed ones are smaller. A single record above
    `max_bytes` makes a larger batch of its own. Record attributes, of which none is defined, become
    0.

    `max_decompressed` is the most bytes that one input batch may decompress to. Raises CorruptData,
    before anything is returned, if an input cannot be parsed. CRCs are not checked here.
    """
    writer = _Writer(level, max_bytes, max_records)
    index = 0
    while index < len(batches):
        batch = batches[index]
        own = batch_attributes(batch) & CODEC_MASK
        wanted = own if codec == KEEP_CODEC else codec
        if wanted != writer.codec:
            writer.drain(everything=True)
            writer.codec = wanted
        if own == NONE:
            past = read_single_records(batches, index, from_offset, writer.columns)
            if past > index:
                index = past
                continue
        size = _read_any(batch, from_offset, max_decompressed, writer.columns)
        if until_offset is not None:
            writer.columns.drop_from(until_offset)
        writer.added(size)
        index += 1
    writer.drain(everything=True)
    return writer.made


def split(
    batch: memoryview | bytearray,
    *,
    runs: Sequence[tuple[int, int]],
    level: int | None = None,
    max_decompressed: int = DEFAULT_LIMIT,
) -> list[Rebatched]:
    """Split a magic 2 batch of at least two records into two batches with half the records each.

    Used when the target answers MESSAGE_TOO_LARGE. The codec stays. `runs` are the source offsets
    of its records, as in `Rebatched`, and are split too.

    Raises CorruptData if the batch cannot be parsed, and ValueError if it has fewer than two
    records or `runs` have another count.
    """
    view = memoryview(batch)
    columns = Columns()
    _read_any(view, 0, max_decompressed, columns)
    count = len(columns.offsets)
    if count < 2 or sum(run[1] for run in runs) != count:
        raise ValueError(f"cannot split {count} records with runs {list(runs)} in two")
    columns.offsets = [first + n for first, length in runs for n in range(length)]
    codec, half = batch_attributes(view) & CODEC_MASK, count // 2
    return [
        _encode(columns, 0, half, codec, level),
        _encode(columns, half, count, codec, level),
    ]


def recompress(
    batch: memoryview, codec: int, level: int | None, *, max_decompressed: int = DEFAULT_LIMIT
) -> bytearray:
    """Return a magic 2 batch with its records section recompressed; the records stay as they are.

    In the header only codec, batchLength and CRC change. Raises CorruptData.
    """
    if check_frame(batch) != 2:
        raise CorruptData("only a magic 2 batch can be recompressed")
    section: Data = batch[HEADER_SIZE:]
    header = list(BATCH_HEADER.unpack_from(batch))
    old = header[5] & CODEC_MASK
    if len(section) and old != codec:
        section = compress(codec, decompress(old, section, limit=max_decompressed), level)
    header[1] = HEADER_SIZE - LOG_OVERHEAD + len(section)
    header[5] = header[5] & ~CODEC_MASK | codec
    data = bytearray().join((bytes(HEADER_SIZE), section))
    BATCH_HEADER.pack_into(data, 0, *header)
    set_crc(memoryview(data))
    return data


def _read_any(batch: memoryview, from_offset: int, limit: int, into: Columns) -> int:
    if check_frame(batch) < 2:
        return read_legacy_records(batch, from_offset, limit, into)
    if batch[22] & CONTROL:
        raise CorruptData("cannot re-batch a control batch")
    return read_batch_records(batch, from_offset, limit, into)


class _Writer:
    """Collects columns into batches of at most `max_bytes` and `max_records`."""

    def __init__(self, level: int | None, max_bytes: int, max_records: int) -> None:
        self.codec = -1
        self.columns = Columns()
        self.made: list[Rebatched] = []
        self._level = level
        self._max_bytes = max_bytes
        self._max_records = max_records
        self._waiting = 0

    def added(self, size: int) -> None:
        """Note that `size` more bytes wait outside the input's buffers."""
        self._waiting += size
        if self._waiting > _DRAIN_FACTOR * self._max_bytes:
            self.drain(everything=False)
            self._waiting = 0

    def drain(self, *, everything: bool) -> None:
        """Make batches of the waiting records. `everything` also writes a last batch that is not
        full.
        """
        columns = self.columns
        count = len(columns.offsets)
        if not count:
            return
        overhead = record_overhead(columns, self._max_records)
        ends = list(accumulate(map(overhead.__add__, map(len, columns.tails))))
        start = 0
        while start < count:
            room = self._max_bytes - HEADER_SIZE + (ends[start - 1] if start else 0)
            stop = min(bisect_right(ends, room, start), start + self._max_records)
            if stop >= count and not everything:
                break
            stop = max(stop, start + 1)
            self._make(start, stop)
            start = stop
        columns.drop_first(start)

    def _make(self, start: int, stop: int) -> None:
        made = _encode(self.columns, start, stop, self.codec, self._level)
        if len(made.data) > self._max_bytes and stop - start > 1:
            # The codec's framing makes incompressible data grow.
            middle = (start + stop) // 2
            self._make(start, middle)
            self._make(middle, stop)
        else:
            self.made.append(made)


class RecordBatcher:
    """Makes batches, as `rebatch` does, of records that are given one by one. For one thread."""

    def __init__(self, *, level: int | None, max_bytes: int, max_records: int = 16_384) -> None:
        self._writer = _Writer(level, max_bytes, max_records)

    def use_codec(self, codec: int) -> None:
        """Compress the following records with `codec`. Batches have one codec."""
        if codec != self._writer.codec:
            self._writer.drain(everything=True)
            self._writer.codec = codec

    def add(
        self,
        offset: int,
        timestamp: int,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[tuple[str, bytes | None]],
    ) -> None:
        """Add a record. `offset`: its source offset, above that of the record before."""
        writer, tail = self._writer, encode_tail(key, value, headers)
        writer.columns.offsets.append(offset)
        writer.columns.timestamps.append(timestamp)
        writer.columns.tails.append(tail)
        writer.added(len(tail))

    def finish(self) -> list[Rebatched]:
        """Return the batches. Call it once, after the last record."""
        self._writer.drain(everything=True)
        return self._writer.made


def _encode(columns: Columns, start: int, stop: int, codec: int, level: int | None) -> Rebatched:
    offsets = columns.offsets[start:stop]
    timestamps = columns.timestamps[start:stop]
    data = encode_columns(timestamps, columns.tails[start:stop], codec=codec, level=level)
    return Rebatched(data, stop - start, _runs(offsets), max(timestamps), offsets[-1])


def _runs(offsets: list[int]) -> list[tuple[int, int]]:
    count = len(offsets)
    if offsets[-1] - offsets[0] == count - 1:  # Offsets strictly increase, so there is no gap.
        return [(offsets[0], count)]
    breaks = [
        index for index, (before, after) in enumerate(pairwise(offsets), 1) if after - before != 1
    ]
    starts = [0, *breaks]
    return [
        (offsets[start], stop - start) for start, stop in zip(starts, [*breaks, count], strict=True)
    ]
