"""What is on the target already is found record by record, however it is batched."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from hypothesis import given
from hypothesis import strategies as st

from connect.protocol.record_columns import Columns
from connectors.mirror.audit.batches import AuditBatch, Fingerprint
from connectors.mirror.backfill.tail import compared

SOURCE, TARGET = ("t", 0), ("a.t", 0)
Record = tuple[int, int, bytes]


class Batch:
    """Records (offset, timestamp, tail) as a batch."""

    size = 1
    fingerprint: Fingerprint | None = None

    def __init__(self, records: Sequence[Record]) -> None:
        self._records = records
        self.first_offset, self.last_offset = records[0][0], records[-1][0]

    def columns(self) -> Columns:
        found = Columns()
        for offset, stamp, tail in self._records:
            found.offsets.append(offset)
            found.timestamps.append(stamp)
            found.tails.append(tail)
        return found


def batches(records: Sequence[Record], size: int) -> Iterator[AuditBatch]:
    for at in range(0, len(records), size):
        yield Batch(records[at : at + size])


def records(offsets: Iterable[int], *, first: int = 0) -> list[Record]:
    return [(offset, first + n, b"r%d" % (first + n)) for n, offset in enumerate(offsets)]


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
        batches(ours, sizes[0]),
        batches(theirs, sizes[1]),
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
    theirs[7] = (507, 7, b"other")
    tail = compared(SOURCE, TARGET, 100, batches(ours, 3), batches(theirs, 4), timestamps=True)
    assert (tail.position, tail.records, tail.odd) == (107, 7, 507)


def test_more_on_the_target_than_on_the_source_is_odd() -> None:
    tail = compared(
        SOURCE,
        TARGET,
        100,
        batches(records(range(100, 105)), 3),
        batches(records(range(500, 508)), 4),
        timestamps=True,
    )
    assert (tail.position, tail.odd) == (105, 505)


def test_a_target_with_timestamps_of_its_own_is_compared_without() -> None:
    ours, theirs = records(range(100, 105)), records(range(500, 505))
    theirs = [(offset, stamp + 9, tail) for offset, stamp, tail in theirs]
    for timestamps, found in ((True, 0), (False, 5)):
        tail = compared(
            SOURCE, TARGET, 100, batches(ours, 2), batches(theirs, 2), timestamps=timestamps
        )
        assert tail.records == found
