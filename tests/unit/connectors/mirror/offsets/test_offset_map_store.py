"""The store translates as whole pages would, whatever of them is in memory at the moment."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

import pytest
from hypothesis import given

from connect.errors import RetriableError
from connectors.mirror.offsets.map_notes import Note, Owner, note_key
from connectors.mirror.offsets.offset_map_pages import MapPage, Segment, page_key
from connectors.mirror.offsets.offset_map_store import OffsetMapStore
from connectors.mirror.offsets.translation import BackwardMap, Place
from tests.support.copier.copied_log import CopiedLog, copied_logs
from tests.support.records.whole_map import WholeMap, places

T = ("t", 0)


class Topic:
    """A map topic: its records, those that compaction left, and how often they were read."""

    def __init__(self) -> None:
        self.records: dict[int, tuple[bytes, bytes | None]] = {}
        self.reads: list[list[int]] = []
        self._end = 0

    def write(self, store: OffsetMapStore, first: int, value: bytes | None) -> int:
        at, self._end = self._end, self._end + 1
        self.records[at] = (page_key(*T, first), value)
        store.take(page_key(*T, first), value, at)
        return at

    def fetch(self, offsets: Collection[int]) -> Mapping[int, tuple[bytes, bytes | None]]:
        self.reads.append(list(offsets))
        return {at: self.records[at] for at in offsets if at in self.records}


@given(copied_logs(java=True))
def test_translations_are_those_of_whole_pages_also_when_none_is_kept(log: CopiedLog) -> None:
    whole, backward = WholeMap(log.map_pages()), BackwardMap(log.map_pages())
    for cache_bytes in (0, 1 << 20):
        topic = Topic()
        store = OffsetMapStore(topic.fetch, cache_bytes)
        for first, value in log.pages.items():
            topic.write(store, first, value)
        positions = range(len(log.source) + 2)
        found = places(store, {T: positions, ("other", 0): [3]})
        for position in positions:
            known, place = whole.downstream(position), found.get((T, position))
            if known is not None:
                assert place is not None
                assert place.offset == known
        assert not cache_bytes or not topic.reads
        for target in range(len(log.target) + 1):
            assert store.backward(T).upstream(target) == backward.upstream(target)


def test_pages_that_are_not_in_memory_are_read_together() -> None:
    topic = Topic()
    store = OffsetMapStore(topic.fetch, cache_bytes=0)
    for first in (0, 10, 20, 30):
        topic.write(store, first, MapPage(1, [Segment(first, first, 10)]).encode())
    found = places(store, {T: [5, 15, 39, 5]})
    assert found == {(T, n): Place(n, True) for n in (5, 15, 39)}
    assert topic.reads == [[0, 1]]  # the page written last is always kept


def test_a_page_that_was_rewritten_meanwhile_is_looked_up_anew() -> None:
    topic = Topic()

    def fetch(offsets: Collection[int]) -> Mapping[int, tuple[bytes, bytes | None]]:
        if 0 in topic.records:
            # Between the look at the index and this read, compaction took the old version.
            del topic.records[0]
            topic.write(store, 0, MapPage(2, [Segment(0, 100, 10)]).encode())
        return topic.fetch(offsets)

    store = OffsetMapStore(fetch, cache_bytes=0)
    topic.write(store, 0, MapPage(1, [Segment(0, 0, 10)]).encode())
    topic.write(store, 50, MapPage(1, [Segment(50, 50, 1)]).encode())
    assert places(store, {T: [5]}) == {(T, 5): Place(105, True)}


def test_pages_that_do_not_come_are_an_error_that_may_pass() -> None:
    topic = Topic()
    store = OffsetMapStore(lambda offsets: {}, cache_bytes=0)
    for first in (0, 50):
        topic.write(store, first, MapPage(1, [Segment(first, 0, 10)]).encode())
    with pytest.raises(RetriableError):
        places(store, {T: [5]})


def test_a_page_that_never_comes_leads_to_where_it_begins() -> None:
    """Somebody deleted the records of the map: translation goes on all the same."""
    topic = Topic()
    store = OffsetMapStore(lambda offsets: {}, cache_bytes=0)
    for first in (10, 50):
        topic.write(store, first, MapPage(1, [Segment(first, first, 10)]).encode())
    with pytest.raises(RetriableError):
        places(store, {T: [15]})
    assert places(store, {T: [15]}) == {(T, 15): Place(10, False, 5)}
    assert store.backward(T).upstream(15) == Place(10, False, 5)


def test_a_map_topic_that_was_created_again_is_another_map() -> None:
    store = OffsetMapStore(lambda offsets: {})
    store.take(page_key("t", 0, 0), MapPage(1, [Segment(0, 0, 1000)]).encode(), 0)
    store.take(page_key("t", 0, 1000), MapPage(1, [Segment(1000, 1000, 9)]).encode(), 1)
    store.take(page_key("t", 1, 0), MapPage(1, [Segment(0, 500_000, 1000)]).encode(), 0)
    assert places(store, {T: [900, 1005], ("t", 1): [900]}) == {
        (("t", 1), 900): Place(500_900, True)
    }
    store.forget()
    assert places(store, {("t", 1): [900]}) == {}


def always(
    record: tuple[bytes, bytes | None],
) -> Callable[[Collection[int]], Mapping[int, tuple[bytes, bytes | None]]]:
    """A topic with this record at every offset."""
    return lambda offsets: dict.fromkeys(offsets, record)


def test_another_page_at_the_same_offset_of_the_topic_does_not_answer() -> None:
    """The topic was created again, and that is not known yet."""
    others = [
        (page_key("t", 1, 0), MapPage(1, [Segment(0, 500_000, 1000)]).encode()),
        (page_key("t", 0, 0), MapPage(2, [Segment(0, 500_000, 1000)]).encode()),
        (page_key("t", 0, 0), b"no page"),
    ]
    for other in others:
        store = OffsetMapStore(always(other), 0)
        store.take(page_key("t", 0, 0), MapPage(1, [Segment(0, 0, 1000)]).encode(), 0)
        store.take(page_key("t", 0, 1000), MapPage(1, [Segment(1000, 1000, 9)]).encode(), 1)
        with pytest.raises(RetriableError):
            places(store, {T: [900]})


def test_deleted_pages_are_forgotten_and_replaced_ones_take_no_memory() -> None:
    topic = Topic()
    store = OffsetMapStore(topic.fetch, cache_bytes=100)
    kept = MapPage(1, [Segment(50, 50, 1)]).encode()
    topic.write(store, 50, kept)
    for length in range(1, 100):
        topic.write(store, 0, MapPage(1, [Segment(0, 0, length)]).encode())
    assert places(store, {T: [50]}) == {(T, 50): Place(50, True)}
    assert topic.reads == []
    topic.write(store, 0, None)
    assert places(store, {T: [5]}) == {}


def test_what_is_no_page_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    store = OffsetMapStore(Topic().fetch)
    store.take(b"\x00", b"x", 7)
    store.take(page_key("t", 0, 5), b"x", 8)
    store.take(None, None, 9)
    assert [record.getMessage().split()[2] for record in caplog.records] == ["7", "8", "9"]
    assert places(store, {T: [5]}) == {}


def test_pages_of_a_former_owner_do_not_count_nor_does_its_late_note() -> None:
    store = OffsetMapStore(lambda _: {})
    late = MapPage(5, [Segment(4, 40, 10)]).encode()
    records = [
        (note_key(Note.OWNER, T), Owner(5).encode()),
        (page_key(*T, 0), MapPage(5, [Segment(0, 0, 4)]).encode()),
        (note_key(Note.OWNER, T), Owner(9, before=5).encode()),
        (note_key(Note.OWNER, T), Owner(20).encode()),
        (page_key(*T, 2), MapPage(9, [Segment(2, 6, 8)]).encode()),
        (page_key(*T, 4), late),
    ]
    for at, (key, value) in enumerate(records):
        store.take(key, value, at)
    found = places(store, {T: [1, 5]})
    assert found[T, 1] == Place(1, True)
    assert found[T, 5] == Place(9, True)


def test_an_owner_counts_that_found_only_a_late_note_because_of_compaction() -> None:
    store = OffsetMapStore(lambda _: {})
    records = [
        (note_key(Note.OWNER, T), Owner(90).encode()),
        (note_key(Note.OWNER, T), Owner(20).encode()),  # too late, and kept by compaction
        (note_key(Note.OWNER, T), Owner(50, before=20).encode()),
        (page_key(*T, 0), MapPage(50, [Segment(0, 7, 4)]).encode()),
        (note_key(Note.OWNER, T), Owner(60, before=20).encode()),  # too late, too
        (page_key(*T, 4), MapPage(49, [Segment(4, 40, 10)]).encode()),
    ]
    for at, (key, value) in enumerate(records):
        store.take(key, value, at)
    found = places(store, {T: [1, 4]})
    assert found[T, 1] == Place(8, True)
    assert found[T, 4] == Place(11, False)


@pytest.mark.parametrize("value", [b"", b"\x00\x01" + bytes(16), b"\x00\x00" + b"\xff" * 16])
def test_a_note_of_the_owner_that_cannot_be_read_is_ignored(value: bytes) -> None:
    store = OffsetMapStore(lambda _: {})
    store.take(note_key(Note.OWNER, T), value, 0)
    store.take(page_key(*T, 0), MapPage(5, [Segment(0, 0, 4)]).encode(), 1)
    assert places(store, {T: [1]})[T, 1] == Place(1, True)
