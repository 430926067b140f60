"""Pages of the offset map go when the source's records are gone, or were copied again."""

from __future__ import annotations

from connectors.mirror.offsets.map_notes import NO_OWNER
from connectors.mirror.offsets.offset_map_pages import PageSpan, page_key
from connectors.mirror.offsets.page_index import PageIndex, before_all_lost

T = ("t", 0)


def index(*spans: PageSpan) -> PageIndex:
    made = PageIndex()
    for span in spans:
        made.add(T, span)
    return made


def test_a_page_goes_when_the_next_one_begins_before_the_log_start() -> None:
    pages = index(PageSpan(1, 0, 100), PageSpan(1, 100, 200))
    assert pages.useless(T, 99) == []
    assert pages.useless(T, 100) == [page_key("t", 0, 0)]
    assert pages.useless(T, 100) == []
    assert pages.useless(T, 200) == []  # it says where the target goes on
    pages.add(T, PageSpan(1, 200, 300))
    assert pages.useless(T, 200) == [page_key("t", 0, 100)]


def test_a_page_stays_as_long_as_an_older_one_that_it_overrules_reaches_further() -> None:
    pages = index(PageSpan(1, 0, 950), PageSpan(2, 920, 930), PageSpan(3, 930, 940))
    assert pages.useless(T, 930) == []


def test_the_newest_loss_page_stays() -> None:
    loss = PageSpan(2, 920, 950, 920, True)
    pages = index(PageSpan(1, 0, 950), loss, PageSpan(3, 950, 990, 920))
    assert pages.useless(T, 960) == [page_key("t", 0, 0)]


def test_a_page_that_a_later_session_copied_over_goes() -> None:
    pages = index(PageSpan(1, 0, 100), PageSpan(1, 100, 200), PageSpan(2, 90, 300))
    assert pages.useless(T, 0) == [page_key("t", 0, 100)]


def test_the_newest_session_is_never_covered() -> None:
    pages = index(PageSpan(3, 50, 60), PageSpan(2, 0, 50))
    assert pages.useless(T, 0) == []


def test_a_page_written_again_keeps_its_later_session() -> None:
    pages = index(PageSpan(2, 10, 50), PageSpan(1, 10, 400), PageSpan(2, 50, 60))
    assert pages.useless(T, 50) == [page_key("t", 0, 10)]


def test_other_partitions_stay() -> None:
    assert index(PageSpan(1, 0, 10)).useless(("t", 1), 1000) == []


def test_a_loss_begins_at_the_nearest_place_that_is_known_on_both_sides() -> None:
    """Source offsets 20 to 36 were copied a second time, to 56 and on, which is lost."""
    pages = [PageSpan(1, 0, 29, 0), PageSpan(1, 29, 45, 26), PageSpan(2, 20, 37, 56)]
    assert before_all_lost(pages, 46, (29, 26)) == (0, 0)
    assert before_all_lost(pages, 46, (29, 26), (20, 19)) == (20, 19)
    assert before_all_lost(pages, 46, (29, 26), (21, 20)) == (0, 0), "after what is lost"


def test_a_loss_does_not_begin_at_what_an_earlier_one_took() -> None:
    pages = [
        PageSpan(1, 0, 13, 0),
        PageSpan(1, 31, 32, 24),
        PageSpan(2, 13, 32, 10, lost=True),
        PageSpan(3, 32, 40, 13),
    ]
    assert before_all_lost(pages, 20, (32, 13)) == (32, 13)


def test_of_a_topic_that_was_created_again_only_what_it_has_stays_known() -> None:
    there, gone = PageSpan(5, 0, 10), PageSpan(5, 10, 20)
    pages = index(there, gone, PageSpan(6, 20, 20, 9, lost=True))
    pages.note_owner(T, 5)
    pages.forget_all_but({T: [there, PageSpan(3, 10, 30)]})
    assert list(pages.spans(T)) == [there]
    assert pages.owner(T) == NO_OWNER
    assert not pages.has_losses(T)
    assert pages.newest(T) >= 6, "sessions go on"
