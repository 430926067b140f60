"""Record sets as a broker holds them, of every kind of batch, and what a consumer reads of them.

The log is made by hand where `encode_batch` cannot make it: messages of magic 0 and 1. Used by
property tests of whatever reads fetched records.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from hypothesis import strategies as st

from connect.protocol.compression import GZIP, LZ4, NONE, SNAPPY, compress
from connect.protocol.record_codec import Record, iter_records
from connectors.mirror.copy.batches.outgoing import Outgoing
from tests.support.records.batches import encode_batch

__all__ = [
    "LoggedBatch",
    "SourceLog",
    "copied_records",
    "legacy_message",
    "legacy_wrapper",
    "source_logs",
]

_TIME = 1_700_000_000_000
_ABORT, _COMMIT = b"\x00\x00\x00\x00", b"\x00\x00\x00\x01"
_LOG_APPEND_TIME = 0x08
_LEGACY_CODECS = (GZIP, SNAPPY, LZ4)


def copied_records(batches: Sequence[Outgoing]) -> list[Record]:
    """The records of batches for the target, under their source offsets."""
    records = []
    for batch in batches:
        offsets = [first + n for first, count in batch.runs for n in range(count)]
        for offset, record in zip(offsets, iter_records(batch.data), strict=True):
            records.append(replace(record, offset=offset))
    return records


def legacy_message(record: Record, magic: int) -> bytes:
    """One plain message of magic 0, which has no timestamp, or 1."""
    return _entry(record.offset, magic, 0, record.timestamp, record.key, record.value)


def legacy_wrapper(
    records: Sequence[Record], magic: int, codec: int = GZIP, append_time: int | None = None
) -> bytes:
    """A compressed set of messages, as a broker stores it: it has the offset of its last message.
    The offsets inside are relative to the first with magic 1, and absolute with magic 0.
    `append_time`: the wrapper's timestamp (ms) counts for each of its messages; magic 1 only."""
    first = records[0].offset if magic else 0
    inside = b"".join(legacy_message(replace(r, offset=r.offset - first), magic) for r in records)
    attributes = codec | (0 if append_time is None else _LOG_APPEND_TIME)
    newest = max(r.timestamp for r in records) if append_time is None else append_time
    value = bytes(compress(codec, inside))
    return _entry(records[-1].offset, magic, attributes, newest, None, value)


def _entry(
    offset: int,
    magic: int,
    attributes: int,
    timestamp: int,
    key: bytes | None,
    value: bytes | None,
) -> bytes:
    body = struct.pack(">bb", magic, attributes)
    if magic:
        body += struct.pack(">q", timestamp)
    for data in (key, value):
        body += struct.pack(">i", -1 if data is None else len(data)) + (data or b"")
    return struct.pack(">qiI", offset, 4 + len(body), zlib.crc32(body)) + body


@dataclass(frozen=True)
class LoggedBatch:
    """`records`: what a consumer reads of it; `last`: the last offset that belongs to it."""

    data: bytes
    last: int
    records: tuple[Record, ...] = ()
    aborted: bool = False
    """A consumer with isolation level read_committed passes over its records."""


@dataclass
class SourceLog:
    """A partition's batches in order. `transactions`: of those that were aborted, producer id,
    first offset, and offset of the marker."""

    batches: list[LoggedBatch] = field(default_factory=list)
    transactions: list[tuple[int, int, int]] = field(default_factory=list)

    @property
    def end(self) -> int:
        """The first offset after the last batch."""
        return self.batches[-1].last + 1 if self.batches else 0

    def fetch(self, offset: int, most: int) -> tuple[bytes, tuple[tuple[int, int], ...]]:
        """A broker's answer: from the batch on that holds `offset`, or the next one, `most` bytes,
        but not less than one batch; and the aborted transactions in them, as (producer id, first
        offset)."""
        wanted = [batch for batch in self.batches if batch.last >= offset]
        if not wanted:
            return b"", ()
        data = b"".join(batch.data for batch in wanted)[: max(most, len(wanted[0].data))]
        size, last = 0, -1
        for batch in wanted:
            if size >= len(data):
                break
            size, last = size + len(batch.data), batch.last
        listed = [
            (producer, first)
            for producer, first, marker in self.transactions
            if first <= last and marker >= offset
        ]
        return data, tuple(listed)

    def records(self, first: int, end: int, *, committed: bool) -> list[Record]:
        """What a consumer reads from offset `first` to before `end`."""
        return [
            record
            for batch in self.batches
            if not (committed and batch.aborted)
            for record in batch.records
            if first <= record.offset < end
        ]


