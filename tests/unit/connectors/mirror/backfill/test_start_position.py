"""A backfill begins where nothing is left out and nothing comes after later records."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.mirror.backfill.errors import BackfillRefused, LaterRecordsThere, WouldLeaveGap
from connectors.mirror.backfill.start_position import (
    Begin,
    MapEnd,
    PartitionLogs,
    choose_begin,
    known_of,
)
from connectors.mirror.offsets.offset_map_pages import MapPage, Segment


def logs(**changes: Any) -> PartitionLogs:
    """Source offsets 100 to 1000, an empty target, nothing known."""
    given: dict[str, Any] = {"source_start": 100, "source_end": 1000, **changes}
    return PartitionLogs(("t", 3), ("a.t", 3), **given)


COPIED = {"stored": 400, "known": MapEnd(100, 400, 300), "target_end": 300}


def test_a_new_topic_is_copied_from_its_first_record() -> None:
    assert choose_begin(logs(), None) == Begin(100)
    assert choose_begin(logs(), 250) == Begin(250)
    assert choose_begin(logs(), 7) == Begin(100)


def test_it_goes_on_where_the_flow_stands() -> None:
    assert choose_begin(logs(**COPIED), None) == Begin(400)
    assert choose_begin(logs(**COPIED), 100) == Begin(400)
    assert choose_begin(logs(**COPIED), 400) == Begin(400)


def test_the_map_knows_what_was_written_before_the_offset_was_stored() -> None:
    found = logs(stored=400, known=MapEnd(100, 450, 350), target_end=350)
    assert choose_begin(found, None) == Begin(450)
    assert choose_begin(logs(known=MapEnd(100, 450, 350), target_end=350), None) == Begin(450)


def test_what_is_on_the_target_and_in_no_book_is_looked_at() -> None:
    assert choose_begin(logs(target_end=30), None) == Begin(100, look_from=0)
    more = logs(**{**COPIED, "target_end": 333})
    assert choose_begin(more, None) == Begin(400, look_from=300)


def test_a_target_that_was_deleted_is_not_taken_for_copied() -> None:
    found = choose_begin(logs(stored=400, known=MapEnd(100, 450, 350), target_end=0), None)
    assert found == Begin(400)


def test_without_the_map_it_says_that_it_cannot_tell() -> None:
    assert choose_begin(logs(stored=400, target_end=300), None) == Begin(400, unsure=True)
    behind = logs(stored=600, known=MapEnd(100, 400, 300), target_end=500)
    assert choose_begin(behind, None) == Begin(600, unsure=True)


def test_records_that_are_gone_are_counted() -> None:
    found = choose_begin(logs(stored=40, known=MapEnd(0, 40, 40), target_end=40), None)
    assert (found.position, found.lost) == (100, 60)
    assert "40 to 99 were deleted" in found.note


def test_no_gap_is_left() -> None:
    with pytest.raises(WouldLeaveGap, match="t-3: the flow continues at offset 400"):
        choose_begin(logs(**COPIED), 401)


def test_history_does_not_come_after_later_records() -> None:
    late = logs(stored=400, known=MapEnd(200, 400, 200), target_end=200)
    with pytest.raises(LaterRecordsThere, match=r"100 to 199 were not copied before it started"):
        choose_begin(late, 0)
    assert choose_begin(late, 200) == Begin(
        400, note="offsets 100 to 199 were not copied: the flow started after them"
    )
    with pytest.raises(LaterRecordsThere, match="Omit --from"):
        choose_begin(logs(stored=400, target_end=300), 100)


def test_a_source_that_was_created_again_is_refused() -> None:
    with pytest.raises(BackfillRefused, match="was truncated, or the topic was re-created"):
        choose_begin(logs(stored=2000), None)


@given(
    start=st.integers(0, 50),
    length=st.integers(0, 50),
    stored=st.none() | st.integers(1, 120),
    known=st.none() | st.tuples(st.integers(0, 60), st.integers(1, 60), st.integers(1, 120)),
    target=st.tuples(st.integers(0, 60), st.integers(0, 60)),
    wanted=st.none() | st.integers(0, 120),
)
def test_it_never_begins_behind_what_was_not_copied(
    start: int,
    length: int,
    stored: int | None,
    known: tuple[int, int, int] | None,
    target: tuple[int, int],
    wanted: int | None,
) -> None:
    ended = None if known is None else MapEnd(known[0], known[0] + known[1], known[2])
    found = PartitionLogs(
        ("t", 0),
        ("a.t", 0),
        start,
        start + length,
        target[0],
        sum(target),
        stored,
        ended,
    )
    try:
        begin = choose_begin(found, wanted)
    except BackfillRefused:
        return
    # A map that knows more of the target than there is, is one of a target that was deleted.
    trusted = ended is not None and ended.target_end <= found.target_end
    reach = ended.reach if ended is not None and trusted else None
    points = [at for at in (stored, reach) if at is not None]
    if points:
        assert begin.position == max(*points, start), "no gap, and nothing known is copied again"
    else:
        assert begin.position == max(start, wanted or 0)
    if begin.look_from is not None:
        assert found.target_start <= begin.look_from < found.target_end or (
            ended is not None and begin.look_from == ended.target_end
        )
    if not points and found.target_end > found.target_start:
        assert begin.look_from is not None, "a target that has records is looked at"


def test_the_maps_end_is_that_of_its_last_session() -> None:
    pages = [
        MapPage(1, [Segment(10, 0, 90)], seen=105),
        MapPage(2, [Segment(50, 100, 20), Segment(75, 120, 5)], seen=90),
    ]
    assert known_of(pages) == MapEnd(10, 90, 125)
    assert known_of([]) is None
