"""One partition's log: batches as bytes, the high watermark, transactions, epochs, producers."""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Iterator

from crc32c import crc32c

from connect.protocol.batches import (
    ATTRIBUTES_AT,
    CONTROL,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
    read_headers,
)
from connect.protocol.records import Record
from tests.simulation.kafka.producers import Producers
from tests.support.records.batches import encode_batch

__all__ = ["ABORT", "COMMIT", "Batch", "Log", "with_attributes"]

ABORT, COMMIT = 0, 1
_BASE = struct.Struct(">q")
_EPOCH = struct.Struct(">i")
_EPOCH_AT = 12
_MAGIC_AT = 16
_PRODUCER = struct.Struct(">qhii")
_PRODUCER_AT = 43
_MARKER_KEYS = {kind: struct.pack(">hh", 0, kind) for kind in (ABORT, COMMIT)}
_MARKER_VALUE = struct.pack(">hi", 0, 0)


class Batch:
    """A batch in the log. `producer` -1: none. `marker`: ABORT or COMMIT for a control batch.
    An entry of magic 0 or 1 comes with its offsets; it has neither producer nor leader epoch."""

    __slots__ = (
        "attributes",
        "base",
        "count",
        "data",
        "epoch",
        "fate",
        "marker",
        "next",
        "old",
        "producer",
        "producer_epoch",
        "sequence",
    )

    def __init__(self, data: bytes, base: int, leader_epoch: int, marker: int | None) -> None:
        self.old = data[_MAGIC_AT] < 2
        stamped = bytearray(data)
        if not self.old:
            _BASE.pack_into(stamped, 0, base)
            _EPOCH.pack_into(stamped, _EPOCH_AT, leader_epoch)
        self.data = bytes(stamped)
        (header,) = read_headers(memoryview(self.data))
        self.base = base
        self.next = header.next_offset
        self.attributes = header.attributes
        fields = (-1, -1, -1, self.next - base)
        if not self.old:
            fields = _PRODUCER.unpack_from(self.data, _PRODUCER_AT)
        self.producer, self.producer_epoch, self.sequence, self.count = fields
        self.epoch = leader_epoch
        self.marker = marker
        self.fate: int | None = None
        """Of a batch in a transaction: None while it is open, then ABORT or COMMIT."""

    @property
    def transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def control(self) -> bool:
        return bool(self.attributes & CONTROL)


