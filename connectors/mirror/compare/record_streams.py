"""The records of one side in order, and the search for the next equal record on both sides.

Used by `alignment`. Pure. For one thread.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterable, Iterator
from hashlib import blake2b
from typing import NamedTuple

from crc32c import crc32c

from connect.protocol.compression import Data
from connect.protocol.varint import read_varint
from connectors.mirror.compare.batch_runs import NOTHING_EQUAL, BatchRun, EqualBatches

__all__ = [
    "Gap",
    "RecordStream",
    "checksum",
    "common",
    "digest_of",
    "is_tombstone",
    "key_of",
    "mixed",
    "nearest",
    "older",
]

_INT64 = struct.Struct(">q")
_TOMBSTONE = b"\x01"
"""The length of a null value."""

Window = tuple[list[int], list[int], list[Data]]
"""Records in columns: offsets, timestamps, tails."""


def digest_of(timestamp: int, tail: Data) -> bytes:
    """Return a record's identity in 16 bytes."""
    state = blake2b(_INT64.pack(timestamp), digest_size=16)
    state.update(tail)
    return state.digest()


def key_of(tail: Data) -> bytes | None:
    size, at = read_varint(tail, 0)
    return None if size < 0 else blake2b(tail[at : at + size], digest_size=16).digest()


def is_tombstone(tail: Data) -> bool:
    size, at = read_varint(tail, 0)
    at += max(size, 0)
    return bytes(tail[at : at + 1]) == _TOMBSTONE


class Gap(NamedTuple):
    """The number of records to skip on each side before the next equal record."""

    source: int
    target: int


class RecordStream:
    """One side's batches. The first ones may be split into records."""

    def __init__(self, runs: Iterable[BatchRun], timestamps: bool) -> None:
        """`timestamps`: whether to compare timestamps; otherwise all records count as having the
        same one."""
        self._runs: Iterator[BatchRun] = iter(runs)
        self._run: BatchRun | None = None
        self._run_at = 0
        self._timestamps = timestamps
        self._at = 0
        self._bytes = 0
        self.offsets: list[int] = []
        self.stamps: list[int] = []
        self.tails: list[Data] = []
        self.read_bytes = 0

    @property
    def waiting(self) -> int:
        """Return the number of records that were split from batches and not compared yet."""
        return len(self.offsets) - self._at

    def more(self) -> bool:
        """Whether there are more batches after the split records."""
        while self._run is None or self._run_at == len(self._run):
            self._run = None  # Release the buffer for the next read.
            self._run = next(self._runs, None)
            self._run_at = 0
            if self._run is None:
                return False
            self.read_bytes += self._run.size
        return True

    def equal_batches(self, target: RecordStream) -> EqualBatches:
        """Return the next batches that are equal on both sides as a whole. Raises CorruptData."""
        if not self.more() or not target.more():
            return NOTHING_EQUAL
        assert self._run is not None
        assert target._run is not None
        return self._run.equal_batches(self._run_at, target._run, target._run_at)

    def pass_batches(self, batches: int) -> None:
        """Skip this number of the batches that `equal_batches` found."""
        self._run_at += batches

    def take_equal(self, target: RecordStream) -> Iterator[tuple[int, int, int]]:
        """Skip the next batches that are equal on both sides as a whole; return (source offset,
        target offset, count).

        Ends before a batch with gaps between its offsets. Call it only while neither side has split
        records. Raises CorruptData.
        """
        while same := self.equal_batches(target).batches:
            assert self._run is not None
            assert target._run is not None
            mine = self._run.spans(self._run_at, same)
            other = target._run.spans(target._run_at, same)
            for (first, count), (landed, _) in zip(mine, other, strict=False):
                self.pass_batches(1)
                target.pass_batches(1)
                yield first, landed, count
            if min(len(mine), len(other)) < same:
                return

    def fill(self, records: int, most_bytes: int) -> bool:
        """Split batches until `records` records are available. Returns whether there are more to
        come."""
        while self.waiting < records and self._bytes < most_bytes:
            if not self.more():
                return False
            assert self._run is not None
            columns = self._run[self._run_at].columns()
            self._run_at += 1
            if self._at:
                self._forget()
            self.offsets += columns.offsets
            self.stamps += columns.timestamps if self._timestamps else [0] * len(columns.offsets)
            self.tails += columns.tails
            self._bytes += sum(map(len, columns.tails))
        return self.more()

    def _forget(self) -> None:
        self._bytes -= sum(map(len, self.tails[: self._at]))
        del self.offsets[: self._at]
        del self.stamps[: self._at]
        del self.tails[: self._at]
        self._at = 0

    def window(self, records: int) -> Window:
        """Return offsets, timestamps and tails of the first split records."""
        end = self._at + records
        return (
            self.offsets[self._at : end],
            self.stamps[self._at : end],
            self.tails[self._at : end],
        )

    def drop(self, records: int) -> None:
        self._at += records
        if self._at == len(self.offsets):
            self._forget()


def common(ours: Window, theirs: Window) -> int:
    """Count the leading records that are equal on both sides."""
    _, stamps, tails = ours
    _, their_stamps, their_tails = theirs
    if stamps == their_stamps and tails == their_tails:
        return len(stamps)
    for index, (a, b) in enumerate(zip(tails, their_tails, strict=True)):
        if stamps[index] != their_stamps[index] or a != b:
            return index
    return len(tails)


def nearest(ours: Window, theirs: Window) -> Gap | None:
    """Return the fewest records to skip so that both sides continue with the same record."""
    first: dict[tuple[int, Data], int] = {}
    for index, identity in enumerate(zip(theirs[1], theirs[2], strict=True)):
        first.setdefault(identity, index)
    best: Gap | None = None
    for index, identity in enumerate(zip(ours[1], ours[2], strict=True)):
        if best is not None and index >= sum(best):
            break
        at = first.get(identity)
        if at is not None and (best is None or index + at < sum(best)):
            best = Gap(index, at)
    return best


def older(ours: list[int], theirs: list[int]) -> Gap:
    """Choose which side's older records to skip if no record in the window is on both sides."""
    if not ours or not theirs:
        return Gap(len(ours), len(theirs))
    here, there = ours[len(ours) // 2], theirs[len(theirs) // 2]
    if here < there:
        return Gap(len(ours), 0)
    if there < here:
        return Gap(0, len(theirs))
    return Gap(len(ours), len(theirs))


def mixed(packed: bytes, before: int) -> int:
    return int(crc32c(packed, before >> 32) << 32 | before & 0xFFFF_FFFF)


def checksum(stamps: list[int], tails: list[Data], before: int) -> int:
    """Return the checksum of these records, continued from `before`. It does not depend on how they
    are batched.

    The upper 32 bits are the CRC-32C of the tails, the lower 32 bits that of the timestamps.
    """
    high = crc32c(b"".join(tails), before >> 32)
    return int(high << 32 | crc32c(array("q", stamps).tobytes(), before & 0xFFFF_FFFF))
