"""The quick audit: checks which offsets the ledger accounts for, and chooses samples to compare.
Pure.

The ledger is the mirror's own bookkeeping: the pages of the offset map, and the stored offsets. The
check compares it with the offsets of both logs. It shows whether every source offset before the
stored offset was copied or held no record, and whether the target log still reaches the end of the
copies. It reads no records, so it cannot show that records are equal. Random ranges are compared
for that, or all records of a small flow.
"""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

from connectors.mirror.audit.alignment import Rules
from connectors.mirror.audit.plan import AuditRange, PartitionFacts
from connectors.mirror.audit.report import AuditReport
from connectors.mirror.offsets.offset_map_pages import MapPage, OffsetMap, Segment

__all__ = ["LedgerCheck", "LedgerReport", "check_ledger", "choose_samples", "is_small"]

Span = tuple[int, int]
"""First offset, and end (exclusive)."""

SAMPLE_OFFSETS = 1_000
LISTED = 100
"""Maximum number of spans listed per partition; the counts cover all."""


@dataclass(slots=True)
class LedgerCheck:
    """A partition's ledger compared with the offsets of its logs. Counts are of offsets."""

    facts: PartitionFacts
    until: int
    """End of the offsets to account for: the stored offset, or the source's end if that is
    lower."""
    accounted: int = 0
    """Copied according to the ledger, or known to hold no record."""
    unaccounted: list[Span] = field(default_factory=list)
    """Source offsets that the ledger does not account for."""
    lost: int = 0
    """Mapped to offsets at or after the target's log end: the target has lost them."""
    expired: int = 0
    """Mapped to offsets before the target's log start: retention has deleted them."""
    outside: int = 0
    """Target offsets in no page: transaction markers, records of other producers, and copies whose
    pages were not written before a crash."""
    copied_again: int = 0
    """Target offsets of copies that later copies replaced, for example after a crash."""
    segments: list[Segment] = field(default_factory=list)
    """Copied spans that are still in both logs."""

    @property
    def missing(self) -> int:
        """Number of source offsets that the ledger does not account for."""
        return sum(end - start for start, end in self.unaccounted)

    @property
    def pending(self) -> int:
        return self.facts.source_end - self.until

    @property
    def placed(self) -> int:
        """Number of records that samples are drawn from."""
        return 0 if self.facts.compacted else sum(segment.length for segment in self.segments)

    def to_json(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        facts = self.facts
        return {
            "topic": facts.source[0],
            "partition": facts.source[1],
            "target": facts.target[0],
            "position": facts.position,
            "source_start": facts.source_start,
            "source_end": facts.source_end,
            "target_start": facts.target_start,
            "target_end": facts.target_end,
            "left_out": facts.left_out,
            "accounted": self.accounted,
            "unaccounted": self.missing,
            "unaccounted_spans": [list(span) for span in self.unaccounted[:LISTED]],
            "pending": self.pending,
            "lost": self.lost,
            "expired_on_target": self.expired,
            "outside": self.outside,
            "copied_again": self.copied_again,
            "sampled_from": self.placed,
        }


@dataclass(slots=True)
class LedgerReport:
    """`samples`: the audit of the sampled ranges; it also lists partitions without a copy. `whole`:
    every record was audited because the flow is small."""

    checks: list[LedgerCheck]
    samples: AuditReport
    whole: bool = False

    @property
    def different(self) -> bool:
        """Whether records were lost at the target's end, or a sample differs."""
        return not self.samples.equal or any(check.lost for check in self.checks)

    @property
    def accounted(self) -> bool:
        """Whether the ledger accounts for every offset before the stored offsets."""
        return not any(check.unaccounted for check in self.checks)

    def to_json(self) -> dict[str, Any]:
        """Return plain values without secrets, for JSON."""
        return {
            "mode": "ledger",
            "different": self.different,
            "accounted": self.accounted,
            "whole": self.whole,
            "ledger": [check.to_json() for check in self.checks],
            "samples": self.samples.to_json(),
        }


def check_ledger(facts: PartitionFacts, pages: Sequence[MapPage]) -> LedgerCheck:
    """Compare a partition's pages with its log offsets. Without a stored offset, no offset is
    accounted for."""
    position = facts.first if facts.position is None else facts.position
    until = facts.source_end if facts.position is None else min(position, facts.source_end)
    check = LedgerCheck(facts, until)
    asked = (facts.first, max(until, facts.first))
    if facts.position is None:
        check.unaccounted = [asked] if asked[0] < asked[1] else []
        return check
    ledger = OffsetMap(pages)
    standing = _standing(ledger.segments)
    kept = {segment.source for segment in standing}
    overwritten = [s for s in ledger.segments if s.source not in kept]
    known = _minus(ledger.known(), [(s.source, s.source + s.length) for s in overwritten])
    inside = _clipped(known, asked)
    check.accounted = _length(inside)
    check.unaccounted = _minus([asked] if asked[0] < asked[1] else [], inside)
    for segment in standing:
        _place(check, segment, asked)
    logged = (facts.target_start, facts.target_end)
    told = _joined((s.target, s.target + s.length) for page in pages for s in page.segments)
    live = _joined((s.target, s.target + s.length) for s in standing)
    on_target = _length(_clipped(told, logged))
    check.outside = facts.target_end - facts.target_start - on_target
    check.copied_again = on_target - _length(_clipped(live, logged))
    return check


def _standing(segments: Sequence[Segment]) -> list[Segment]:
    """Drop segments whose target offsets were reused after the target topic was re-created."""
    found: list[Segment] = []
    lowest: int | None = None
    for segment in reversed(segments):
        if lowest is None or segment.target + segment.length <= lowest:
            found.append(segment)
        lowest = segment.target if lowest is None else min(lowest, segment.target)
    return found[::-1]


def _place(check: LedgerCheck, segment: Segment, asked: Span) -> None:
    """Count the part of a segment that the target has lost, and add the rest to `check`."""
    start, end = max(segment.source, asked[0]), min(segment.source + segment.length, asked[1])
    if start >= end:
        return
    shift = segment.target - segment.source
    first, last = start + shift, end + shift
    facts = check.facts
    check.lost += max(0, last - max(first, facts.target_end))
    check.expired += max(0, min(last, facts.target_start) - first)
    first, last = max(first, facts.target_start), min(last, facts.target_end)
    if first < last:
        check.segments.append(Segment(first - shift, first, last - first))


def is_small(facts: Iterable[PartitionFacts], samples: int) -> bool:
    """Whether reading every record costs no more than reading this number of samples."""
    offsets = sum(
        max(each.source_end - each.source_start, each.target_end - each.target_start)
        for each in facts
    )
    return offsets <= samples * SAMPLE_OFFSETS


def choose_samples(
    checks: Iterable[LedgerCheck], samples: int, draw: random.Random
) -> list[AuditRange]:
    """Choose at most `samples` ranges of SAMPLE_OFFSETS copied records. Each record is equally
    likely.

    Compacted partitions are left out, because the newer record that explains a missing one may be
    far away.
    """
    found: list[tuple[PartitionFacts, Segment]] = [
        (check.facts, segment)
        for check in checks
        if not check.facts.compacted
        for segment in check.segments
    ]
    if not found:
        return []
    ends = list(accumulate(-(-segment.length // SAMPLE_OFFSETS) for _, segment in found))
    chosen = draw.sample(range(ends[-1]), min(samples, ends[-1]))
    ranges: list[AuditRange] = []
    for number in sorted(chosen):
        index = bisect_right(ends, number)
        ranges.append(_sample(*found[index], number - (ends[index - 1] if index else 0)))
    return ranges


def _sample(facts: PartitionFacts, segment: Segment, piece: int) -> AuditRange:
    start = segment.source + piece * SAMPLE_OFFSETS
    end = min(start + SAMPLE_OFFSETS, segment.source + segment.length)
    shift = segment.target - segment.source
    return AuditRange(
        facts.source,
        facts.target,
        *(start, end),
        *(start + shift, end + shift),
        Rules(position=end, timestamps=facts.timestamps),
        # Only records near the sample are searched for the original of a foreign record.
        *(start, end),
    )


# Operations on sorted lists of non-empty spans.


def _joined(spans: Iterable[Span]) -> list[Span]:
    found: list[Span] = []
    for start, end in sorted(spans):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        elif start < end:
            found.append((start, end))
    return found


def _clipped(spans: Iterable[Span], to: Span) -> list[Span]:
    found = [(max(start, to[0]), min(end, to[1])) for start, end in spans]
    return [span for span in found if span[0] < span[1]]


def _minus(spans: Iterable[Span], without: Sequence[Span]) -> list[Span]:
    """Return these spans without the parts that the sorted spans `without` cover."""
    found: list[Span] = []
    index = 0
    for start, end in spans:
        while index < len(without) and without[index][1] <= start:
            index += 1
        at, ahead = start, index
        while at < end and ahead < len(without) and without[ahead][0] < end:
            if at < without[ahead][0]:
                found.append((at, without[ahead][0]))
            at = max(at, without[ahead][1])
            ahead += 1
        if at < end:
            found.append((at, end))
    return found


def _length(spans: Iterable[Span]) -> int:
    return sum(end - start for start, end in spans)
