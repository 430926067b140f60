"""What is so in the simulated logs: the source's records, and where each is on the target."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from typing import NamedTuple

from connect.protocol.record_codec import iter_records
from tests.simulation.kafka.log import ABORT, Batch, Log
from tests.simulation.mirror.lives import LIFE

__all__ = ["Copies", "Copy", "SourceTruth"]


class SourceTruth:
    """Every record that a source partition ever had, by number (`lives.py`)."""

    def __init__(self, *, read_committed: bool) -> None:
        self._read_committed = read_committed
        self._numbers: list[int] = []
        self._batches: list[Batch] = []
        self.life = 0
        """How often the topic was created again, or its log was cut off."""
        self.cut = False
        """The log was cut off, so that what is before the cut has an older life."""
        self.lost_on_target: set[int] = set()
        """Numbers of which the target had a copy that went with its topic."""
        self._begins = [0]
        """The offset at which each life begins."""
        self.lost: list[tuple[int, int]] = []
        """(first, end) of the numbers that were reported as lost, or went with their topic."""

    def appended(self, batch: Batch) -> None:
        """A batch of records is in the log; each record has an offset of its own."""
        for offset in range(batch.base, batch.next):
            self._numbers.append(self.number(offset))
            self._batches.append(batch)

    def begun_anew(self) -> None:
        """The topic was deleted, and all its records with it. The next one of its name is another
        life."""
        self.cut_off(0)
        self.cut = False

    def cut_off(self, end: int) -> None:
        """The records from this offset on are gone. What is written there is another life."""
        self.lost.append((self.number(end), self.end))
        self.life += 1
        self.cut = True
        self._begins.append(end)

    def number(self, offset: int, life: int | None = None) -> int:
        """The number of the record at this offset of the log as it was in this life; None: as it
        is."""
        life = self.life if life is None else life
        while self._begins[life] > offset:
            life -= 1
        return life * LIFE + offset

    @property
    def end(self) -> int:
        return self._numbers[-1] + 1 if self._numbers else 0

    @property
    def wanted_end(self) -> int:
        """The number after the last record that belongs on the target and is not gone with its log;
        0: there is none."""
        for index in range(len(self._numbers) - 1, -1, -1):
            number = self._numbers[index]
            if self._wanted(index) and not (self.life and self.is_lost(number)):
                return number + 1
        return 0

    def _wanted(self, index: int) -> bool:
        """Whether the target is to have it; not known yet counts as yes."""
        batch = self._batches[index]
        return not (self._read_committed and batch.transactional and batch.fate == ABORT)

    def between(self, first: int, end: int) -> Iterable[int]:
        """The numbers in this range whose records belong on the target."""
        for index in range(bisect_left(self._numbers, first), len(self._numbers)):
            if self._numbers[index] >= end:
                return
            if self._wanted(index):
                yield self._numbers[index]

    def is_lost(self, number: int) -> bool:
        return number in self.lost_on_target or any(
            first <= number < end for first, end in self.lost
        )

    def unexplained(self, first: int, end: int) -> int | None:
        """The first record in this range that was not reported as lost."""
        return next((each for each in self.between(first, end) if not self.is_lost(each)), None)


class Copy(NamedTuple):
    """A record on the target: its offset there, and its number at the source."""

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
        """By number."""
        self._read_to = 0
        self._decided_to = 0

    def begin_anew(self, log: Log) -> None:
        """The target's topic is another one."""
        self.log = log
        self.at.clear()
        self.of.clear()
        self._read_to = self._decided_to = 0

    def numbers(self) -> set[int]:
        """Of all records in the log, replicated or not."""
        return {
            int(record.value or b"-1")
            for batch in self.log.batches
            if batch.marker is None
            for record in iter_records(batch.data)
        }

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

    def seen_from(self, target: int) -> Copy | None:
        """What a reader of committed records finds first from this target offset on."""
        found = [copy for at, copy in self.at.items() if at >= target and copy.seen]
        return min(found, default=None)

    def has(self, source: int) -> bool:
        """Whether readers see this source record."""
        return any(copy.seen for copy in self.of.get(source, ()))
