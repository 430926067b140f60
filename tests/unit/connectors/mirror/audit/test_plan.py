"""Cutting a partition by the offset map, dealing ranges out, and what a repair may copy."""

from __future__ import annotations

from hypothesis import example, given, settings
from hypothesis import strategies as st

from connectors.mirror.audit.alignment import Rules
from connectors.mirror.audit.engines import shares
from connectors.mirror.audit.plan import AuditRange, PartitionFacts, plan_ranges
from connectors.mirror.offsets.offset_map_pages import MapPage, Segment
from tests.support.copier.copied_log import CopiedLog, copied_logs
from tests.unit.connectors.mirror.audit_model import Numbered, audit_records

SOURCE, TARGET = ("t", 0), ("a.t", 0)


def facts(source: tuple[int, int], target: tuple[int, int], position: int) -> PartitionFacts:
    """Of one byte for each offset."""
    return PartitionFacts(SOURCE, TARGET, *source, *target, position, offset_bytes=1.0)


def records(log: CopiedLog, start: int, end: int) -> list[Numbered]:
    return [Numbered(n, n) for n in range(start, end) if log.source[n]]


@given(copied_logs(java=True), st.integers(1, 9))
@settings(max_examples=200)
@example(CopiedLog([True, True, False, True]).play([("java", 2), ("copy", 2)]), 1)
@example(CopiedLog([True, True]).play([("copy", 2), ("crash", 1), ("copy", 2)]), 1)
@example(
    CopiedLog([True, True]).play(
        [("copy", 2), ("flush", 1), ("crash", 1), ("copy", 1), ("crash", 1)]
    ),
    1,
)
def test_wherever_it_is_cut_nothing_that_was_copied_is_found_missing(
    log: CopiedLog, size: int
) -> None:
    of = facts((0, len(log.source)), (0, len(log.target)), log.next)
    ranges = plan_ranges(of, log.map_pages(), size)
    assert ranges[0].source_start == 0
    assert ranges[-1].target_end == len(log.target)
    counts: dict[str, int] = {}
    for wanted in ranges:
        source = records(log, wanted.source_start, wanted.source_end)
        whole = records(log, wanted.partition_start, wanted.partition_end)
        target = [
            Numbered(at, log.target[at]) for at in range(wanted.target_start, wanted.target_end)
        ]
        result = audit_records(wanted, source, target, whole)
        for kind, found in result.counts.items():
            counts[kind] = counts.get(kind, 0) + found
    assert set(counts) <= {"extra", "duplicate"}
    assert counts.get("extra", 0) == log.target.count(None)


def test_a_long_segment_is_cut_at_every_so_many_records() -> None:
    pages = [MapPage(1, [Segment(0, 7, 1000)])]
    ranges = plan_ranges(facts((0, 1000), (0, 1007), 1000), pages, 300)
    assert [(r.source_start, r.source_end, r.target_start, r.target_end) for r in ranges] == [
        (0, 300, 0, 307),
        (300, 600, 307, 607),
        (600, 900, 607, 907),
        (900, 1000, 907, 1007),
    ]
    assert [r.rules.position for r in ranges] == [300, 600, 900, 1000]


def test_a_map_of_a_target_that_was_made_anew_cuts_nothing() -> None:
    """The first copy's offsets are given again: the map's old pages say what is not so any more."""
    pages = [MapPage(1, [Segment(0, 0, 1000)]), MapPage(2, [Segment(1000, 0, 1000)])]
    assert len(plan_ranges(facts((0, 2000), (0, 1000), 2000), pages, 300)) == 1


def test_a_compacted_partition_stays_whole_as_a_newer_record_explains_a_missing_one() -> None:
    pages = [MapPage(1, [Segment(0, 0, 1000)])]
    whole = PartitionFacts(SOURCE, TARGET, 0, 1000, 0, 1000, 1000, compacted=True, offset_bytes=1.0)
    assert len(plan_ranges(whole, pages, 100)) == 1


def test_only_the_first_range_begins_where_retention_may_have_deleted() -> None:
    pages = [MapPage(1, [Segment(0, 0, 1000)])]
    ranges = plan_ranges(facts((50, 1000), (20, 1000), 1000), pages, 400)
    assert [(r.rules.source_trimmed, r.rules.target_trimmed) for r in ranges] == [
        (True, True),
        (False, False),
        (False, False),
    ]


@given(st.lists(st.integers(0, 1000), max_size=200), st.integers(1, 16))
def test_every_range_is_in_one_share_and_large_ones_stand_alone(
    sizes: list[int], tasks: int
) -> None:
    ranges = [AuditRange((f"t{n}", 0), TARGET, 0, size, 0, size, Rules(), 0, size) for n, size in
              enumerate(sizes)]  # fmt: skip
    dealt = shares(ranges, tasks)
    assert sorted(each.source for share in dealt for each in share) == sorted(
        each.source for each in ranges
    )
    assert all(dealt)
