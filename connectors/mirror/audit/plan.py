"""What is to be audited, cut into ranges that can be audited at the same time. Pure.

Without the offset map a partition is one range: where its copy of a source offset is, is only found
by going along. With it a partition is cut where the map says that everything before the cut is on
both sides before it.
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
"""Of a size that a task reads in seconds, and decompresses in less than a minute: so a lost
executor costs little, many can work at one partition, and it is seen how far they are."""

UNMEASURED_BYTES = 100.0


@dataclass(frozen=True, slots=True)
class PartitionFacts:
    """A partition and its copy. Offsets: first, and first one after, as readers may read."""

    source: TopicPartition
    target: TopicPartition
    source_start: int
    source_end: int
    target_start: int
    target_end: int
    position: int | None = None
    """Where the mirror goes on, as it has stored it."""
    compacted: bool = False
    timestamps: bool = True
    offset_bytes: float = UNMEASURED_BYTES
    """Of the source's log, for each offset, as measured."""
    began: int = 0
    """Where the flow began, by the map: see `began_at`."""
    from_begin: bool = False
    """What is before that is not asked for: it was left out on purpose."""

    @property
    def first(self) -> int:
        """The first source offset that is to be on the target."""
        began = self.began if self.from_begin else 0
        return min(max(self.source_start, began), self.source_end)

    @property
    def left_out(self) -> int:
        """Source offsets before it that are there."""
        return self.first - self.source_start


@dataclass(frozen=True, slots=True)
class AuditRange:
    """A piece of a partition: source offsets and the target offsets where they should be."""

    source: TopicPartition
    target: TopicPartition
    source_start: int
    source_end: int
    target_start: int
    target_end: int
    rules: Rules
    partition_start: int
    partition_end: int
    """Source offsets of the whole partition's audit: the origin of a record that is once more on
    the target may be in another range."""
    bytes: int = 0
    """Of the source's log, about."""


def began_at(pages: Iterable[MapPage]) -> int:
    """The source offset at which the flow began, as with `auto.offset.reset=latest` or a backfill's
    `--since`: by the map it is where the copy's very first record comes from. 0: not known, as
    where Java's MirrorMaker 2 copied before there was a map."""
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
    """The ranges of a partition, in order, of about so many bytes; together they are all of it."""
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
                # Behind a cut something was copied, so all before it was.
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
    """(source offset, target offset) of places where neither side has anything of the other part:
    no range that was copied again, and no target that was made anew, reaches over them."""
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
