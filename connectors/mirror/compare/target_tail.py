"""Finds which of the source's next records are on the target already.

After a crash the target may have records after the last stored source offset. They are the source's
next records, one by one, unless another producer writes to the target. So both logs are compared
from the stored offset on: batches by checksums if possible, otherwise record by record. Equal
records need not be copied again; the caller adds them to the offset map and the stored offsets. If
the target has deleted the first of them, as many of the source's records are left out: where the
rest is equal, these were there. `compared` is pure, except for reading.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Literal

from connect.clients.cluster.cluster_access import ClusterAccess
from connect.clients.cluster.partition_reader import FetchedBatches, PartitionReader
from connect.protocol.batches import LOG_APPEND_TIME
from connect.protocol.messages import TopicPartition
from connectors.mirror.compare.batch_runs import BatchRun, wire_runs
from connectors.mirror.compare.record_streams import RecordStream, common
from connectors.mirror.copy.copied_ranges import CopiedRange, append_range
from connectors.mirror.copy.partition.leader_epochs import LeaderEpochCache

__all__ = ["Tail", "TailReader", "compared"]

_WINDOW = 4096
_MOST_BYTES = 16 * 1024 * 1024
_COMMITTED: Literal[1] = 1


@dataclass(frozen=True, slots=True)
class Tail:
    """The result of a comparison. `lines`: where equal records are. `position`: the source offset
    after the last of them. `odd`: the first target offset whose record is not the source's next;
    None if all are equal. `epochs`: (leader epoch, first offset) of the compared source batches."""

    lines: tuple[CopiedRange, ...]
    position: int
    odd: int | None
    epochs: tuple[tuple[int, int], ...] = ()

    @property
    def records(self) -> int:
        return sum(line.records for line in self.lines)

    @property
    def spans(self) -> tuple[tuple[int, int, int], ...]:
        """(source offset, target offset, count) of each line."""
        return tuple((line.source_start, line.target_start, line.records) for line in self.lines)


@dataclass(frozen=True, slots=True)
class TailReader:
    """Reads both logs. The links must have metadata for the topics. Calls block. For one thread,
    but any thread may set `stopped`, which soon ends the lookup with `DeadlineExceeded`."""

    source: ClusterAccess
    target: ClusterAccess
    read_committed: bool
    stall_s: float = 60.0
    stopped: threading.Event | None = None

    def look(
        self,
        source: TopicPartition,
        target: TopicPartition,
        span: tuple[int, int],
        target_span: tuple[int, int],
        *,
        timestamps: bool | None,
        log_start: int = 0,
    ) -> Tail:
        """Compare the target's records of `target_span` with the source's of `span`. Both spans end
        where consumers can read to. `log_start`: of the target's log, which may have deleted the
        first records of its span.

        `timestamps`: whether timestamps must be equal; None: unless the target uses LogAppendTime.
        Raises one of `connect.errors`.
        """
        first, end = target_span
        gone = max(0, min(log_start, end) - first)
        there = (first + gone, end)
        found, appends = self._look(source, target, span, there, gone, timestamps is not False)
        if timestamps is None and appends and not found.records:
            found, _ = self._look(source, target, span, there, gone, False)
        return found

    def _look(
        self,
        source: TopicPartition,
        target: TopicPartition,
        span: tuple[int, int],
        target_span: tuple[int, int],
        gone: int,
        timestamps: bool,
    ) -> tuple[Tail, bool]:
        start, end = span
        isolation: Literal[0, 1] = 1 if self.read_committed else 0
        ours = PartitionReader(
            self.source,
            source,
            start,
            end,
            isolation=isolation,
            stall_s=self.stall_s,
            stopped=self.stopped,
        )
        theirs = PartitionReader(
            self.target,
            target,
            *target_span,
            isolation=_COMMITTED,
            stall_s=self.stall_s,
            stopped=self.stopped,
        )
        epochs, kinds = LeaderEpochCache(), _Kinds()
        with closing(ours), closing(theirs):
            found = compared(
                source,
                target,
                start,
                wire_runs(_noting(ours, epochs), start, end, committed=self.read_committed),
                wire_runs(kinds.noting(theirs), *target_span, committed=True),
                timestamps=timestamps,
                gone=range(target_span[0] - gone, target_span[0]),
            )
        epochs.cut(found.position)
        return replace(found, epochs=epochs.starts), kinds.append_time


class _Kinds:
    """Whether any batch so far has LogAppendTime."""

    def __init__(self) -> None:
        self.append_time = False

    def noting(self, answers: Iterable[FetchedBatches]) -> Iterator[FetchedBatches]:
        for fetched in answers:
            self.append_time |= any(h.attributes & LOG_APPEND_TIME for h in fetched.headers)
            yield fetched


def _noting(
    answers: Iterable[FetchedBatches], epochs: LeaderEpochCache
) -> Iterator[FetchedBatches]:
    for fetched in answers:
        epochs.saw(fetched.records, fetched.headers)
        yield fetched


def compared(
    source: TopicPartition,
    target: TopicPartition,
    start: int,
    ours: Iterable[BatchRun],
    theirs: Iterable[BatchRun],
    *,
    timestamps: bool,
    gone: range = range(0),
) -> Tail:
    """Compare both sides as long as their records are equal. `gone`: the offsets before those of
    `theirs` that the target has deleted; one record of the source was at each of them."""
    here, there = RecordStream(ours, timestamps), RecordStream(theirs, timestamps)
    lines = _left_out(source, target, here, gone)
    if lines is None:
        return Tail((), start, gone.stop)
    position, unproved = start, bool(lines)
    while True:
        if not here.waiting and not there.waiting:
            for offset, landed, count in here.take_equal(there):
                append_range(lines, CopiedRange(source, target, offset, landed, count))
                position, unproved = offset + count, False
        here.fill(_WINDOW, _MOST_BYTES)
        there.fill(_WINDOW, _MOST_BYTES)
        count = min(here.waiting, there.waiting)
        if count == 0:
            odd = there.window(1)[0][0] if there.waiting else None
            return Tail(() if unproved else tuple(lines), position, odd)
        mine, other = here.window(count), there.window(count)
        same = common(mine, other)
        for offset, landed in zip(mine[0][:same], other[0][:same], strict=True):
            append_range(lines, CopiedRange(source, target, offset, landed, 1))
            position, unproved = offset + 1, False
        if same < count:
            return Tail(() if unproved else tuple(lines), position, other[0][same])
        here.drop(count)
        there.drop(count)


def _left_out(
    source: TopicPartition, target: TopicPartition, here: RecordStream, gone: range
) -> list[CopiedRange] | None:
    """Pass the source's records whose copies are gone, and return where these were; None if the
    source has fewer records."""
    lines: list[CopiedRange] = []
    landed = gone.start
    while landed < gone.stop:
        here.fill(_WINDOW, _MOST_BYTES)
        count = min(here.waiting, gone.stop - landed)
        if count == 0:
            return None
        for offset in here.window(count)[0]:
            append_range(lines, CopiedRange(source, target, offset, landed, 1))
            landed += 1
        here.drop(count)
    return lines