@st.composite
def source_logs(draw: st.DrawFn, most: int = 14) -> SourceLog:
    """Logs of up to `most` batches: magic 0 and 1, plain and compressed; magic 2 of every codec,
    of transactions that are aborted or committed, one within another; what compaction leaves of
    them: gaps, batches without records, and control batches without a marker."""
    return _Writer(draw).written(draw(st.integers(1, most)))


class _Writer:
    """One log that is being written."""

    def __init__(self, draw: st.DrawFn) -> None:
        self._draw = draw
        self._log = SourceLog()
        self._offset = draw(st.sampled_from([0, 0, 5, 1 << 40]))
        self._open: dict[int, list[int]] = {}
        """Producer id: indexes of its transaction's batches; the first offset comes first."""

    def written(self, count: int) -> SourceLog:
        steps = (self._legacy, self._plain, self._plain, self._transactional, self._marker)
        for _ in range(count):
            self._offset += self._draw(st.sampled_from([0, 0, 0, 3]))
            self._draw(st.sampled_from([*steps, self._empty]))()
        for producer in list(self._open):
            self._end_of(producer)
        return self._log

    def _add(self, data: bytes, last: int, records: Sequence[Record] = ()) -> None:
        self._log.batches.append(LoggedBatch(data, last, tuple(records)))
        self._offset = last + 1

    def _records(self, most: int = 8) -> list[Record]:
        """Some records from here on, with gaps where compaction took others."""
        records = []
        at = self._offset
        for _ in range(self._draw(st.integers(1, most))):
            at += self._draw(st.sampled_from([0, 0, 0, 1, 70]))
            key = self._draw(st.sampled_from([None, b"", b"key"]))
            value = self._draw(st.sampled_from([None, b"v%d" % at, b"x" * 70]))
            records.append(Record(at, _TIME + at % 1_000, key, value))
            at += 1
        return records

    def _legacy(self) -> None:
        magic = self._draw(st.integers(0, 1))
        codec = self._draw(st.sampled_from([NONE, *_LEGACY_CODECS]))
        records = self._records(1 if codec == NONE else 8)
        if not magic:
            records = [replace(record, timestamp=-1) for record in records]
        if codec == NONE:
            self._add(legacy_message(records[0], magic), records[0].offset, records)
            return
        stamp = self._draw(st.sampled_from([None, _TIME + 9])) if magic else None
        data = legacy_wrapper(records, magic, codec, stamp)
        if stamp is not None:
            records = [replace(record, timestamp=stamp) for record in records]
        self._add(data, records[-1].offset, records)

    def _plain(self) -> None:
        self._data_batch(-1)

    def _transactional(self) -> None:
        producer = self._draw(st.integers(1, 3))
        self._open.setdefault(producer, [self._offset]).append(len(self._log.batches))
        self._data_batch(producer)

    def _data_batch(self, producer: int) -> None:
        records = self._records(self._draw(st.sampled_from([1, 8])))
        base = self._draw(st.sampled_from([self._offset, records[0].offset]))
        last = records[-1].offset + self._draw(st.sampled_from([0, 0, 2]))
        stamp = self._draw(st.sampled_from([None, None, _TIME + 7]))
        data = encode_batch(
            records,
            base_offset=base,
            last_offset_delta=last - base,
            codec=self._draw(st.integers(0, 4)),
            log_append_time=stamp,
            producer_id=producer,
            transactional=producer >= 0,
        )
        if stamp is not None:
            records = [replace(record, timestamp=stamp) for record in records]
        self._add(data, last, records)

    def _marker(self) -> None:
        if self._open:
            self._end_of(self._draw(st.sampled_from(sorted(self._open))))

    def _end_of(self, producer: int) -> None:
        first, *own = self._open.pop(producer)
        abort = self._draw(st.booleans())
        at = self._offset
        record = Record(at, _TIME, _ABORT if abort else _COMMIT, bytes(6))
        data = encode_batch(
            [record], base_offset=at, control=True, transactional=True, producer_id=producer
        )
        if abort:
            self._log.transactions.append((producer, first, at))
            for index in own:
                batch = self._log.batches[index]
                self._log.batches[index] = replace(batch, aborted=True)
        self._add(data, at)

    def _empty(self) -> None:
        """What compaction leaves where a producer wrote last: a batch of data, or a marker, without
        records. Its transaction ended before, or its records would be there."""
        control = self._draw(st.booleans())
        producer = self._draw(st.sampled_from([1, 2, 3, 4]))
        if producer in self._open:
            return
        delta = 0 if control else self._draw(st.integers(0, 4))
        data = encode_batch(
            [],
            base_offset=self._offset,
            last_offset_delta=delta,
            producer_id=producer,
            producer_epoch=3,
            transactional=control,
            control=control,
        )
        self._add(data, self._offset + delta)
