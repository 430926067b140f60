"""Cuts the audited partitions into ranges that can be audited in parallel. Pure.

With the offset map, a partition is cut where the map shows that both sides have the same records
before the cut. Without the map, a partition is one range, because the target offset of a source
offset is only known after reading everything before it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate

from connect.protocol.messages import TopicPartition
from connectors.mirror.audit.alignment import Rules
from connectors.mirror.offsets.offset_map_pages import MapPage, OffsetMap, Segment

__all__ = ["AuditRange", "PartitionFacts", "began_at", "plan_ranges"]


DEFAULT_RANGE_BYTES = 256 * 1024 * 1024
"""Size of a range: a task reads it in seconds and decompresses it in less than a minute. With small
ranges a lost executor costs little, many tasks share a partition, and progress is visible."""

UNMEASURED_BYTES = 100.0


@dataclass(frozen=True, slots=True)
class PartitionFacts:
    """A partition and its copy. Offsets are the first one and the end (exclusive) that consumers
    see."""

    source: TopicPartition
    target: TopicPartition
    source_start: int
    source_end: int
    target_start: int
    target_end: int
    position: int | None = None
    """The mirror's stored offset."""
    compacted: bool = False
    timestamps: bool = True
    offset_bytes: float = UNMEASURED_BYTES
    """Measured bytes per offset of the source's log."""
    began: int = 0
    """The source offset at which the flow began, from the offset map (`began_at`)."""
    from_begin: bool = False
    """Whether to skip records before `began`, because they were left out on purpose."""

    @property
    def first(self) -> int:
        """The first source offset that must be on the target."""
        began = self.began if self.from_begin else 0
        return min(max(self.source_start, began), self.source_end)

    @property
    def left_out(self) -> int:
        """Number of source offsets before `first` that exist but are skipped."""
        return self.first - self.source_start


@dataclass(frozen=True, slots=True)
class AuditRange:
    """One range of a partition: source offsets, and the target offsets of their copies."""

    source: TopicPartition
    target: TopicPartition
    source_start: int
    source_end: int
    target_start: int
    target_end: int
    rules: Rules
    partition_start: int
    partition_end: int
    """Source offsets of the whole partition's audit, because the original of a duplicate may be in
    another range."""
    bytes: int = 0
    """Approximate size in the source's log."""


def began_at(pages: Iterable[MapPage]) -> int:
    """Return the source offset at which the flow began: the source offset of the first copy in the
    map.

    It is above the log start for example after `auto.offset.reset=latest` or a backfill's
    `--since`. 0: unknown, for example because Java's MirrorMaker 2 copied before the map existed.
    """
    ledger = OffsetMap(pages)
    known = ledger.known()
    if not known or all(segment.target > 0 for segment in ledger.segments):
        return 0
    return known[0][0]


def plan_ranges(
    facts: PartitionFacts,
    pages: Iterable[MapPage] = (),
    range_bytes: int = DEFAULT_RANGE_BYTES,
) -> list[AuditRange]:
    """Cut a partition into consecutive ranges of about `range_bytes` bytes each."""
    range_records = max(1, round(range_bytes / facts.offset_bytes))
    cuts: list[tuple[int, int]] = []
    if not facts.compacted:
        cuts = _cuts(facts, [s for page in pages for s in page.segments], range_records)
    starts = [(facts.first, facts.target_start), *cuts]
    ends = [*cuts, (facts.source_end, facts.target_end)]
    last = len(starts) - 1
    return [
        AuditRange(
            facts.source,
            facts.target,
            *(start[0], end[0]),
            *(start[1], end[1]),
            Rules(
                # Records after the cut were copied, so all records before it were copied too.
                position=facts.position if index == last else end[0],
                compacted=facts.compacted,
                source_trimmed=index == 0 and facts.first > 0 and not facts.left_out,
                target_trimmed=index == 0 and facts.target_start > 0,
                timestamps=facts.timestamps,
            ),
            facts.source_start,
            facts.source_end,
            round((end[0] - start[0]) * facts.offset_bytes),
        )
        for index, (start, end) in enumerate(zip(starts, ends, strict=True))
    ]


def _cuts(
    facts: PartitionFacts, segments: Sequence[Segment], range_records: int
) -> list[tuple[int, int]]:
    """Return the (source offset, target offset) pairs where the partition can be cut. Ranges that
    were copied twice and re-created targets cannot be cut."""
    placed = sorted(segments, key=lambda segment: (segment.target, segment.source))
    if not placed:
        return []
    source_ends = list(accumulate((s.source + s.length for s in placed), max))
    target_ends = list(accumulate((s.target + s.length for s in placed), max))
    source_starts = list(accumulate((s.source for s in reversed(placed)), min))[::-1]
    clean = [
        segment
        for index, segment in enumerate(placed)
        if (index == 0 or source_ends[index - 1] <= segment.source)
        and (index == 0 or target_ends[index - 1] <= segment.target)
        and (
            index + 1 == len(placed)
            or (
                source_starts[index + 1] >= segment.source + segment.length
                and placed[index + 1].target >= segment.target + segment.length
            )
        )
    ]
    starts = [segment.source for segment in clean]
    cuts: list[tuple[int, int]] = []
    wanted = facts.first + range_records
    while clean and wanted < facts.source_end:
        index = max(0, bisect_right(starts, wanted) - 1)
        segment = clean[index]
        at = min(max(wanted, segment.source), segment.source + segment.length - 1)
        target = segment.target + at - segment.source
        before = cuts[-1] if cuts else (facts.first, facts.target_start)
        if at > before[0] and before[1] < target < facts.target_end and at < facts.source_end:
            cuts.append((at, target))
        wanted += range_records
    return cuts
