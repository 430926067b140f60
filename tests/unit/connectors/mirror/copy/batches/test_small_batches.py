"""The compiled part merges runs of small batches into the same records as record by record."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connect.errors import CorruptData
from connect.protocol.batches import HEADER_SIZE, BatchHeader, read_headers, set_crc
from connect.protocol.compiled import native
from connect.protocol.compression import DEFAULT_LIMIT, LZ4, NONE, SNAPPY, ZSTD
from connect.protocol.record_columns import Columns, read_batch_records
from connect.protocol.records import Record, verify_crc
from connect.protocol.small_batches import MAX_BATCH_BYTES, MIN_BATCHES, merge_run, read_runs
from connectors.mirror.copy.batches.choice import CopyOptions, read_batches
from connectors.mirror.copy.batches.conversion import Chosen, FetchedRecords, outgoing_batches
from connectors.mirror.copy.memory import FetchBuffer, MemoryBudget
from tests.support.records.batches import encode_batch

compiled = pytest.mark.skipif(native is None, reason="the compiled part was not built")

TIME = 1_700_000_000_000
_TEXT = b'{"event": "order_placed", "id": 17, "note": "ring twice, ring twice, ring twice"}'


def record(offset: int, value: bytes | None = _TEXT, *, timestamp: int = TIME) -> Record:
    return Record(offset, timestamp, b"key-%d" % offset, value, (("trace", b"\0\0\0\0"),))


def single(offset: int, codec: int = NONE, **fields: int | bool) -> bytes:
    return encode_batch(
        [record(offset, timestamp=TIME + offset)],
        base_offset=offset,
        codec=codec,
        **fields,  # type: ignore[arg-type]
    )


def runs_of(batches: Sequence[bytes], position: int = 0) -> list[BatchHeader]:
    return read_runs(memoryview(b"".join(batches)), position)


def outcome(
    data: bytes, headers: Sequence[BatchHeader], position: int, limit: int, options: CopyOptions
) -> Chosen:
    copy = bytearray(data)
    budget = MemoryBudget(1 << 30)
    buffer = FetchBuffer(budget, copy)
    return outgoing_batches(
        FetchedRecords(
            memoryview(copy), headers, position, None, limit, (), options, buffer, budget
        )
    )


def records_in(chosen: Chosen) -> list[tuple[int, int, bytes]]:
    """Source offset, timestamp, and key, value and headers as bytes, of every record for the
    target. For a batch that cannot be read and is forwarded, the offset and its bytes."""
    found: list[tuple[int, int, bytes]] = []
    for batch in chosen.batches:
        assert verify_crc(batch.data)
        offsets = [first + n for first, count in batch.runs for n in range(count)]
        assert batch.resume > offsets[-1]
        assert batch.records == len(offsets)
        columns = Columns()
        try:
            read_batch_records(batch.data, 0, DEFAULT_LIMIT, columns)
        except CorruptData:
            assert batch.shallow
            found.append((offsets[0], 0, bytes(batch.data[HEADER_SIZE:])))
            continue
        assert columns.offsets == list(
            range(int.from_bytes(batch.data[:8], "big"), columns.last_offset + 1)
        )
        assert batch.shallow or batch.max_timestamp == max(columns.timestamps)
        found += zip(offsets, columns.timestamps, map(bytes, columns.tails), strict=True)
    return found


# Whatever arrives.


@dataclass(frozen=True)
class Arrived:
    data: bytes
    position: int
    limit: int
    options: CopyOptions


_VALUES = st.one_of(
    st.none(),
    st.binary(max_size=40),
    st.sampled_from((_TEXT, _TEXT * 3, bytes(300), b"x" * 20_000)),
    st.just(b"\0\0\0\1" * 9),  # LZ4 refers to the head of such a record.
)
_STAMPS = st.one_of(
    st.integers(TIME, TIME + 300),
    st.sampled_from((-1, 0, (1 << 63) - 1, -(1 << 63))),
)


@st.composite
def arrived(draw: st.DrawFn) -> Arrived:
    batches: list[bytearray] = []
    offset = draw(st.integers(0, 5))
    codecs = draw(st.sampled_from(([NONE], [LZ4], [NONE, LZ4], [NONE, LZ4, SNAPPY, ZSTD])))
    plain = draw(st.booleans())  # Only such batches are merged without decompressing them.
    counts = (1,) if plain else (1, 1, 1, 1, 2, 5)
    kinds = ["", "", "", "", "", "stamped"]
    kinds += [] if plain else ["marker", "compacted", "horizon"]
    for _ in range(draw(st.integers(1, 24))):
        offset += draw(st.sampled_from((0, 0, 0, 0, 3)))
        count = draw(st.sampled_from(counts))
        records = [
            Record(offset + n, draw(_STAMPS), draw(st.sampled_from((None, b"k"))), draw(_VALUES))
            for n in range(count)
        ]
        kind = draw(st.sampled_from(kinds))
        data = bytearray(
            encode_batch(
                [record(offset, b"")] if kind == "marker" else records,
                base_offset=offset,
                codec=NONE if kind == "marker" else draw(st.sampled_from(codecs)),
                last_offset_delta=count + 1 if kind == "compacted" else count - 1,
                log_append_time=TIME if kind == "stamped" else None,
                delete_horizon=TIME if kind == "horizon" else None,
                leader_epoch=3 if plain else draw(st.sampled_from((3, 3, 3, 4))),
                transactional=kind == "marker" or draw(st.booleans()),
                control=kind == "marker",
            )
        )
        offset += count + 2 * (kind == "compacted")
        if draw(st.integers(0, 40 if plain else 15)) == 0:
            at = draw(st.integers(HEADER_SIZE - 4, len(data) - 1))
            data[at] ^= 1 << draw(st.integers(0, 7))
            if draw(st.booleans()):  # The producer sent it like this.
                set_crc(memoryview(data))
        batches.append(data)
    data = bytearray(b"".join(batches))
    return Arrived(
        bytes(data[: len(data) - draw(st.sampled_from((0, 0, 1, 70)))]),
        draw(st.integers(0, offset)),
        draw(st.sampled_from((0, 100, 1_000, 30_000))),
        CopyOptions(
            merge_bytes=draw(st.sampled_from((1_000, 256 * 1024))),
            codec=draw(st.sampled_from((None, None, NONE, LZ4, ZSTD))),
            check_crcs=draw(st.booleans()),
        ),
    )


@compiled
@settings(max_examples=300, deadline=None)
@given(arrived())
def test_the_same_is_copied_as_record_by_record(case: Arrived) -> None:
    view = memoryview(case.data)
    try:
        headers = read_headers(view)
    except CorruptData as error:
        expected = error.args
        with pytest.raises(CorruptData) as raised:
            read_runs(view, case.position)
        assert raised.value.args == expected
        return
    merged = read_batches(view, position=case.position, end=-1, aborted=(), options=case.options)
    plain = outcome(case.data, headers, case.position, case.limit, case.options)
    fast = outcome(case.data, merged, case.position, case.limit, case.options)
    copied = records_in(fast)
    if plain.unreadable is None or "CRC" in plain.unreadable.reason:
        assert fast.unreadable == plain.unreadable
    else:
        # Its CRC is right. Such a batch is forwarded if nothing needs its records: record by record
        # that depends on the batches around it.
        end = plain.unreadable.position
        assert fast.unreadable is None or fast.unreadable.position >= end
        copied = [each for each in copied if each[0] < end]
    assert copied == records_in(plain)
    if case.limit and case.options.codec is None:
        for batch in fast.batches:
            assert len(batch.data) <= case.limit or batch.records == 1 or batch.shallow


# What is a run.


@compiled
@pytest.mark.parametrize("codec", [NONE, LZ4])
def test_one_record_batches_are_one_run_and_one_batch(codec: int) -> None:
    data = [single(offset, codec) for offset in range(10, 30)]
    (run,) = runs_of(data)
    assert (run.base_offset, run.next_offset, run.records, run.batches) == (10, 30, 20, 20)
    assert (run.start, run.size) == (0, sum(map(len, data)))
    assert run.max_timestamp == TIME + 29
    (made,) = merge_run(memoryview(b"".join(data)), run, 1 << 20, codec, None)
    assert made.runs == [(10, 20)]
    assert made.records == 20
    assert made.last_source_offset == 29
    assert verify_crc(memoryview(made.data))
    assert len(made.data) < run.size


@compiled
def test_markers_do_not_end_a_run_but_another_epoch_codec_or_shape_does() -> None:
    first = [single(n, leader_epoch=1, transactional=True) for n in range(4)]
    marker = encode_batch(
        [Record(4, TIME, b"\0\0\0\1", b"")],
        base_offset=4, transactional=True, control=True, leader_epoch=1,
    )  # fmt: skip
    more = [single(n, leader_epoch=1) for n in range(5, 9)]
    others = [single(n, leader_epoch=2) for n in range(9, 13)]
    packed = [single(n, LZ4, leader_epoch=2) for n in range(13, 17)]
    alone = [single(17, delete_horizon=TIME, leader_epoch=2)]
    found = runs_of([*first, marker, *more, *others, *packed, *alone])
    assert [(run.base_offset, run.batches) for run in found] == [(0, 8), (9, 4), (13, 4), (17, 1)]


@compiled
def test_few_batches_or_large_ones_are_no_run() -> None:
    few = [single(n) for n in range(MIN_BATCHES - 1)]
    assert runs_of(few) == read_headers(memoryview(b"".join(few)))
    value = bytes(MAX_BATCH_BYTES)
    large = [encode_batch([record(n, value)], base_offset=n) for n in range(8)]
    assert runs_of(large) == read_headers(memoryview(b"".join(large)))


@compiled
def test_a_batch_before_the_position_or_with_a_wrong_crc_is_in_no_run() -> None:
    data = [bytearray(single(n)) for n in range(12)]
    data[6][-1] ^= 1
    found = runs_of([bytes(each) for each in data], position=1)
    assert [(run.base_offset, run.batches) for run in found] == [(0, 1), (1, 5), (6, 1), (7, 5)]


def compressed_anew(batches: Sequence[bytes], codec: int) -> None:
    data = b"".join(batches)
    (run,) = runs_of([data])
    chosen = outcome(data, [run], 0, 0, CopyOptions())
    plain = outcome(data, read_headers(memoryview(data)), 0, 0, CopyOptions())
    assert records_in(chosen) == records_in(plain)
    (batch,) = chosen.batches
    assert batch.data[22] == codec


@compiled
def test_blocks_that_refer_to_the_head_are_compressed_anew() -> None:
    """The values repeat length, attributes and deltas, so the compressor refers to those. They
    cannot be replaced in the block."""
    head = encode_batch([Record(0, TIME, None, bytes(200))], base_offset=0)[HEADER_SIZE:][:6]
    for value in (b"\0\0\0\1" * 9, (head * 40)[:200]):
        compressed_anew(
            [
                encode_batch([Record(n, TIME, None, value)], base_offset=n, codec=LZ4)
                for n in range(6)
            ],
            LZ4,
        )


@compiled
@pytest.mark.parametrize("codec", [SNAPPY, LZ4, ZSTD])
def test_batches_of_several_compressed_records_are_compressed_anew(codec: int) -> None:
    two = [
        encode_batch([record(n), record(n + 1)], base_offset=n, codec=codec) for n in range(0, 9, 2)
    ]
    compressed_anew([single(0, codec), *(two[1:])], codec)


@compiled
def test_a_batch_that_cannot_be_decompressed_takes_no_other_along() -> None:
    data = [bytearray(single(n, ZSTD)) for n in range(12)]
    data[6][HEADER_SIZE:] = bytes(len(data[6]) - HEADER_SIZE)
    set_crc(memoryview(data[6]))
    whole = b"".join(data)
    (run,) = runs_of([whole])
    assert run.batches == 12
    chosen = outcome(whole, [run], 0, 0, CopyOptions())
    assert [offset for offset, *_ in records_in(chosen)] == list(range(6))
    assert chosen.unreadable is not None
    assert chosen.unreadable.position == 6


@compiled
@pytest.mark.parametrize(
    ("at", "value", "what"),
    [
        (HEADER_SIZE, 1, "a negative length"),
        (HEADER_SIZE, 4, "a length that ends inside its head"),
        (HEADER_SIZE, 100, "a length beyond the batch"),
        (HEADER_SIZE + 2, 0x80, "a timestamp delta that takes the offset delta's byte"),
        (HEADER_SIZE + 3, 2, "an offset delta of 1"),
        (60, 2, "one record less than its header says"),
    ],
)
def test_a_batch_whose_records_do_not_fit_its_header_is_in_no_run(
    at: int, value: int, what: str
) -> None:
    data = [
        bytearray(encode_batch([Record(n, TIME, None, b"v" * 8)], base_offset=n)) for n in range(9)
    ]
    data[4][at] = value
    set_crc(memoryview(data[4]))
    found = runs_of([bytes(each) for each in data])
    assert [(run.base_offset, run.batches) for run in found] == [(0, 4), (4, 1), (5, 4)], what


@compiled
def test_no_record_beyond_the_end_is_in_a_run() -> None:
    view = memoryview(b"".join(single(n) for n in range(8)))
    (run,) = read_batches(view, position=0, end=8, aborted=(), options=CopyOptions())
    assert run.batches == 8
    each = read_batches(view, position=0, end=7, aborted=(), options=CopyOptions())
    assert [header.batches for header in each] == [1] * 8


@compiled
def test_without_merging_there_are_no_runs() -> None:
    view = memoryview(b"".join(single(n) for n in range(8)))
    options = CopyOptions(merge_bytes=0)
    each = read_batches(view, position=0, end=8, aborted=(), options=options)
    assert [header.batches for header in each] == [1] * 8


@compiled
def test_aborted_transactions_are_left_out_batch_by_batch() -> None:
    view = memoryview(b"".join(single(n) for n in range(8)))
    options = CopyOptions(read_committed=True)
    each = read_batches(view, position=0, end=8, aborted=((7, 3),), options=options)
    assert [header.batches for header in each] == [1] * 8


def test_without_the_compiled_part_there_are_no_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("connect.protocol.small_batches.native", None)
    data = b"".join(single(n) for n in range(8))
    assert read_runs(memoryview(data), 0) == read_headers(memoryview(data))
    chosen = outcome(data, read_runs(memoryview(data), 0), 0, 0, CopyOptions())
    assert [offset for offset, *_ in records_in(chosen)] == list(range(8))
    assert len(chosen.batches) == 1
