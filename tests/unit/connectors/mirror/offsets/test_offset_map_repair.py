"""Which heads of pages take the place of pages that others wrote over."""

from __future__ import annotations

from connectors.mirror.offsets.map_notes import NO_OWNER
from connectors.mirror.offsets.offset_map_pages import MapPage, PageSpan
from connectors.mirror.offsets.offset_map_repair import heads_in_place_of

_LOSS = PageSpan(session=5, first_source=10, end_source=40, first_target=7, lost=True)


def _spans(pages: list[MapPage]) -> list[PageSpan]:
    return [page.span for page in pages]


def test_a_page_of_the_owner_gets_its_session_back() -> None:
    assert _spans(heads_in_place_of([_LOSS], [], 5, [])) == [_LOSS]
    assert _spans(heads_in_place_of([_LOSS], [], NO_OWNER, [])) == [_LOSS]


def test_a_page_of_a_former_owner_counts_for_those_who_know_the_owner() -> None:
    assert _spans(heads_in_place_of([_LOSS], [], 9, [])) == [_LOSS._replace(session=9)]


def test_pages_between_it_and_the_owners_are_not_overruled() -> None:
    before = PageSpan(session=4, first_source=0, end_source=60)
    overruled = PageSpan(session=4, first_source=20, end_source=60)
    between = PageSpan(session=6, first_source=40, end_source=50, first_target=7)
    own = PageSpan(session=9, first_source=50, end_source=60, first_target=17)
    later = PageSpan(session=6, first_source=55, end_source=60, first_target=20)

    heads = heads_in_place_of([_LOSS], [before, overruled, between, own, later], 9, [own])

    assert _spans(heads) == [
        _LOSS._replace(session=9),
        between._replace(session=9, lost=True),
    ]


def test_a_page_that_the_owner_overrules_is_not_restored() -> None:
    own = PageSpan(session=9, first_source=10, end_source=60)
    assert heads_in_place_of([_LOSS], [own], 9, [own]) == []


def test_heads_that_were_written_before_are_written_again_with_one_before_them() -> None:
    """The write of both may have failed."""
    head = PageSpan(session=9, first_source=40, end_source=50, first_target=7, lost=True)
    assert _spans(heads_in_place_of([_LOSS], [head], 9, [])) == [_LOSS._replace(session=9), head]


def test_a_page_that_another_former_one_overrules_is_not_restored() -> None:
    later = PageSpan(session=6, first_source=8, end_source=60)
    assert heads_in_place_of([_LOSS], [later], 9, []) == []
