"""What a source partition holds and held: every record that was ever written, by its number."""

from __future__ import annotations

import enum
from collections.abc import Callable

__all__ = ["RecordState", "SourceRecord", "SourceTruth"]


class RecordState(enum.Enum):
    OPEN = "in an open transaction"
    THERE = "there"
    COMPACTED = "compacted away"
    VANISHED = "gone with its topic or in an unclean election"
    DELETED = "deleted by retention"


class SourceRecord:
    """`life`: which topic of that name it belongs to. `shown`: readers of committed records could
    see it. `aborted`: its transaction was. `hidden`: it was so at some time, though the
    marker may be lost since."""

    __slots__ = ("aborted", "hidden", "life", "number", "offset", "shown", "state")

    def __init__(self, number: int, life: int, offset: int, state: RecordState) -> None:
        self.number = number
        self.life = life
        self.offset = offset
        self.state = state
        self.shown = state is RecordState.THERE
        self.aborted = self.hidden = False

    def __str__(self) -> str:
        how = f"{self.state.value}, aborted" if self.aborted else self.state.value
        return f"record {self.number} (source offset {self.offset}, {how})"


class SourceTruth:
    """Of one partition. Numbers grow in the order of writing, over all lives of the topic."""

    def __init__(self) -> None:
        self.records: list[SourceRecord] = []
        self.life = 0
        self._by_offset: dict[int, SourceRecord] = {}

    @property
    def next_number(self) -> int:
        return len(self.records)

    def at(self, offset: int) -> SourceRecord | None:
        """The record at this offset of the present life."""
        return self._by_offset.get(offset)

    def written(self, base: int, count: int, *, in_transaction: bool) -> None:
        state = RecordState.OPEN if in_transaction else RecordState.THERE
        for n in range(count):
            record = SourceRecord(len(self.records), self.life, base + n, state)
            self.records.append(record)
            self._by_offset[base + n] = record

    def decided(self, offsets: range, *, committed: bool) -> None:
        """The transaction of the records at these offsets has ended."""
        for offset in offsets:
            record = self._by_offset.get(offset)
            if record is not None and record.state is RecordState.OPEN:
                record.state = RecordState.THERE
                record.shown |= committed
                record.aborted = not committed
                record.hidden |= record.aborted

    def reopened(self, offsets: range) -> None:
        """The marker of their transaction is lost."""
        for offset in offsets:
            record = self._by_offset.get(offset)
            if record is not None and record.state is RecordState.THERE:
                record.state = RecordState.OPEN
                record.aborted = False

    def deleted_before(self, offset: int) -> None:
        self._mark(lambda record: record.offset < offset, RecordState.DELETED)

    def cut_off(self, end: int) -> None:
        """An unclean election: the log ends at `end`."""
        self._mark(lambda record: record.offset >= end, RecordState.VANISHED)
        for record in reversed(self.records):
            if record.life != self.life:
                break
            if record.state is RecordState.DELETED and record.offset >= end:
                record.state = RecordState.VANISHED

    def begun_anew(self) -> None:
        """The topic was deleted; the next of its name is another life."""
        self._mark(lambda record: True, RecordState.VANISHED)
        self.life += 1

    def _mark(self, chosen: Callable[[SourceRecord], bool], state: RecordState) -> None:
        for offset in [o for o, record in self._by_offset.items() if chosen(record)]:
            record = self._by_offset.pop(offset)
            record.state = state

    def compacted(self, number: int) -> None:
        record = self.records[number]
        if record.state is RecordState.THERE:
            record.state = RecordState.COMPACTED
            self._by_offset.pop(record.offset, None)
