"""What is so in the simulated logs: the source's records, and where each is on the target."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from typing import NamedTuple

from connect.protocol.record_codec import iter_records
from tests.simulation.kafka.log import ABORT, Batch, Log

__all__ = ["Copies", "Copy", "SourceTruth"]


class SourceTruth:
    """Every record that a source partition ever had, by offset."""

    def __init__(self, *, read_committed: bool) -> None:
        self._read_committed = read_committed
        self._offsets: list[int] = []
        self._batches: list[Batch] = []
        self.lost: list[tuple[int, int]] = []
        """(first, end) of the source offsets that were reported as lost."""

    def appended(self, batch: Batch) -> None:
        """A batch of records is in the log; each record has an offset of its own."""
        for offset in range(batch.base, batch.next):
            self._offsets.append(offset)
            self._batches.append(batch)

    @property
    def end(self) -> int:
        return self._offsets[-1] + 1 if self._offsets else 0

    @property
    def wanted_end(self) -> int:
        """The offset after the last record that belongs on the target."""
        for index in range(len(self._offsets) - 1, -1, -1):
            if self._wanted(index):
                return self._offsets[index] + 1
        return 0

    def _wanted(self, index: int) -> bool:
        """Whether the target is to have it; not known yet counts as yes."""
        batch = self._batches[index]
        return not (self._read_committed and batch.transactional and batch.fate == ABORT)

    def between(self, first: int, end: int) -> Iterable[int]:
        """The offsets in this range whose records belong on the target."""
        for index in range(bisect_left(self._offsets, first), len(self._offsets)):
            if self._offsets[index] >= end:
                return
            if self._wanted(index):
                yield self._offsets[index]

    def first_from(self, offset: int) -> int | None:
        """The first offset from `offset` on whose record belongs on the target."""
        return next(iter(self.between(offset, self.end)), None)

    def is_lost(self, offset: int) -> bool:
        return any(first <= offset < end for first, end in self.lost)

    def unexplained(self, first: int, end: int) -> int | None:
        """The first record in this range that was not reported as lost."""
        return next((each for each in self.between(first, end) if not self.is_lost(each)), None)


class Copy(NamedTuple):
    """A record on the target: its offset there, and at the source."""

    target: int
    source: int
    batch: Batch

    @property
    def seen(self) -> bool:
        """Whether readers of committed records see it, or may see it yet."""
        return self.batch.fate != ABORT


class Copies:
    """The records of one target partition, as far as they are replicated."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self.at: dict[int, Copy] = {}
        """By target offset."""
        self.of: dict[int, list[Copy]] = {}
        """By source offset."""
        self._read_to = 0
        self._decided_to = 0

    def read_ahead(self) -> None:
        """Follow the log to what is replicated."""
        log = self.log
        for batch in log.from_offset(self._read_to):
            if batch.next > log.high:
                break
            self._read_to = batch.next
            if batch.marker is None:
                for record in iter_records(batch.data):
                    source = int(record.value or b"-1")
                    copy = Copy(record.offset, source, batch)
                    self.at[record.offset] = copy
                    self.of.setdefault(source, []).append(copy)

    def decided(self) -> list[Copy]:
        """The records that readers of committed records see since the last call, in order."""
        self.read_ahead()
        log = self.log
        decided: list[Copy] = []
        for batch in log.from_offset(self._decided_to):
            if batch.next > log.stable:
                break
            self._decided_to = batch.next
            if batch.marker is None and batch.fate != ABORT:
                decided += [self.at[t] for t in range(batch.base, batch.next) if t in self.at]
        return decided

    @property
    def decided_to(self) -> int:
        return self._decided_to

    def has(self, source: int) -> bool:
        """Whether readers see this source record."""
        return any(copy.seen for copy in self.of.get(source, ()))
