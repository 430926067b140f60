"""What is on the target already is found record by record, however it is batched."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from connect.protocol.record_codec import Record
from connectors.mirror.compare.target_tail import compared
from tests.support.records.wire_runs import runs_of

SOURCE, TARGET = ("t", 0), ("a.t", 0)


def records(offsets: Iterable[int], *, first: int = 0) -> list[Record]:
    return [
        Record(offset, first + n, None, b"r%d" % (first + n)) for n, offset in enumerate(offsets)
    ]


@given(
    gaps=st.lists(st.integers(1, 3), min_size=1, max_size=60),
    there=st.integers(0, 60),
    sizes=st.tuples(st.integers(1, 7), st.integers(1, 7)),
)
def test_the_equal_ones_are_found(gaps: list[int], there: int, sizes: tuple[int, int]) -> None:
    offsets = [100 + sum(gaps[: n + 1]) for n in range(len(gaps))]
    ours = records(offsets)
    count = min(there, len(ours))
    theirs = records(range(500, 500 + count))

    tail = compared(
        SOURCE,
        TARGET,
        100,
        runs_of(ours, [sizes[0]]),
        runs_of(theirs, [sizes[1]]),
        timestamps=True,
    )

    pairs = [
        (line.source_start + n, line.target_start + n)
        for line in tail.lines
        for n in range(line.records)
    ]
    assert pairs == list(zip(offsets[:count], range(500, 500 + count), strict=True))
    assert tail.position == (offsets[count - 1] + 1 if count else 100)
    assert tail.odd is None
    assert tail.records == count


def test_the_first_that_is_not_the_next_one_is_named() -> None:
    ours = records(range(100, 120))
    theirs = records(range(500, 510))
    theirs[7] = Record(507, 7, None, b"other")
    tail = compared(SOURCE, TARGET, 100, runs_of(ours, [3]), runs_of(theirs, [4]), timestamps=True)
    assert (tail.position, tail.records, tail.odd) == (107, 7, 507)


def test_more_on_the_target_than_on_the_source_is_odd() -> None:
    tail = compared(
        SOURCE,
        TARGET,
        100,
        runs_of(records(range(100, 105)), [3]),
        runs_of(records(range(500, 508)), [4]),
        timestamps=True,
    )
    assert (tail.position, tail.odd) == (105, 505)


def test_a_target_with_timestamps_of_its_own_is_compared_without() -> None:
    ours, theirs = records(range(100, 105)), records(range(500, 505))
    theirs = [replace(each, timestamp=each.timestamp + 9) for each in theirs]
    for timestamps, found in ((True, 0), (False, 5)):
        tail = compared(
            SOURCE, TARGET, 100, runs_of(ours, [2]), runs_of(theirs, [2]), timestamps=timestamps
        )
        assert tail.records == found


@given(
    gaps=st.lists(st.integers(1, 3), min_size=1, max_size=60),
    there=st.integers(0, 60),
    gone=st.integers(0, 60),
    sizes=st.tuples(st.integers(1, 7), st.integers(1, 7)),
)
def test_where_the_target_deleted_the_first_ones_the_rest_is_found_if_there_is_any(
    gaps: list[int], there: int, gone: int, sizes: tuple[int, int]
) -> None:
    offsets = [100 + sum(gaps[: n + 1]) for n in range(len(gaps))]
    ours = records(offsets)
    count = min(there, len(ours))
    gone = min(gone, count)
    theirs = records(range(500, 500 + count))[gone:]

    tail = compared(
        SOURCE,
        TARGET,
        100,
        runs_of(ours, [sizes[0]]),
        runs_of(theirs, [sizes[1]]),
        timestamps=True,
        gone=range(500, 500 + gone),
    )

    pairs = [
        (line.source_start + n, line.target_start + n)
        for line in tail.lines
        for n in range(line.records)
    ]
    # If all are gone, they are not known to have been these, and can be copied again.
    found = count if gone < count else 0
    assert pairs == list(zip(offsets[:found], range(500, 500 + found), strict=True))
    assert tail.position == (offsets[found - 1] + 1 if found else 100)
    assert tail.odd is None


def test_where_the_first_ones_are_gone_and_the_rest_differs_nothing_is_found() -> None:
    """Other records than the source's next were there, or the source has compacted some since."""
    for theirs in (records(range(505, 510), first=6), records(range(505, 510), first=100)):
        tail = compared(
            SOURCE,
            TARGET,
            100,
            runs_of(records(range(100, 120)), [3]),
            runs_of(theirs, [4]),
            timestamps=True,
            gone=range(500, 505),
        )
        assert (tail.lines, tail.position, tail.odd) == ((), 100, 505)


def test_a_source_with_fewer_records_than_are_gone_had_others_there() -> None:
    tail = compared(
        SOURCE,
        TARGET,
        100,
        runs_of(records(range(100, 103)), [3]),
        runs_of(records(range(505, 510)), [4]),
        timestamps=True,
        gone=range(500, 505),
    )
    assert (tail.lines, tail.position, tail.odd) == ((), 100, 505)
