"""What the ledger accounts for is so, and what it does not know of is said."""

from __future__ import annotations

import random
from dataclasses import replace

from hypothesis import example, given, settings
from hypothesis import strategies as st

from connectors.mirror.audit import map_check as ledger
from connectors.mirror.audit.map_check import LedgerCheck, check_ledger, choose_samples
from connectors.mirror.audit.plan import PartitionFacts, began_at, plan_ranges
from connectors.mirror.offsets.offset_map_pages import MapPage, Segment
from tests.support.copier.copied_log import CopiedLog, copied_logs

SOURCE, TARGET = ("t", 0), ("a.t", 0)


def facts(
    source: tuple[int, int], target: tuple[int, int], position: int | None, compacted: bool = False
) -> PartitionFacts:
    return PartitionFacts(SOURCE, TARGET, *source, *target, position, compacted)


def checked(
    pages: list[MapPage], source: tuple[int, int], target: tuple[int, int], position: int | None
) -> LedgerCheck:
    return check_ledger(facts(source, target, position), pages)


@given(copied_logs(java=True), st.randoms(use_true_random=False))
@settings(max_examples=300)
@example(CopiedLog([True, True, False]).play([("copy", 2), ("java", 1)]), random.Random(1))
def test_every_offset_is_accounted_for_or_named_and_samples_are_where_they_should_be(
    log: CopiedLog, draw: random.Random
) -> None:
    position = log._stored
    check = checked(log.map_pages(), (0, len(log.source)), (0, len(log.target)), position)
    named = {n for start, end in check.unaccounted for n in range(start, end)}
    assert check.accounted + check.missing == position
    assert check.lost == check.expired == 0
    for offset in set(range(position)) - named:
        assert not log.source[offset] or offset in log.target
    if not log.foreign_copies:
        # Nothing tells of offsets without a record that another mirror passed.
        assert not any(log.source[offset] for offset in named)
    explained = log.explained()
    assert check.outside == len(log.target) - len(explained)
    for sample in choose_samples([check], 10, draw):
        assert log.target[sample.target_start : sample.target_end] == list(
            range(sample.source_start, sample.source_end)
        )


WHOLE = [MapPage(1, [Segment(0, 0, 100), Segment(101, 100, 99)])]
"""Offsets 0 to 199, of which 100 has no record."""


def test_a_whole_copy_is_accounted_for() -> None:
    check = checked(WHOLE, (0, 250), (0, 199), 200)
    assert (check.accounted, check.unaccounted, check.pending) == (200, [], 50)
    assert (check.lost, check.expired, check.outside, check.copied_again) == (0, 0, 0, 0)


def test_a_target_that_lost_its_newest_records_is_seen() -> None:
    assert checked(WHOLE, (0, 200), (0, 189), 200).lost == 10


def test_retention_on_either_side_explains_what_it_deleted() -> None:
    check = checked(WHOLE, (20, 200), (30, 199), 200)
    assert (check.accounted, check.lost, check.expired) == (180, 0, 10)
    assert check.segments == [Segment(30, 30, 70), Segment(101, 100, 99)]


def test_what_no_page_tells_is_named() -> None:
    gap = [MapPage(1, [Segment(0, 0, 50)]), MapPage(2, [Segment(80, 80, 20)])]
    assert checked(gap, (0, 120), (0, 100), 110).unaccounted == [(50, 80), (100, 110)]
    assert checked([], (5, 9), (0, 4), 9).unaccounted == [(5, 9)]
    assert checked(WHOLE, (0, 200), (0, 199), None).unaccounted == [(0, 200)]


def test_what_was_left_out_on_purpose_is_not_asked_for() -> None:
    later = [MapPage(1, [Segment(30, 0, 100)])]
    asked = replace(facts((10, 130), (0, 100), 130), began=began_at(later))
    assert check_ledger(asked, later).unaccounted == [(10, 30)]
    begun = replace(asked, from_begin=True)
    assert (begun.first, begun.left_out) == (30, 20)
    assert check_ledger(begun, later).unaccounted == []
    assert [each.source_start for each in plan_ranges(begun, later)] == [30]
    of_another = [MapPage(1, [Segment(30, 7, 100)])]
    assert began_at(of_another) == began_at([]) == 0, "others copied before this map"


def test_copies_of_a_target_that_was_made_anew_do_not_count() -> None:
    pages = [MapPage(1, [Segment(0, 0, 100)]), MapPage(2, [Segment(100, 0, 100)])]
    check = checked(pages, (0, 200), (0, 100), 200)
    assert check.unaccounted == [(0, 100)]
    assert check.segments == [Segment(100, 0, 100)]


def test_what_was_copied_again_and_what_is_not_ours_is_counted() -> None:
    pages = [MapPage(1, [Segment(0, 0, 50)]), MapPage(2, [Segment(40, 53, 60)])]
    check = checked(pages, (0, 100), (0, 113), 100)
    assert (check.accounted, check.copied_again, check.outside) == (100, 10, 3)


def test_samples_are_drawn_from_all_and_never_more_than_there_are() -> None:
    several = [checked(WHOLE, (0, 200), (0, 199), 200), check_ledger(
        facts((0, 9000), (0, 9000), 9000), [MapPage(1, [Segment(0, 0, 9000)])]
    )]  # fmt: skip
    found = choose_samples(several, 1000, random.Random(1))
    assert len(found) == 2 + 9
    assert sum(each.source_end - each.source_start for each in found) == 199 + 9000
    assert len(choose_samples(several, 4, random.Random(1))) == 4
    assert found[-1].source_start == 9000 - ledger.SAMPLE_OFFSETS
    compacted = check_ledger(facts((0, 200), (0, 199), 200, compacted=True), WHOLE)
    assert choose_samples([compacted], 5, random.Random(1)) == []