class Log:
    """See the module. Offsets up to `high` are replicated; those after it may be lost when another
    broker becomes leader."""

    def __init__(self, *, names_old_duplicates: bool = False) -> None:
        self.batches: list[Batch] = []
        self.start = 0
        self.end = 0
        self.high = 0
        self.epochs: list[tuple[int, int]] = [(0, 0)]
        """(leader epoch, first offset written in it)"""
        self.open: dict[int, int] = {}
        """Producer id -> first offset of its open transaction."""
        self.aborted: list[tuple[int, int, int]] = []
        """(producer id, first offset, offset of the marker)"""
        self._names_old_duplicates = names_old_duplicates
        self.producers = Producers(names_old_duplicates=names_old_duplicates)
        self._bases: list[int] = []
        self.max_timestamp = -1

    @property
    def stable(self) -> int:
        """The last stable offset."""
        return min([self.high, *self.open.values()])

    def append(self, data: bytes, leader_epoch: int, marker: int | None = None) -> Batch:
        """Put a batch behind the others. The caller has judged its sequence numbers."""
        batch = Batch(data, self.end, leader_epoch, marker)
        self._bases.append(batch.base)
        self.batches.append(batch)
        self.end = batch.next
        self._note(batch)
        return batch

    def _note(self, batch: Batch) -> None:
        if batch.producer < 0:
            return
        if batch.marker is not None:
            self.producers.marked(batch.producer, batch.producer_epoch)
            first = self.open.pop(batch.producer, None)
            if first is None:
                return
            if batch.marker == ABORT:
                self.aborted.append((batch.producer, first, batch.base))
            for each in self.from_offset(first):
                if each.base >= batch.base:
                    break  # where the log is read anew, it holds later transactions, too
                if each.producer == batch.producer and each.fate is None and each.marker is None:
                    each.fate = batch.marker
            return
        if batch.sequence >= 0:
            self.producers.appended(
                batch.producer, batch.producer_epoch, batch.sequence, batch.count, batch.base
            )
        if batch.transactional:
            self.open.setdefault(batch.producer, batch.base)

    def mark(self, producer: int, epoch: int, kind: int, leader_epoch: int, now_ms: int) -> None:
        """Write a transaction marker, and have it replicated with all before it."""
        record = Record(0, now_ms, _MARKER_KEYS[kind], _MARKER_VALUE)
        data = encode_batch(
            [record],
            base_offset=0,
            producer_id=producer,
            producer_epoch=epoch,
            transactional=True,
            control=True,
        )
        self.append(data, leader_epoch, kind)

    def index_of(self, offset: int) -> int:
        """The first batch that ends after `offset`."""
        index = bisect_right(self._bases, offset) - 1
        if index < 0:
            return 0
        return index if self.batches[index].next > offset else index + 1

    def from_offset(self, offset: int) -> Iterator[Batch]:
        """The batches that end after `offset`."""
        for index in range(self.index_of(offset), len(self.batches)):
            yield self.batches[index]

    def truncate(self, offset: int) -> int:
        """Drop the batches from the one on that ends after `offset`; the new end. What is known of
        producers and transactions is what the rest of the log says, as on the new leader."""
        index = self.index_of(offset)
        if index < len(self.batches):
            self.end = self.batches[index].base
            del self.batches[index:]
            del self._bases[index:]
            self._rebuild()
        elif offset < self.end:
            self.end = offset
        self.high = min(self.high, self.end)
        self.start = min(self.start, self.end)
        self.epochs = [each for each in self.epochs if each[1] < self.end]
        return self.end

    def hangs_without(self, offset: int) -> bool:
        """Whether a transaction that has ended would be open again if the log ended here: its
        marker would be gone, and not all of its records. Only an administrator can end it then."""
        ended = {each.producer for each in self.from_offset(offset) if each.marker is not None}
        for batch in reversed(self.batches[: self.index_of(offset)]):
            if batch.producer not in ended:
                continue
            if batch.marker is None and batch.transactional:
                return True
            ended.discard(batch.producer)
        return False

    def _rebuild(self) -> None:
        self.producers = Producers(names_old_duplicates=self._names_old_duplicates)
        self.open.clear()
        self.aborted.clear()
        for batch in self.batches:
            if batch.marker is None:
                batch.fate = None
        for batch in self.batches:
            self._note(batch)

    def delete_before(self, offset: int) -> None:
        """Retention: the log begins at `offset` now."""
        self.start = max(self.start, min(offset, self.high))
        while self.batches and self.batches[0].next <= self.start:
            del self.batches[0]
            del self._bases[0]
        # As brokers cut their leader epoch cache: what is left of an older epoch begins here.
        while len(self.epochs) > 1 and self.epochs[1][1] <= self.start:
            del self.epochs[0]
        if self.epochs and self.epochs[0][1] < self.start:
            self.epochs[0] = (self.epochs[0][0], self.start)

    def replace(self, batch: Batch, data: bytes) -> None:
        """Compaction rewrote a batch: offsets and producer stay. An old set ends with the last
        message that is left; without one nothing is left of it."""
        if batch.old and not data:
            index = self.batches.index(batch)
            del self.batches[index]
            del self._bases[index]
            return
        batch.data = data
        if batch.old:
            (header,) = read_headers(memoryview(data))
            batch.next = header.next_offset
        else:
            (batch.count,) = struct.unpack_from(">i", data, 57)

    def begin_epoch(self, epoch: int) -> None:
        """A broker became leader: its epoch begins at the log's end."""
        self.epochs = [each for each in self.epochs if each[1] < self.end]
        self.epochs.append((epoch, self.end))

    def epoch_end(self, epoch: int) -> tuple[int, int]:
        """As brokers answer OffsetForLeaderEpoch: (epoch, end offset); -1: not known."""
        if not self.epochs or epoch > self.epochs[-1][0]:
            return -1, -1
        if epoch == self.epochs[-1][0]:
            return epoch, self.end
        if epoch < self.epochs[0][0]:
            return epoch, self.epochs[0][1]
        floor = epoch
        for each, first in self.epochs:
            if each > epoch:
                return floor, first
            floor = each
        raise AssertionError("unreachable")

    def aborted_between(self, first: int, end: int) -> list[tuple[int, int]]:
        """(producer id, first offset) of aborted transactions that overlap these offsets."""
        return [(p, start) for p, start, marker in self.aborted if start < end and marker >= first]


def with_attributes(data: bytes, set_bits: int, max_timestamp: int | None = None) -> bytes:
    """The batch with these attribute bits set, as LogAppendTime, and its CRC anew."""
    changed = bytearray(data)
    changed[ATTRIBUTES_AT + 1] |= set_bits
    if max_timestamp is not None:
        assert set_bits & LOG_APPEND_TIME
        struct.pack_into(">q", changed, 35, max_timestamp)
    struct.pack_into(">I", changed, 17, crc32c(memoryview(changed)[ATTRIBUTES_AT:]))
    return bytes(changed)
