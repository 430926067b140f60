"""A committed offset leads to precisely the next record: checked by looking at both logs."""

from __future__ import annotations

from hypothesis import given, settings

from connectors.mirror.formats import OffsetSync
from connectors.mirror.offsets.offset_map_index import PartitionIndex
from connectors.mirror.offsets.offset_map_pages import MapPage, Segment, page_span
from connectors.mirror.offsets.translation import (
    BackwardMap,
    Known,
    Place,
    before_the_map,
    by_sync,
    nearer,
    places_in_stretch,
)
from tests.support.copier.copied_log import CopiedLog, copied_logs
from tests.support.records.whole_map import WholeMap


def index_of(pages: dict[int, bytes]) -> PartitionIndex:
    index = PartitionIndex()
    for at, (first, value) in enumerate(pages.items()):
        index.put(page_span(first, value, at))
    return index


def place(index: PartitionIndex, pages: dict[int, bytes], source: int) -> Place | None:
    stretch = index.at(source)
    if stretch is None:
        known = before_the_map(index.first(), source)
        return None if known is None else known.place
    return places_in_stretch(stretch, pages[stretch.page.first_source], [source])[0].place


@given(copied_logs())
def test_every_position_leads_to_the_next_record_in_its_later_copy(log: CopiedLog) -> None:
    index = index_of(log.pages)
    for source in range(log.next):
        record = log.next_record(source)
        found = place(index, log.pages, source)
        if record is None or found is None:
            continue
        if found.exact or log.source[source]:
            assert found == Place(log.later_copy(record), True)
        else:
            # A gap at which a session began: what lies on the target between two sessions may be
            # lost copies of it.
            assert found.offset <= log.later_copy(record)


@settings(max_examples=400)
@given(copied_logs(java=True, losses=True))
def test_no_record_is_ever_left_out(log: CopiedLog) -> None:
    index = index_of(log.pages)
    first = index.first()
    for source in range(len(log.source) + 2):
        record = log.next_record(source)
        found = place(index, log.pages, source)
        if found is None:
            assert log.foreign_copies or first is None or first.first_target > 0
        else:
            end = len(log.target) if record is None else log.later_copy(record)
            assert found.offset <= end


@given(copied_logs(java=True, losses=True))
def test_pages_known_by_their_heads_say_what_whole_pages_say(log: CopiedLog) -> None:
    index, whole = index_of(log.pages), WholeMap(log.map_pages())
    for source in range(len(log.source) + 2):
        stretch = index.at(source)
        found = None if stretch is None else place(index, log.pages, source)
        assert (None if found is None else found.offset) == whole.downstream(source)


@given(copied_logs(java=True, losses=True))
def test_the_order_in_which_pages_are_read_does_not_matter(log: CopiedLog) -> None:
    forwards = index_of(log.pages)
    backwards = index_of(dict(reversed(log.pages.items())))
    again = index_of(log.pages)
    for page in again.pages():
        again.remove(page.first_source)
    assert again.first() is None
    for page in forwards.pages():
        again.put(page)
    for source in range(len(log.source)):
        expected = place(forwards, log.pages, source)
        assert place(backwards, log.pages, source) == expected
        assert place(again, log.pages, source) == expected


@given(copied_logs(java=True))
def test_going_back_never_leaves_out_a_record_and_is_exact_where_pages_know(
    log: CopiedLog,
) -> None:
    backward, explained = BackwardMap(log.map_pages()), log.explained()
    for target in range(len(log.target) + 1):
        found = backward.upstream(target)
        if found is None:
            assert target not in explained
        else:
            read = set(log.target[:target])
            assert not {o for o in log.target if o is not None and o < found.offset} - read
        if target in explained:
            assert found == Place(log.target[target] or 0, True)


@given(copied_logs(losses=True))
def test_going_back_leaves_nothing_out_but_what_the_target_lost(log: CopiedLog) -> None:
    """Offsets of the target that were given twice are those of the later records now. What was lost
    and told of is left out, also where a crash had it copied again behind later records."""
    backward = BackwardMap(log.map_pages())
    for target in range(len(log.target) + 1):
        found = backward.upstream(target)
        if found is not None:
            known = {*log.target[:target], *log.ever_lost}
            assert not {o for o in log.target if o is not None and o < found.offset} - known


def test_many_positions_are_found_in_one_pass() -> None:
    page = MapPage(1, [Segment(10, 0, 5), Segment(20, 5, 5), Segment(40, 10, 1)])
    value = page.encode()
    index = index_of({10: value})
    stretch = index.at(10)
    assert stretch is not None
    positions = list(range(10, 50))
    found = [each.place for each in places_in_stretch(stretch, value, positions)]
    assert found == [place(index, {10: value}, position) for position in positions]
    assert found[:12] == [Place(offset, True) for offset in (0, 1, 2, 3, 4, 5, 5, 5, 5, 5, 5, 6)]
    assert found[-1] == Place(11, False, 49 - 41)


def test_a_group_at_the_end_goes_on_at_the_end() -> None:
    page = MapPage(1, [Segment(0, 0, 5)])
    assert place(index_of({0: page.encode()}), {0: page.encode()}, 5) == Place(5, False, 0)


def test_a_group_behind_the_marker_of_the_last_transaction_reads_nothing_again() -> None:
    value = MapPage(1, [Segment(0, 0, 5)], seen=6).encode()
    assert place(index_of({0: value}), {0: value}, 6) == Place(5, False, 0)
    assert place(index_of({0: value}), {0: value}, 9) == Place(5, False, 3)


def test_before_the_first_record_is_the_first_record_unless_others_were_copied_before() -> None:
    ours, after_java = MapPage(1, [Segment(3, 0, 5)]), MapPage(1, [Segment(3, 3, 5)])
    assert place(index_of({3: ours.encode()}), {}, 1) == Place(0, True)
    assert place(index_of({3: after_java.encode()}), {}, 1) is None
    assert before_the_map(None, 5) is None
    first = index_of({3: after_java.encode()}).first()
    assert before_the_map(first, 2) == Known(None, syncs_below=3)


def test_by_syncs_a_group_goes_on_at_most_one_record_after_a_sync() -> None:
    sync = OffsetSync("t", 0, 100, 40)
    assert by_sync(sync, 100) == Place(40, False)
    assert by_sync(sync, 101) == Place(41, False)
    assert by_sync(sync, 150) == Place(41, False, 49)
    assert by_sync(None, 5) is None


def test_the_map_counts_where_it_knows_and_else_what_is_nearer() -> None:
    exact, end = Place(10, True), Place(10, False, 5)
    assert nearer(exact, Place(12, False)) == exact
    assert nearer(end, Place(12, False, 1)) == Place(12, False, 1)
    assert nearer(end, Place(9, False)) == end
    assert nearer(end, None) == end
    assert nearer(None, Place(9, False)) == Place(9, False)
    assert nearer(None, None) is None
