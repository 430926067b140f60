"""Whatever batches a log has: exactly the records of the wanted range are copied, in order."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connect.protocol.batches import read_headers
from connect.protocol.record_codec import Record
from connectors.mirror.copy.batches.choice import CopyOptions
from connectors.mirror.copy.batches.conversion import Chosen, FetchedRecords, outgoing_batches
from connectors.mirror.copy.memory import FetchBuffer, MemoryBudget
from connectors.mirror.copy.partition.partition import Outgoing
from tests.support.records.batches import encode_batch
from tests.support.records.record_sets import (
    SourceLog,
    copied_records,
    legacy_message,
    legacy_wrapper,
    source_logs,
)


def chosen_of(
    data: bytes,
    position: int = 0,
    *,
    end: int | None = None,
    aborted: tuple[tuple[int, int], ...] = (),
    options: CopyOptions | None = None,
    limit: int = 0,
) -> Chosen:
    budget = MemoryBudget(1 << 30)
    fetched = bytearray(data)
    view = memoryview(fetched)
    return outgoing_batches(
        FetchedRecords(
            view,
            read_headers(view),
            position,
            end,
            limit,
            aborted,
            options or CopyOptions(),
            FetchBuffer(budget, fetched, held=True),
            budget,
        )
    )


def offsets_of(chosen: Chosen) -> list[int]:
    return [record.offset for record in copied_records(chosen.batches)]


def copy_all(
    log: SourceLog, position: int, end: int, most: int, options: CopyOptions, limit: int
) -> list[Outgoing]:
    """Fetch after fetch, as the copier does: each begins where the one before ended."""
    made: list[Outgoing] = []
    while position < end:
        data, aborted = log.fetch(position, most)
        if not data:
            break
        chosen = chosen_of(data, position, end=end, aborted=aborted, options=options, limit=limit)
        assert chosen.unreadable is None
        made += chosen.batches
        position = min(end, read_headers(memoryview(data))[-1].next_offset)
    return made


_OPTIONS = st.builds(
    CopyOptions,
    read_committed=st.booleans(),
    codec=st.sampled_from([None, 0, 1]),
    merge_bytes=st.sampled_from([200, 256 * 1024]),
)


@given(
    log=source_logs(),
    options=_OPTIONS,
    most=st.integers(1, 4000),
    limit=st.sampled_from([0, 150, 400]),
    data=st.data(),
)
def test_the_copied_records_are_those_of_the_range(
    log: SourceLog, options: CopyOptions, most: int, limit: int, data: st.DataObject
) -> None:
    offsets = st.sampled_from(sorted({0, *_edges(log)}))
    position = data.draw(offsets, "position")
    end = data.draw(offsets.filter(lambda offset: offset >= position), "end")
    expected = log.records(position, end, committed=options.read_committed)
    made = copy_all(log, position, end, most, options, limit)
    assert copied_records(made) == expected
    done = 0
    for batch in made:  # nothing is lost or doubled if the next start is behind it
        done += batch.records
        rest = [record for record in expected if record.offset >= batch.resume]
        assert rest == expected[done:]


def _edges(log: SourceLog) -> set[int]:
    """Offsets at, beside and inside of batches."""
    seen = [record.offset for batch in log.batches for record in batch.records]
    seen += [batch.last for batch in log.batches]
    return {offset + beside for offset in seen for beside in (0, 1)}


@given(log=source_logs().filter(lambda log: log.batches), options=_OPTIONS, data=st.data())
def test_all_before_a_damaged_batch_is_copied_and_the_next_fetch_begins_there(
    log: SourceLog, options: CopyOptions, data: st.DataObject
) -> None:
    bad = data.draw(st.integers(0, len(log.batches) - 1), "damaged batch")
    last = log.batches[bad].last
    position = data.draw(st.sampled_from(sorted({0, *_edges(log)})), "position")
    position = min(position, last)
    fetched, aborted = log.fetch(position, 1 << 30)
    found = fetched.index(log.batches[bad].data)
    at = data.draw(st.sampled_from(_covered(log.batches[bad].data)), "damaged byte")
    damaged = bytearray(fetched)
    damaged[found + at] ^= 1 << data.draw(st.integers(0, 7), "bit")
    chosen = chosen_of(bytes(damaged), position, aborted=aborted, options=options)
    assert chosen.unreadable is not None
    before = log.batches[bad - 1].last + 1 if bad else 0
    expected = log.records(position, before, committed=options.read_committed)
    assert copied_records(chosen.batches) == expected
    assert max(position, before) <= chosen.unreadable.position <= last
    wanted = chosen.unreadable.position
    assert log.records(wanted, 1 << 62, committed=False) == log.records(
        max(position, before), 1 << 62, committed=False
    )


def _covered(data: bytes) -> list[int]:
    """The bytes under the CRC, but for lastOffsetDelta and recordsCount: impossible ones are found
    before."""
    if data[16] < 2:
        return list(range(17, len(data)))
    return [21, 22, *range(27, 57), *range(61, len(data))]


MAGICS = pytest.mark.parametrize("magic", [0, 1])


def wrapper(first: int, count: int, magic: int) -> bytes:
    return legacy_wrapper(
        [Record(first + n, 1_000, None, b"%d" % (first + n)) for n in range(count)], magic
    )


@MAGICS
@pytest.mark.parametrize("end", [100, 101, 150, 199, 200])
def test_a_copy_that_ends_inside_a_wrapper_has_all_before_its_end(magic: int, end: int) -> None:
    chosen = chosen_of(wrapper(100, 100, magic), 100, end=end)
    assert offsets_of(chosen) == list(range(100, end))
    if chosen.batches:
        assert chosen.batches[-1].resume == end


@MAGICS
def test_a_wrapper_that_cannot_be_read_is_fetched_again_from_its_beginning(magic: int) -> None:
    bad = bytearray(wrapper(10, 10, magic))
    bad[60] ^= 0xFF
    chosen = chosen_of(wrapper(0, 10, magic) + bad + wrapper(20, 10, magic), 5)
    assert offsets_of(chosen) == [5, 6, 7, 8, 9]
    assert chosen.unreadable is not None
    assert chosen.unreadable.position == 10
    assert "source offset 10 is corrupt: it fails its CRC" in chosen.unreadable.reason
    alone = chosen_of(bytes(bad), 13).unreadable
    assert alone is not None
    assert alone.position == 13


@MAGICS
def test_a_wrapper_that_begins_before_its_predecessor_ends_is_corrupt(magic: int) -> None:
    before = encode_batch([Record(n, 1, None, b"v") for n in range(10)], base_offset=0)
    chosen = chosen_of(before + wrapper(5, 10, magic))
    assert offsets_of(chosen) == list(range(10))
    assert chosen.unreadable is not None
    assert chosen.unreadable.position == 10


def test_an_empty_control_batch_is_no_marker() -> None:
    """Compaction keeps it for its producer's epoch."""
    empty = encode_batch(
        [], base_offset=1, last_offset_delta=0, producer_id=7, transactional=True, control=True
    )
    around = [encode_batch([Record(n, 1, b"k", b"v")], base_offset=n) for n in (0, 2)]
    chosen = chosen_of(
        around[0] + empty + around[1],
        aborted=((9, 0),),
        options=CopyOptions(read_committed=True),
    )
    assert chosen.unreadable is None
    assert offsets_of(chosen) == [0, 2]


def test_an_empty_control_batch_does_not_end_an_aborted_transaction() -> None:
    def of_seven(offset: int, **kind: bool) -> bytes:
        records = [] if kind else [Record(offset, 1, b"k", b"v")]
        return encode_batch(
            records,
            base_offset=offset,
            last_offset_delta=0,
            producer_id=7,
            transactional=True,
            **kind,
        )

    chosen = chosen_of(
        of_seven(0) + of_seven(1, control=True) + of_seven(2),
        aborted=((7, 0),),
        options=CopyOptions(read_committed=True),
    )
    assert offsets_of(chosen) == []


@MAGICS
def test_plain_old_messages_are_cut_at_the_end(magic: int) -> None:
    data = b"".join(legacy_message(Record(n, 1_000, None, b"v"), magic) for n in range(3, 9))
    assert offsets_of(chosen_of(data, 4, end=7)) == [4, 5, 6]
