"""Which offsets of a sink are committed, and where it goes back to."""

from __future__ import annotations

from connect.runtime.sink.offsets import SinkOffsets

A, B = ("t", 0), ("t", 1)


def taken(put: int) -> SinkOffsets:
    """Partition A, begun at 5 and put up to here."""
    offsets = SinkOffsets()
    offsets.assign([A])
    offsets.arrived(A, 5)
    offsets.put({A: put})
    return offsets


def test_what_was_put_is_asked_about_and_committed_once() -> None:
    offsets = taken(8)
    asked = offsets.current([A])
    assert asked == {A: 8}
    assert offsets.to_commit(asked, asked) == {A: 8}
    offsets.committed({A: 8})
    assert offsets.to_commit(asked, asked) == {}


def test_a_task_may_allow_less_but_not_more_nor_what_it_was_not_asked() -> None:
    offsets = taken(8)
    asked = offsets.current([A])
    assert offsets.to_commit(asked, {A: 7}) == {A: 7}
    assert offsets.to_commit(asked, {A: 9}) == {}
    assert offsets.to_commit(asked, {B: 1}) == {}


def test_partitions_without_records_are_not_asked_about() -> None:
    offsets = taken(8)
    offsets.assign([B])
    assert offsets.current([A, B]) == {A: 8}


def test_it_goes_back_to_the_last_commit_or_to_where_it_began() -> None:
    offsets = taken(8)
    assert offsets.rewind([A, B]) == {A: 5}
    assert offsets.current([A]) == {A: 5}
    offsets.put({A: 9})
    offsets.committed({A: 7})
    assert offsets.rewind([A]) == {A: 7}


def test_partitions_that_left_are_forgotten() -> None:
    offsets = taken(8)
    offsets.remove([A])
    offsets.put({A: 9})
    offsets.committed({A: 9})
    assert (offsets.assigned, offsets.current([A]), offsets.rewind([A])) == (frozenset(), {}, {})
