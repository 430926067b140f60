"""The offset map is exact inside every copied range, and survives pages, gaps and second copies."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect.errors import CorruptData
from connectors.mirror.offsets.offset_map_pages import (
    MapPage,
    Segment,
    page_key,
    parse_page_key,
)
from connectors.mirror.offsets.partition_pages import PAGE_SEGMENTS, PartitionPages
from tests.support.records.whole_map import WholeMap


def test_golden_bytes_of_a_page() -> None:
    assert page_key("t", 3, 7).hex() == "0001" + "74" + "00000003" + "0000000000000007"
    page = MapPage(session=2, segments=[Segment(7, 5, 3), Segment(11, 8, 200)])
    assert (
        page.encode().hex()
        == (
            "0000" + "0000000000000002" + "0000000000000005" + "00000000000000d3"  # end 211
            "02" + "000003" + "0100c801"
        )
    )


def test_consecutive_ranges_are_one_segment() -> None:
    pages = PartitionPages(1)
    pages.copied(0, 10, 100)
    pages.copied(10, 5, 110)
    (page,) = pages.take_unsaved()
    assert page.segments == [Segment(0, 100, 15)]
    assert pages.take_unsaved() == []


def test_a_page_that_grows_is_due_again_under_the_same_key() -> None:
    pages = PartitionPages(1)
    pages.copied(0, 10, 100)
    pages.take_unsaved()
    pages.copied(11, 5, 110)
    (page,) = pages.take_unsaved()
    assert page.first_source == 0
    assert page.segments == [Segment(0, 100, 10), Segment(11, 110, 5)]


def test_pages_that_could_not_be_written_are_due_again_in_order() -> None:
    pages = PartitionPages(1)
    pages.copied(0, 1, 0)
    failed = pages.take_unsaved()
    pages.copied(5, 1, 1)
    pages.put_back(failed)
    assert pages.take_unsaved() == failed


def test_what_was_seen_behind_the_last_record_is_known_to_hold_none() -> None:
    pages = PartitionPages(1)
    pages.seen(3)  # before any record: there is nothing to say it in
    pages.copied(0, 10, 100)
    pages.seen(10)
    pages.take_unsaved()
    pages.seen(12)
    (page,) = pages.take_unsaved()
    assert page.end_source == 12
    assert MapPage.decode(0, page.encode()) == page
    pages.seen(12)
    assert pages.take_unsaved() == []
    later = MapPage(5, [Segment(12, 200, 1)])
    assert WholeMap([page, later]).downstream(11) == 200


def test_a_full_page_is_closed() -> None:
    pages = PartitionPages(1)
    for n in range(PAGE_SEGMENTS + 1):
        pages.copied(2 * n, 1, n)
    first, second = pages.take_unsaved()
    assert len(first.segments) == PAGE_SEGMENTS
    assert second.first_source == 2 * PAGE_SEGMENTS


def test_offsets_translate_exactly_and_to_the_next_record_in_gaps() -> None:
    offset_map = WholeMap([MapPage(1, [Segment(10, 100, 5), Segment(20, 105, 5)])])
    assert offset_map.downstream(9) is None
    assert offset_map.downstream(10) == 100
    assert offset_map.downstream(14) == 104
    assert offset_map.downstream(15) == 105
    assert offset_map.downstream(19) == 105
    assert offset_map.downstream(24) == 109
    assert offset_map.downstream(25) == 110
    assert offset_map.downstream(99) == 110


def test_a_range_copied_twice_maps_to_its_later_copy() -> None:
    crashed = MapPage(1, [Segment(0, 0, 100)])
    again = MapPage(2, [Segment(60, 100, 40)])
    offset_map = WholeMap([again, crashed])
    assert offset_map.segments == [Segment(0, 0, 60), Segment(60, 100, 40)]
    assert offset_map.downstream(70) == 110


def test_what_another_program_copied_between_two_sessions_is_not_left_out() -> None:
    before, after = MapPage(1, [Segment(0, 0, 100)]), MapPage(2, [Segment(150, 150, 50)])
    offset_map = WholeMap([before, after])
    assert [offset_map.downstream(offset) for offset in (99, 100, 149, 150)] == [99, 100, 100, 150]


def test_a_gap_that_the_earlier_session_saw_leads_to_the_later_copy() -> None:
    crashed = MapPage(1, [Segment(0, 0, 49), Segment(50, 49, 50)])
    again = MapPage(2, [Segment(50, 99, 50)])
    assert WholeMap([crashed, again]).downstream(49) == 99


@given(
    st.lists(
        st.tuples(st.integers(0, 300), st.integers(1, 1 << 40), st.integers(-50, 1 << 40)),
        min_size=1,
        max_size=50,
    )
)
def test_pages_survive_their_bytes(moves: list[tuple[int, int, int]]) -> None:
    source = target = 1000
    segments: list[Segment] = []
    for gap, length, shift in moves:
        source, target = source + gap, max(0, target + shift)
        segments.append(Segment(source, target, length))
        source, target = source + length, target + length
    page = MapPage(9, segments)
    assert MapPage.decode(page.first_source, page.encode()) == page


@given(st.binary(max_size=80))
def test_broken_bytes_are_corrupt_data(data: bytes) -> None:
    with contextlib.suppress(CorruptData):
        MapPage.decode(0, data)
    with contextlib.suppress(CorruptData):
        parse_page_key(data)


def test_keys_are_read_back() -> None:
    assert parse_page_key(page_key("größe", 2, 1 << 40)) == ("größe", 2, 1 << 40)
    with pytest.raises(CorruptData):
        parse_page_key(b"\x00")


def test_pages_of_an_earlier_copy_come_after_those_of_the_later_one() -> None:
    """A reader of the first ones only would lead groups back to the earlier copy."""
    pages = PartitionPages(1, settled=True)
    pages.copied(5, 10, 5)
    assert [page.first_source for page in pages.take_unsaved()] == [5]
    pages.copied(15, 5, 15)  # the page of the first copy is due again
    pages.copied(2, 10, 20)

    assert [page.span[:3] for page in pages.take_unsaved()] == [(2, 2, 12), (1, 5, 20)]


def test_a_page_of_an_earlier_copy_does_not_come_under_the_key_of_the_later_one() -> None:
    pages = PartitionPages(1, settled=True)
    pages.copied(5, 10, 5)
    pages.copied(5, 20, 20)

    assert [page.span[:3] for page in pages.take_unsaved()] == [(2, 5, 25)]


def test_a_loss_page_comes_before_what_is_copied_again() -> None:
    pages = PartitionPages(1, settled=True)
    pages.copied(0, 10, 0)
    pages.lost_from(5, 5, 10)
    pages.copied(3, 10, 5)

    found = pages.take_unsaved()
    assert [page.session for page in found] == sorted(page.session for page in found)
    assert [page.span.lost for page in found] == [False, True, False]
