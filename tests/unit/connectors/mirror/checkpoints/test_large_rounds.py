"""A Spark session is worth it for wide rounds that keep coming, and for costly ones sooner."""

from __future__ import annotations

import pytest

from connectors.mirror.checkpoints.large_rounds import LargeRoundPolicy


def rounds(*events: str, min_offsets: int = 10) -> list[bool]:
    """Of `wide` and `costly` rounds with something to compute, whether they are Spark's; the
    second takes long where it is computed here. `other`: not wide, or nothing new."""
    wide, found = LargeRoundPolicy(min_offsets), []
    for event in events:
        if event == "other":
            wide.interrupted()
            continue
        found.append(wide.worth_spark())
        if not found[-1]:
            wide.took(2.5 if event == "costly" else 1.9)
    return found


def test_the_third_in_a_row_and_those_after_it() -> None:
    assert rounds("wide", "wide", "wide", "wide") == [False, False, True, True]


def test_one_now_and_then_is_none() -> None:
    now_and_then = ["wide", "wide", "other"] * 5
    assert rounds(*now_and_then) == [False] * 10
    assert rounds("wide", "wide", "wide", "other", "wide") == [False, False, True, False]


def test_the_one_after_a_costly_one() -> None:
    assert rounds("costly", "wide") == [False, True]
    assert rounds("costly", "other", "wide", "wide") == [False, False, False]
    assert rounds(*["costly", "other"] * 5) == [False] * 5


def test_with_0_every_round_at_once() -> None:
    assert rounds("wide", "other", "wide", min_offsets=0) == [True, True]


@pytest.mark.parametrize(("offsets", "wide"), [(9, False), (10, True), (0, False)])
def test_how_many_offsets_are_wide(offsets: int, wide: bool) -> None:
    assert LargeRoundPolicy(10).is_wide(offsets) is wide
    assert LargeRoundPolicy(0).is_wide(offsets)
