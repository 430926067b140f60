"""Copied ranges: where consecutive source offsets are on the target. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from connect.protocol.messages import TopicPartition
from connectors.mirror.copy.partition.partition import OffsetRun, PartitionCopy

__all__ = ["CopiedRange", "CopiedRanges", "append_range"]


@dataclass(frozen=True, slots=True)
class CopiedRange:
    """`records` consecutive source offsets from `source_start` on are on the target from
    `target_start` on."""

    source: TopicPartition
    target: TopicPartition
    source_start: int
    target_start: int
    records: int


def append_range(ranges: list[CopiedRange], new: CopiedRange) -> None:
    """Add a range of a partition. It is joined to the last one if it follows on both sides."""
    if ranges:
        last = ranges[-1]
        ends = (last.source_start + last.records, last.target_start + last.records)
        if ends == (new.source_start, new.target_start):
            ranges[-1] = replace(last, records=last.records + new.records)
            return
    ranges.append(new)


class CopiedRanges:
    """Collects the copied ranges of several partitions."""

    def __init__(self) -> None:
        self._by_source: dict[TopicPartition, list[CopiedRange]] = {}

    def acked(self, partition: PartitionCopy, runs: Sequence[OffsetRun], base: int) -> None:
        if base < 0:
            # The target has the records, but its response has no offset.
            return
        ranges = self._by_source.setdefault(partition.source, [])
        for source, count in runs:
            copied = CopiedRange(partition.source, partition.target, source, base, count)
            append_range(ranges, copied)
            base += count

    def take(self) -> list[CopiedRange]:
        """Return the ranges since the last call."""
        ranges = [each for found in self._by_source.values() for each in found]
        self._by_source = {}
        return ranges
