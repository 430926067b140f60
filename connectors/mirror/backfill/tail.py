"""What of the source's next records is on the target already.

After a kill the books may lag behind the target: what came after the last stored offset is there,
and nobody wrote so. Those records are the source's next ones, one by one, from the place on where
the books end; so both logs are compared from there. What is equal need not be copied again; it is
written into the books instead. `compared` is pure, but for reading.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass
from typing import Literal

from connect.clients.cluster_link import ClusterLink
from connect.clients.partition_reader import PartitionReader
from connect.protocol.messages import TopicPartition
from connectors.mirror.audit.batches import BatchRun, wire_runs
from connectors.mirror.audit.streams import RecordStream, common
from connectors.mirror.copy.ranges import CopiedRange

__all__ = ["Tail", "TailReader", "compared"]

_WINDOW = 4096
_MOST_BYTES = 16 * 1024 * 1024
_COMMITTED: Literal[1] = 1


@dataclass(frozen=True, slots=True)
class Tail:
    """`lines`: where equal records are; `position`: the source offset behind the last of them.
    `odd`: the first target offset whose record is not the source's next; None: all are."""

    lines: tuple[CopiedRange, ...]
    position: int
    odd: int | None

    @property
    def records(self) -> int:
        return sum(line.records for line in self.lines)


@dataclass(frozen=True, slots=True)
class TailReader:
    """Reads both logs. The links watch the topics. Blocks; one thread."""

    source: ClusterLink
    target: ClusterLink
    read_committed: bool
    stall_s: float = 60.0

    def look(
        self,
        source: TopicPartition,
        target: TopicPartition,
        span: tuple[int, int],
        target_span: tuple[int, int],
        *,
        timestamps: bool,
    ) -> Tail:
        """Compare the target's records of `target_span` with the source's of `span`, which end
        where readers may read to. Raises one of `connect.errors`."""
        start, end = span
        isolation: Literal[0, 1] = 1 if self.read_committed else 0
        ours = PartitionReader(
            self.source, source, start, end, isolation=isolation, stall_s=self.stall_s
        )
        theirs = PartitionReader(
            self.target, target, *target_span, isolation=_COMMITTED, stall_s=self.stall_s
        )
        with closing(ours), closing(theirs):
            return compared(
                source,
                target,
                start,
                wire_runs(ours, start, end, committed=self.read_committed),
                wire_runs(theirs, *target_span, committed=True),
                timestamps=timestamps,
            )


def compared(
    source: TopicPartition,
    target: TopicPartition,
    start: int,
    ours: Iterable[BatchRun],
    theirs: Iterable[BatchRun],
    *,
    timestamps: bool,
) -> Tail:
    """Go along both sides as long as their records are equal."""
    here, there = RecordStream(ours, timestamps), RecordStream(theirs, timestamps)
    lines: list[CopiedRange] = []
    position = start
    while True:
        here.fill(_WINDOW, _MOST_BYTES)
        there.fill(_WINDOW, _MOST_BYTES)
        count = min(here.waiting, there.waiting)
        if count == 0:
            odd = there.window(1)[0][0] if there.waiting else None
            return Tail(tuple(lines), position, odd)
        mine, other = here.window(count), there.window(count)
        same = common(mine, other)
        for offset, landed in zip(mine[0][:same], other[0][:same], strict=True):
            _add(lines, CopiedRange(source, target, offset, landed, 1))
            position = offset + 1
        if same < count:
            return Tail(tuple(lines), position, other[0][same])
        here.drop(count)
        there.drop(count)


def _add(lines: list[CopiedRange], line: CopiedRange) -> None:
    if lines:
        last = lines[-1]
        if (last.source_start + last.records, last.target_start + last.records) == (
            line.source_start,
            line.target_start,
        ):
            lines[-1] = CopiedRange(
                last.source, last.target, last.source_start, last.target_start, last.records + 1
            )
            return
    lines.append(line)
