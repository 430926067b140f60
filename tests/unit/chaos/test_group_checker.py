"""The checker of groups finds checkpoints that lead elsewhere, go back or are late, and records
that a group skipped."""

from __future__ import annotations

import pytest

from tests.support.chaos.evidence import Manner
from tests.support.chaos.group_checker import check_checkpoints, check_group, check_meanwhile
from tests.support.chaos.logs import Checkpoint
from tests.unit.chaos.hand_made import SHIFT, case, copy, kinds, source


def point(upstream: int, downstream: int) -> Checkpoint:
    return Checkpoint("g", "t", 0, upstream, downstream)


def test_right_checkpoints_are_accepted() -> None:
    found = case(source(*range(6)), copy(*range(6)))
    assert check_checkpoints(found, [point(1, 100), point(4, SHIFT + 4)], [4]) == []
    assert check_checkpoints(found, [point(6, SHIFT + 6)], [6]) == []


def test_a_commit_past_a_transaction_marker_needs_no_checkpoint_of_its_own() -> None:
    found = case(source(0, 1, 2, 3, 5), copy(0, 1, 2, 3, 5))
    assert check_checkpoints(found, [point(4, SHIFT + 4)], [5]) == []


@pytest.mark.parametrize(
    "points",
    [
        [],
        [point(3, SHIFT + 3)],
        [point(4, SHIFT + 5)],
        [point(4, SHIFT + 3)],
        [point(2, SHIFT + 3), point(4, SHIFT + 4)],
        [point(3, SHIFT + 3), point(2, SHIFT + 2), point(4, SHIFT + 4)],
        [point(2, SHIFT + 2), point(3, SHIFT + 1), point(4, SHIFT + 4)],
    ],
    ids=[
        "none",
        "late",
        "too far",
        "not far enough",
        "one before left out a record",
        "back",
        "back on the target",
    ],
)
def test_wrong_checkpoints(points: list[Checkpoint]) -> None:
    found = case(source(*range(6)), copy(*range(6)))
    assert set(kinds(check_checkpoints(found, points, [4]))) == {"checkpoint"}


def test_checkpoints_may_go_back_after_a_loss_on_the_target_was_reported() -> None:
    found = case(source(*range(6)), copy(*range(6)))
    points = [point(3, SHIFT + 3), point(3, SHIFT + 1), point(4, SHIFT + 4)]
    assert kinds(check_checkpoints(found, points, [4])) == ["checkpoint"]
    assert check_checkpoints(found, points, [4], target_lost=True) == []


def test_no_checkpoint_until_the_end() -> None:
    commits = {("t", 0): list(range(1, 32)), ("t", 1): list(range(1, 32))}
    last = point(31, SHIFT + 31)
    assert kinds(check_meanwhile("g", [last], commits)) == ["checkpoint"]
    assert check_meanwhile("g", [point(20, SHIFT + 20), last], commits) == []
    few = {("t", 0): [*range(1, 6), 31]}
    assert check_meanwhile("g", [last], few) == [], "too few to expect one"


def test_a_group_that_read_everything_on_either_side() -> None:
    found = case(source(*range(6)), copy(*range(6)))
    read = {b"v%d|" % n for n in range(6)}
    assert check_group(found, read) == []
    assert check_group(found, {*read, b"of unknown fate|"}) == []


@pytest.mark.parametrize("skipped", [0, 3, 5])
def test_a_group_that_skipped_a_record(skipped: int) -> None:
    found = case(source(*range(6)), copy(*range(6)))
    read = {b"v%d|" % n for n in range(6) if n != skipped}
    assert kinds(check_group(found, read)) == ["skipped"]


def test_a_group_need_not_have_read_what_was_deleted_first() -> None:
    found = case(source(4, 5), copy(0, 4, 5), Manner.TRIMMED)
    found.lost = [(1, 3)]
    assert check_group(found, {b"v4|", b"v5|"}) == []
