"""Copies bounded ranges of partitions and tells what landed where: the copier as one finite job.

Used where somebody else decides what is copied and keeps the books: Spark tasks and backfills. The
records themselves pass through here as they do in a worker's task; what comes back is the ledger.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from connect.clock import SYSTEM_CLOCK, Clock, Deadline
from connect.errors import DeadlineExceeded, RetriableError
from connect.protocol.messages import TopicPartition
from connectors.mirror.copy.engine import CopyEngine, EngineSettings
from connectors.mirror.copy.partition import OffsetRun, PartitionCopy
from connectors.mirror.metrics import PartitionMetrics

__all__ = ["CopiedRange", "CopyStopped", "RangeProgress", "SourceRange", "copy_ranges"]

_TURN_S = 0.2
_DRAIN_S = 10.0


@dataclass(frozen=True, slots=True)
class SourceRange:
    """Source offsets `start` (first) to `end` (first not wanted) of a partition, to be copied to
    the same-numbered place `target`. `end` is not beyond what readers may read."""

    source: TopicPartition
    target: TopicPartition
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class CopiedRange:
    """`records` consecutive source offsets from `source_start` on are on the target from
    `target_start` on. One line of the ledger."""

    source: TopicPartition
    target: TopicPartition
    source_start: int
    target_start: int
    records: int


@dataclass(frozen=True, slots=True)
class RangeProgress:
    """How far one range is: everything before source offset `position` is on the target or needs
    no copying. `bytes` of batches were fetched for that; `lost` source offsets were gone before
    they could be copied."""

    range: SourceRange
    position: int
    bytes: int
    lost: int
    error: str | None

    @property
    def done(self) -> bool:
        return self.position >= self.range.end


class CopyStopped(RetriableError):
    """A copy was stopped before all its ranges were done; what its ledger says is there."""


class _Ledger:
    """Lines that grow as long as the next records follow on both sides."""

    def __init__(self) -> None:
        self._lines: list[CopiedRange] = []
        self._open: dict[TopicPartition, CopiedRange] = {}

    def acked(self, partition: PartitionCopy, runs: Sequence[OffsetRun], base: int) -> None:
        if base < 0:
            # The target has them, and said so in a way that does not tell where.
            return
        for source, count in runs:
            self._add(CopiedRange(partition.source, partition.target, source, base, count))
            base += count

    def _add(self, line: CopiedRange) -> None:
        before = self._open.get(line.source)
        if before is not None and (
            before.source_start + before.records == line.source_start
            and before.target_start + before.records == line.target_start
        ):
            self._open[line.source] = replace(before, records=before.records + line.records)
            return
        if before is not None:
            self._lines.append(before)
        self._open[line.source] = line

    def take(self) -> list[CopiedRange]:
        """The lines since the last call."""
        lines = [*self._lines, *self._open.values()]
        self._lines, self._open = [], {}
        return lines


def copy_ranges(
    settings: EngineSettings,
    ranges: Sequence[SourceRange],
    on_progress: Callable[[Sequence[RangeProgress], Sequence[CopiedRange]], None],
    *,
    stop: threading.Event,
    stall_s: float,
    report_s: float = 1.0,
    clock: Clock = SYSTEM_CLOCK,
) -> None:
    """Copy all ranges, at most one of each partition; returns when they are done.

    `on_progress` gets every range's progress and the new lines of the ledger: about each
    `report_s` seconds, and once more at the end, also when that is an error. Raises `CopyStopped`
    after `stop` was set, and `DeadlineExceeded` when nothing at all has moved for `stall_s`
    seconds; its message has each partition's reason. Blocks; everything happens on this thread.
    """
    ledger = _Ledger()
    by_source = {wanted.source: wanted for wanted in ranges}
    if len(by_source) != len(ranges):
        raise ValueError("a partition is in more than one range")
    engine = CopyEngine(settings, ledger.acked, clock)
    left = {}
    try:
        for wanted in ranges:
            metrics = PartitionMetrics("", "", wanted.target[0], wanted.target[1], clock=clock)
            engine.add(wanted.source, wanted.target, wanted.start, metrics, end=wanted.end)
        engine.watch()
        left = {partition.source: partition for partition in engine.partitions}
        _run(engine, left, by_source, ledger, on_progress, stop, stall_s, report_s, clock)
    except BaseException:
        engine.drain(Deadline(_DRAIN_S, clock))
        on_progress(_progress(left, by_source), ledger.take())
        raise
    finally:
        engine.close()


def _run(
    engine: CopyEngine,
    partitions: dict[TopicPartition, PartitionCopy],
    by_source: dict[TopicPartition, SourceRange],
    ledger: _Ledger,
    on_progress: Callable[[Sequence[RangeProgress], Sequence[CopiedRange]], None],
    stop: threading.Event,
    stall_s: float,
    report_s: float,
    clock: Clock,
) -> None:
    moved_at = reported_at = clock.monotonic()
    reached = -1
    while not all(partition.done for partition in partitions.values()):
        engine.step(_TURN_S)
        now = clock.monotonic()
        position = sum(partition.acked_position for partition in partitions.values())
        if position != reached:
            reached, moved_at = position, now
        elif now - moved_at > stall_s:
            raise DeadlineExceeded(_stalled(partitions, stall_s))
        if stop.is_set():
            raise CopyStopped("the copy was stopped before all its ranges were done")
        if now - reported_at >= report_s:
            reported_at = now
            on_progress(_progress(partitions, by_source), ledger.take())
    on_progress(_progress(partitions, by_source), ledger.take())


def _progress(
    partitions: dict[TopicPartition, PartitionCopy], by_source: dict[TopicPartition, SourceRange]
) -> list[RangeProgress]:
    return [
        RangeProgress(
            by_source[key],
            partition.acked_position,
            int(partition.metrics.read()["byte-count"]),
            partition.lost_records,
            partition.error,
        )
        for key, partition in partitions.items()
    ]


def _stalled(partitions: dict[TopicPartition, PartitionCopy], stall_s: float) -> str:
    reasons = "; ".join(
        f"{key[0]}-{key[1]} at {partition.acked_position}: {partition.error or 'no answer'}"
        for key, partition in sorted(partitions.items())
        if not partition.done
    )
    return f"nothing was copied for {stall_s:g} s: {reasons}"
