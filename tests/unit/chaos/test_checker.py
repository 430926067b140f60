"""The checker of copies finds every kind of defect, and accepts what is right."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.support.chaos.checker import check_copy
from tests.support.chaos.evidence import Bounds, Case, Manner
from tests.support.chaos.journal import Fate
from tests.support.chaos.logs import Record
from tests.unit.chaos.hand_made import case, copy, kinds, marks, record, source, written


def test_a_right_copy_is_accepted() -> None:
    findings, tally = check_copy(case(source(0, 1, 2), copy(0, 1, 2)))
    assert findings == []
    assert (tally.written, tally.copied, tally.repeated, tally.jumps) == (3, 3, 0, 0)


@pytest.mark.parametrize("missing", [0, 1, 3])
def test_a_lost_record(missing: int) -> None:
    kept = [n for n in range(4) if n != missing]
    findings, _ = check_copy(case(source(*range(4)), copy(*kept)))
    assert kinds(findings) == ["lost"]
    assert f"v{missing}" in findings[0].text


def test_an_acknowledged_record_that_is_in_neither_log_is_lost() -> None:
    found = case(source(0, 2), copy(0, 2))
    found.written = written(0, 1, 2)
    assert kinds(check_copy(found)[0]) == ["lost"]


def test_an_acknowledged_record_that_the_source_hides_from_committed_readers_is_not_lost() -> None:
    found = case(source(0, 2), copy(0, 2))
    found.written = written(0, 1, 2)
    found.hidden = {b"v1|"}
    assert check_copy(found)[0] == []


ONE_KILL = Bounds(restarts=1, unstored=3)
MANY_KILLS = Bounds(restarts=30, unstored=30)
"""So many that counting alone finds nothing."""


def test_a_record_that_came_again_is_counted() -> None:
    found = case(source(*range(4)), copy(0, 1, 2, 1, 2, 3), bounds=ONE_KILL)
    findings, tally = check_copy(found)
    assert findings == []
    assert (tally.repeated, tally.jumps) == (2, 1)


@pytest.mark.parametrize(
    "copied",
    [
        (0, 1, 2, 3, 0, 1, 2, 0, 1, 2, 3, 4, 5),
        (0, 1, 2, 3, 4, 5, 5, 5, 5, 4, 5),
        (0, 1, 2, 3, 2, 3, 4, 5),
    ],
)
def test_a_range_may_come_again_from_where_copying_began_again(copied: tuple[int, ...]) -> None:
    assert check_copy(case(source(*range(6)), copy(*copied), bounds=MANY_KILLS))[0] == []


@pytest.mark.parametrize(
    "copied",
    [
        (0, 1, 2, 3, 1, 3, 4, 5),
        (0, 1, 2, 3, 1, 2, 4, 5),
        (0, 1, 2, 3, 0, 3, 4, 5),
        (0, 1, 2, 3, 4, 5, 0, 1, 3, 4, 5),
        (0, 1, 2, 3, 4, 5, 0, 5),
    ],
)
def test_a_range_that_came_again_with_a_gap(copied: tuple[int, ...]) -> None:
    found = case(source(*range(6)), copy(*copied), bounds=MANY_KILLS)
    assert kinds(check_copy(found)[0]) == ["gap"]


def test_a_range_that_came_again_in_reverse() -> None:
    backwards = copy(0, 1, 2, 3, 3, 2, 1, 4)
    assert "doubled" in kinds(
        check_copy(case(source(*range(5)), backwards, bounds=Bounds(2, 30)))[0]
    )
    assert "gap" in kinds(check_copy(case(source(*range(5)), backwards, bounds=MANY_KILLS))[0])


def test_a_log_that_was_copied_fifty_times() -> None:
    found = case(source(*range(4)), copy(*[*range(4)] * 50), bounds=Bounds(10, 4))
    assert kinds(check_copy(found)[0]) == ["doubled", "doubled"]


def test_more_records_came_again_than_can_have_been_unstored() -> None:
    found = case(source(*range(9)), copy(*range(8), *range(9)), bounds=Bounds(2, 3))
    assert kinds(check_copy(found)[0]) == ["doubled"]


def test_without_a_restart_nothing_comes_again() -> None:
    found = case(source(*range(4)), copy(0, 1, 2, 2, 3))
    assert set(kinds(check_copy(found)[0])) == {"doubled"}


def test_a_worker_that_wakes_up_may_go_on_beside_its_successor() -> None:
    beside = copy(0, 1, 2, 3, 1, 4, 2, 5, 3, 6, 4, 5, 6, 7)
    together = Bounds(restarts=3, unstored=30, overlapping=True)
    assert check_copy(case(source(*range(8)), beside, bounds=together))[0] == []
    alone = Bounds(restarts=30, unstored=30)
    assert "gap" in kinds(check_copy(case(source(*range(8)), beside, bounds=alone))[0])
    gap = copy(0, 1, 2, 3, 1, 3, 4, 5, 6, 7)
    found = case(source(*range(8)), gap, bounds=Bounds(30, 30, overlapping=True))
    assert kinds(check_copy(found)[0]) == ["gap"]


def test_a_record_that_came_again_under_exactly_once() -> None:
    found = replace(case(source(*range(4)), copy(0, 1, 2, 1, 2, 3)), exactly_once=True)
    assert kinds(check_copy(found)[0]) == ["doubled"]


def written_again(after: list[Record]) -> Case:
    """Records 1 and 2 are twice in the source."""
    numbers = (0, 1, 2, 1, 2, 3)
    before = [record(n, at) for at, n in enumerate(numbers)]
    found = replace(case(before, after), written=written(*range(4)), exactly_once=True)
    for value, each in found.written.items():
        each.offset = max(r.offset for r in marks(before) if r.value == value)
    return found


def test_what_the_source_has_twice_is_twice_in_the_copy() -> None:
    findings, tally = check_copy(written_again(copy(0, 1, 2, 1, 2, 3)))
    assert findings == []
    assert (tally.written_again, tally.repeated, tally.jumps) == (2, 0, 0)


@pytest.mark.parametrize(
    ("copied", "kind"),
    [
        ((0, 1, 2, 3), "lost"),
        ((0, 1, 2, 1, 3), "lost"),
        ((0, 1, 2, 1, 2, 1, 2, 3), "doubled"),
        ((0, 1, 2, 1, 2, 3, 3), "doubled"),
        ((1, 0, 2, 1, 2, 3), "reordered"),
    ],
)
def test_but_not_less_or_more_often(copied: tuple[int, ...], kind: str) -> None:
    assert kinds(check_copy(written_again(copy(*copied)))[0])[0] == kind


def test_what_the_source_has_twice_may_come_again_at_least_once() -> None:
    found = written_again(copy(0, 1, 2, 1, 1, 2, 1, 2, 3))
    assert check_copy(replace(found, exactly_once=False, bounds=MANY_KILLS))[0] == []


@pytest.mark.parametrize("order", [(0, 2, 1, 3), (1, 0, 2, 3), (0, 1, 3, 2)])
def test_reordered_records(order: tuple[int, ...]) -> None:
    assert kinds(check_copy(case(source(*range(4)), copy(*order)))[0])[0] == "reordered"


@pytest.mark.parametrize(
    "change",
    [
        lambda r: replace(r, key=b"other"),
        lambda r: replace(r, key=None),
        lambda r: replace(r, timestamp_ms=1),
        lambda r: replace(r, headers=()),
        lambda r: replace(r, headers=(("n", b"other"),)),
        lambda r: replace(r, value=b"v1|and less"),
    ],
)
@pytest.mark.parametrize("manner", Manner)
def test_a_changed_record(change: Callable[[Record], Record], manner: Manner) -> None:
    after = copy(0, 1, 2)
    after[1] = change(after[1])
    assert kinds(check_copy(case(source(0, 1, 2), after, manner))[0]) == ["changed"]
    # Also where the source has it no more: it is compared with what was written.
    gone = case(source(0, 1, 2), after, manner)
    gone.source = marks(source(2))
    assert kinds(check_copy(gone)[0]) == ["changed"]


def test_a_changed_value_is_one_lost_and_one_invented() -> None:
    after = copy(0, 1, 2)
    after[1] = replace(after[1], value=b"v1?|and more")
    assert kinds(check_copy(case(source(0, 1, 2), after))[0]) == ["invented", "lost"]


def test_a_record_of_an_aborted_transaction() -> None:
    found = case(source(0, 2), copy(0, 1, 2))
    found.written = {**written(0, 2), **written(1, fate=Fate.ABORTED)}
    assert kinds(check_copy(found)[0]) == ["aborted"]


def test_a_record_of_unknown_fate_may_be_there_or_not() -> None:
    open_fate = written(1, fate=Fate.UNKNOWN)
    there = case(source(0, 1, 2), copy(0, 1, 2))
    there.written = {**written(0, 2), **open_fate}
    not_there = case(source(0, 2), copy(0, 2))
    not_there.written = {**written(0, 2), **open_fate}
    assert check_copy(there)[0] == check_copy(not_there)[0] == []


# Topics to which something is done.


def test_what_compaction_removed_may_be_missing_or_not() -> None:
    found = case(source(0, 3), copy(0, 2, 3), Manner.COMPACTED)
    found.written = written(*range(4))
    assert check_copy(found)[0] == []
    found.target = marks(copy(0, 2))
    assert kinds(check_copy(found)[0]) == ["lost"]


def trimmed(after: list[Record], lost: list[tuple[int, int]]) -> Case:
    """Offsets 0 to 9 were written, and those before 6 deleted."""
    found = case(source(*range(6, 10)), after, Manner.TRIMMED)
    found.written, found.lost, found.start = written(*range(10)), lost, 6
    return found


def test_what_was_deleted_first_is_accounted_for_exactly() -> None:
    findings, tally = check_copy(trimmed(copy(0, 1, 2, *range(6, 10)), [(3, 5)]))
    assert findings == []
    assert tally.reported_lost == 3
    assert kinds(check_copy(trimmed(copy(0, 1, 2, *range(6, 10)), []))[0]) == ["lost"]
    assert kinds(check_copy(trimmed(copy(0, 1, 2, *range(6, 10)), [(4, 5)]))[0]) == ["lost"]


def test_reports_of_what_is_still_there_or_was_copied() -> None:
    assert "reported" in kinds(check_copy(trimmed(copy(*range(10)), [(6, 7)]))[0])
    both = trimmed(copy(*range(10)), [(3, 5)])
    assert kinds(check_copy(both)[0]) == []
    both.exactly_once = True
    assert kinds(check_copy(both)[0]) == ["reported"]


def again(after: list[int], reported: tuple[int, ...] = ()) -> Case:
    """A topic of 4 records, created again with 2 more, whose values are 10 and 11."""
    found = case([record(10, 0), record(11, 1)], copy(*after), Manner.CREATED_AGAIN)
    lives = written(10, 11, life=1)
    for at, each in enumerate(lives.values()):
        each.offset = at
    found.written = {**written(0, 1, 2, 3), **lives}
    found.created_again = reported
    return found


@pytest.mark.parametrize(
    ("after", "reported"),
    [
        ([0, 1, 2, 3, 10, 11], ()),
        ([0, 1, 2, 3, 10, 11], (4,)),
        ([0, 1, 10, 11], (2,)),
        ([0, 1, 10, 11], (1,)),
        ([10, 11], (0,)),
    ],
)
def test_the_end_of_a_topic_that_was_deleted_may_be_missing_if_it_is_reported(
    after: list[int], reported: tuple[int, ...]
) -> None:
    assert check_copy(again(after, reported))[0] == []


@pytest.mark.parametrize(
    ("after", "reported"), [([0, 1, 10, 11], ()), ([10, 11], ()), ([0, 1, 10, 11], (3,))]
)
def test_a_former_life_that_was_neither_copied_nor_reported(
    after: list[int], reported: tuple[int, ...]
) -> None:
    assert kinds(check_copy(again(after, reported))[0]) == ["lost"]


def test_a_topic_reported_as_created_again_that_was_not() -> None:
    found = case(source(0, 1), copy(0, 1), Manner.TRIMMED)
    found.created_again = (1,)
    assert kinds(check_copy(found)[0]) == ["reported"]


@pytest.mark.parametrize(
    ("after", "kind"),
    [
        ([0, 2, 3, 10, 11], "lost"),
        ([0, 1, 2, 3, 11], "lost"),
        ([0, 1, 10, 2, 3, 11], "reordered"),
    ],
)
def test_wrong_copies_of_a_topic_that_was_created_again(after: list[int], kind: str) -> None:
    found = again(after, (0,))
    found.bounds = MANY_KILLS
    assert kind in kinds(check_copy(found)[0])
