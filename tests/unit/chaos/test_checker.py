"""The checker of fault trials catches every kind of defect, and accepts what is right."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.support.chaos.checker import (
    Case,
    Finding,
    Manner,
    check_checkpoints,
    check_copy,
    check_map,
)
from tests.support.chaos.journal import Fate, Written
from tests.support.chaos.logs import Checkpoint, Page, Record, parse_page, targets

SHIFT = 100
"""The copy stands at other offsets than the source."""


def record(n: int, offset: int) -> Record:
    return Record(offset, b"k", b"v%d|" % n, 1_000 + n, (("n", b"%d" % n),))


def source(*numbers: int) -> list[Record]:
    return [record(n, n) for n in numbers]


def copy(*numbers: int) -> list[Record]:
    return [record(n, SHIFT + at) for at, n in enumerate(numbers)]


def written(*numbers: int, fate: Fate = Fate.ACKNOWLEDGED, life: int = 0) -> dict[bytes, Written]:
    return {b"v%d|" % n: Written("t", 0, life, fate, n) for n in numbers}


def case(before: list[Record], after: list[Record], manner: Manner = Manner.WHOLE) -> Case:
    found = written(*(record.offset for record in before))
    return Case("t-0", manner, before, after, found)


def kinds(findings: list[Finding]) -> list[str]:
    return [finding.kind for finding in findings]


# Copies.


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


def test_a_record_that_came_again_is_counted() -> None:
    findings, tally = check_copy(case(source(*range(4)), copy(0, 1, 2, 1, 2, 3)))
    assert findings == []
    assert (tally.repeated, tally.jumps) == (2, 1)


def test_a_record_that_came_again_under_exactly_once() -> None:
    found = replace(case(source(*range(4)), copy(0, 1, 2, 1, 2, 3)), exactly_once=True)
    assert kinds(check_copy(found)[0]) == ["doubled"]


def written_again(after: list[Record]) -> Case:
    """Records 1 and 2 are twice in the source."""
    numbers = (0, 1, 2, 1, 2, 3)
    before = [record(n, at) for at, n in enumerate(numbers)]
    found = Case("t-0", Manner.WHOLE, before, after, written(*range(4)), exactly_once=True)
    for value, each in found.written.items():
        each.offset = max(r.offset for r in before if r.value == value)
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
    assert kinds(check_copy(written_again(copy(*copied)))[0]) == [kind]


def test_what_the_source_has_twice_may_come_again_at_least_once() -> None:
    found = replace(written_again(copy(0, 1, 2, 1, 1, 2, 1, 2, 3)), exactly_once=False)
    assert check_copy(found)[0] == []


@pytest.mark.parametrize("order", [(0, 2, 1, 3), (1, 0, 2, 3), (0, 1, 3, 2)])
def test_reordered_records(order: tuple[int, ...]) -> None:
    assert kinds(check_copy(case(source(*range(4)), copy(*order)))[0]) == ["reordered"]


@pytest.mark.parametrize(
    "change",
    [
        lambda r: replace(r, key=b"other"),
        lambda r: replace(r, key=None),
        lambda r: replace(r, timestamp_ms=1),
        lambda r: replace(r, headers=()),
    ],
)
def test_a_changed_record(change: Callable[[Record], Record]) -> None:
    after = copy(0, 1, 2)
    after[1] = change(after[1])
    assert kinds(check_copy(case(source(0, 1, 2), after))[0]) == ["changed"]


def test_a_changed_value_is_one_lost_and_one_invented() -> None:
    after = copy(0, 1, 2)
    after[1] = replace(after[1], value=b"v1?|")
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
    found.target = copy(0, 2)
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


def again(after: list[int]) -> Case:
    """A topic of 4 records, created again with 2 more, whose values are 10 and 11."""
    now = [record(10, 0), record(11, 1)]
    found = case(now, copy(*after), Manner.CREATED_AGAIN)
    lives = written(10, 11, life=1)
    for at, each in enumerate(lives.values()):
        each.offset = at
    found.written = {**written(0, 1, 2, 3), **lives}
    return found


@pytest.mark.parametrize("after", [[0, 1, 2, 3, 10, 11], [0, 1, 10, 11], [10, 11]])
def test_the_end_of_a_topic_that_was_deleted_may_be_missing(after: list[int]) -> None:
    assert check_copy(again(after))[0] == []


@pytest.mark.parametrize(
    ("after", "kind"),
    [
        ([0, 2, 3, 10, 11], "lost"),
        ([0, 1, 2, 3, 11], "lost"),
        ([0, 1, 10, 2, 3, 11], "reordered"),
    ],
)
def test_wrong_copies_of_a_topic_that_was_created_again(after: list[int], kind: str) -> None:
    assert kinds(check_copy(again(after))[0]) == [kind]


# The map.


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


# Checkpoints.


def point(upstream: int, downstream: int) -> Checkpoint:
    return Checkpoint("g", "t", 0, upstream, downstream)


def test_right_checkpoints_are_accepted() -> None:
    found = case(source(*range(6)), copy(*range(6)))
    assert check_checkpoints(found, [point(1, 100), point(4, SHIFT + 4)], 4) == []
    assert check_checkpoints(found, [point(6, SHIFT + 6)], 6) == []


@pytest.mark.parametrize(
    "points",
    [
        [],
        [point(3, SHIFT + 3)],
        [point(4, SHIFT + 5)],
        [point(4, SHIFT + 3)],
        [point(2, SHIFT + 3), point(4, SHIFT + 4)],
    ],
    ids=["none", "late", "too far", "not far enough", "one before left out a record"],
)
def test_wrong_checkpoints(points: list[Checkpoint]) -> None:
    found = case(source(*range(6)), copy(*range(6)))
    assert set(kinds(check_checkpoints(found, points, 4))) == {"checkpoint"}
