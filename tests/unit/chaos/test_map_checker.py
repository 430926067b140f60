"""The checker of offset maps finds wrong and missing pages, and accepts what is right."""

from __future__ import annotations

import struct
from dataclasses import replace

import pytest

from tests.support.chaos.logs import Page, parse_page, targets
from tests.support.chaos.map_checker import check_map
from tests.unit.chaos.hand_made import SHIFT, case, copy, kinds, source


def page(*segments: tuple[int, int, int], session: int = 1) -> Page:
    first, length = segments[0][0], segments[-1][0] + segments[-1][2]
    return Page("t", 0, first, session, length, segments)


def test_a_right_map_is_accepted() -> None:
    found = case(source(0, 1, 2, 5, 6), copy(0, 1, 2, 5, 6))
    assert check_map(found, [page((0, SHIFT, 3), (5, SHIFT + 3, 2))]) == []


@pytest.mark.parametrize(
    "segments",
    [
        ((0, SHIFT, 3), (5, SHIFT + 4, 2)),
        ((0, SHIFT + 1, 3), (5, SHIFT + 3, 2)),
        ((0, SHIFT, 3),),
        ((0, SHIFT, 2), (5, SHIFT + 3, 2)),
        ((0, 0, 3), (5, SHIFT + 3, 2)),
    ],
)
def test_a_wrong_page(segments: tuple[tuple[int, int, int], ...]) -> None:
    found = case(source(0, 1, 2, 5, 6), copy(0, 1, 2, 5, 6))
    assert "map" in kinds(check_map(found, [page(*segments)]))


def test_a_later_session_replaces_what_it_copied_again() -> None:
    found = case(source(*range(4)), copy(0, 1, 2, 1, 2, 3))
    early, late = page((0, SHIFT, 3)), page((1, SHIFT + 3, 3), session=2)
    assert check_map(found, [late, early]) == []
    assert targets([early, late]) == {0: SHIFT, 1: SHIFT + 3, 2: SHIFT + 4, 3: SHIFT + 5}
    wrong = replace(late, session=0)
    assert kinds(check_map(found, [early, wrong])) == ["map"]


def test_under_exactly_once_only_what_lies_between_two_sessions_may_be_unmapped() -> None:
    found = case(source(*range(8)), copy(*range(8)))
    dead, heir = page((0, SHIFT, 3)), page((5, SHIFT + 5, 3), session=2)
    assert kinds(check_map(found, [dead, heir])) == ["map"]
    found.exactly_once = True
    assert check_map(found, [dead, heir]) == []
    assert kinds(check_map(found, [dead])) == ["map"], "nobody went on"
    torn = page((0, SHIFT, 1), (2, SHIFT + 2, 1))
    assert kinds(check_map(found, [torn, heir])) == ["map"], "a hole in one session"
    assert kinds(check_map(found, [dead, page((5, SHIFT + 6, 3), session=2)])) == ["map"]


def test_a_page_is_read_as_documented() -> None:
    key = bytes.fromhex("000174000000030000000000000007")
    value = bytes.fromhex("00000000000000000002000000000000000500000000000000d3020000030100c801")
    found = parse_page(key, value)
    assert found == Page("t", 3, 7, 2, 211, ((7, 5, 3), (11, 8, 200)))
    with pytest.raises((ValueError, struct.error)):
        parse_page(key, value[:-1])
