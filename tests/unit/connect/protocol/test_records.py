import struct
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from connect.errors import CorruptData
from connect.protocol.compression import GZIP, LZ4, NONE, SNAPPY, ZSTD
from connect.protocol.records import (
    KEEP_CODEC,
    Rebatched,
    Record,
    iter_records,
    rebatch,
    recompress,
    split,
    verify_crc,
)
from tests.support.records.batches import encode_batch

from .record_strategies import TIME, Stored, seen_in, stored_batches

HEADER = struct.Struct(">qiibIhiqqqhii")
CODECS = [NONE, GZIP, SNAPPY, LZ4, ZSTD]


def event(offset: int, size: int = 100, timestamp: int | None = None) -> Record:
    return Record(
        offset, TIME + offset if timestamp is None else timestamp, b"k%d" % offset, b"v" * size
    )


def batch_of(*offsets: int, codec: int = NONE, size: int = 100) -> bytes:
    return encode_batch(
        [event(offset, size) for offset in offsets], base_offset=offsets[0], codec=codec
    )


def rebatched(
    batches: Sequence[bytes],
    *,
    from_offset: int = 0,
    codec: int = NONE,
    level: int | None = None,
    max_bytes: int = 1_000_000,
    max_records: int = 16_384,
) -> list[Rebatched]:
    return rebatch(
        [memoryview(batch) for batch in batches],
        from_offset=from_offset,
        codec=codec,
        level=level,
        max_bytes=max_bytes,
        max_records=max_records,
    )


def test_one_record_batches_become_one_batch() -> None:
    (made,) = rebatched([batch_of(offset) for offset in range(10, 30)])
    assert made.records == 20
    assert made.runs == [(10, 20)]
    assert made.max_timestamp == TIME + 29
    assert made.last_source_offset == 29
    assert seen_in([made]) == [event(offset) for offset in range(10, 30)]


def test_the_header_is_that_of_a_plain_batch_without_producer() -> None:
    stored = encode_batch(
        [event(5), event(9)],
        base_offset=5,
        leader_epoch=4,
        producer_id=7,
        producer_epoch=1,
        base_sequence=3,
        transactional=True,
        log_append_time=TIME + 1000,
        delete_horizon=TIME,
    )
    (made,) = rebatched([stored])
    crc = int.from_bytes(made.data[17:21], "big")
    assert verify_crc(memoryview(made.data))
    assert HEADER.unpack_from(made.data) == (
        0, len(made.data) - 12, -1, 2, crc, 0, 1, TIME + 1000, TIME + 1000, -1, -1, -1, 2,
    )  # fmt: skip


def test_gaps_in_source_offsets_become_runs() -> None:
    (made,) = rebatched([batch_of(3, 4, 8), batch_of(9), batch_of(20, 22)])
    assert made.runs == [(3, 2), (8, 2), (20, 1), (22, 1)]


def test_records_before_the_resume_position_are_left_out() -> None:
    batches = [batch_of(1), batch_of(2, 3, 4), batch_of(5)]
    assert [r.offset for r in seen_in(rebatched(batches, from_offset=4))] == [4, 5]
    assert rebatched(batches, from_offset=6) == []


def test_nothing_gives_nothing() -> None:
    assert rebatched([]) == []
    assert rebatched([encode_batch([], base_offset=4, codec=ZSTD, last_offset_delta=3)]) == []


def test_a_batch_is_filled_up_to_the_limit_and_not_beyond() -> None:
    one = len(batch_of(1))
    made = rebatched([batch_of(offset) for offset in range(100)], max_bytes=10 * one)
    assert all(len(batch.data) <= 10 * one for batch in made)
    assert all(len(batch.data) > 9 * one for batch in made[:-1])
    assert [r.offset for r in seen_in(made)] == list(range(100))


def test_a_record_above_the_limit_has_a_batch_of_its_own() -> None:
    stored = [batch_of(0), batch_of(1, size=5000), batch_of(2), batch_of(3, 4, size=5000)]
    made = rebatched(stored, max_bytes=1000)
    assert [batch.runs for batch in made] == [[(0, 1)], [(1, 1)], [(2, 1)], [(3, 1)], [(4, 1)]]
    assert len(made[1].data) > 1000


def test_max_records_is_kept() -> None:
    made = rebatched([batch_of(*range(10)), batch_of(10)], max_records=4)
    assert [batch.runs for batch in made] == [[(0, 4)], [(4, 4)], [(8, 3)]]


def test_more_records_than_the_tables_hold() -> None:
    offsets = range(20_000)
    records = [Record(offset, TIME, None, b"") for offset in offsets]
    (made,) = rebatched([encode_batch(records, base_offset=0)], max_records=20_000)
    assert made.records == 20_000
    assert seen_in([made]) == records


def test_codecs_are_kept_and_not_mixed_on_demand() -> None:
    stored = [
        batch_of(0),
        batch_of(1),
        batch_of(2, codec=LZ4),
        batch_of(3, 4, codec=LZ4),
        batch_of(5, codec=ZSTD),
        batch_of(6),
    ]
    made = rebatched(stored, codec=KEEP_CODEC)
    codecs = [HEADER.unpack_from(batch.data)[5] for batch in made]
    assert codecs == [NONE, LZ4, ZSTD, NONE]
    assert [batch.records for batch in made] == [2, 3, 1, 1]


@pytest.mark.parametrize("codec", CODECS)
def test_data_that_does_not_compress_stays_within_the_limit(codec: int) -> None:
    noise = [bytes((n * 7919 + i * i * 31 + (i >> 3)) % 256 for i in range(400)) for n in range(40)]
    records = [Record(n, TIME, None, value) for n, value in enumerate(noise)]
    made = rebatched([encode_batch(records, base_offset=0)], codec=codec, max_bytes=2100)
    assert all(len(batch.data) <= 2100 for batch in made)
    assert seen_in(made) == records


def test_many_decompressed_batches_are_written_on_the_way() -> None:
    stored = [batch_of(*range(n * 50, n * 50 + 50), codec=ZSTD, size=900) for n in range(20)]
    made = rebatched(stored, max_bytes=20_000)
    assert all(len(batch.data) > 18_000 for batch in made[:-1])
    assert [r.offset for r in seen_in(made)] == list(range(1000))


def test_a_control_batch_is_refused() -> None:
    marker = encode_batch([event(1)], base_offset=1, control=True)
    with pytest.raises(CorruptData, match="control batch"):
        rebatched([marker])


@pytest.mark.parametrize("second", [[5], [4], [5, 6], [0]])
@pytest.mark.parametrize("codec", [NONE, LZ4])
def test_offsets_that_do_not_rise_are_corrupt_data(second: list[int], codec: int) -> None:
    with pytest.raises(CorruptData, match="not in order"):
        rebatched([batch_of(4, 5), batch_of(*second, codec=codec)])
    with pytest.raises(CorruptData, match="not in order"):
        rebatched([batch_of(5), batch_of(*second, codec=codec)])


@given(
    stored_batches(),
    st.sampled_from([KEEP_CODEC, *CODECS]),
    st.sampled_from([1, 150, 1000, 1_000_000]),
    st.sampled_from([1, 3, 16_384]),
    st.integers(0, 40),
)
@settings(max_examples=200)
def test_a_consumer_sees_the_same_records(
    stored: list[Stored], codec: int, max_bytes: int, max_records: int, skip: int
) -> None:
    expected = [record for batch in stored for record in batch.records]
    from_offset = expected[min(skip, len(expected) - 1)].offset if expected else 0
    made = rebatched(
        [batch.data for batch in stored],
        from_offset=from_offset,
        codec=codec,
        max_bytes=max_bytes,
        max_records=max_records,
    )
    assert seen_in(made) == [record for record in expected if record.offset >= from_offset]
    for batch in made:
        newest = max(record.timestamp for record in iter_records(batch.data))
        assert batch.max_timestamp == newest == HEADER.unpack_from(batch.data)[8]
        assert batch.records == sum(count for _, count in batch.runs) <= max_records
        assert batch.records == 1 or len(batch.data) <= max_bytes
        assert batch.last_source_offset == sum(batch.runs[-1]) - 1
        assert all(a + n < b for (a, n), (b, _) in zip(batch.runs, batch.runs[1:], strict=False))


@given(stored_batches(), st.sampled_from([KEEP_CODEC, *CODECS]), st.data())
@settings(max_examples=200)
def test_corrupted_bytes_raise_nothing_but_corrupt_data(
    stored: list[Stored], codec: int, data: st.DataObject
) -> None:
    damaged = []
    for batch in stored:
        batch_data = bytearray(batch.data)
        for _ in range(data.draw(st.integers(0, 3))):
            # Mostly where the structure is: the header and the first bytes of records.
            end = data.draw(st.sampled_from([80, len(batch_data)]))
            position = data.draw(st.integers(0, min(end, len(batch_data)) - 1))
            batch_data[position] = data.draw(st.integers(0, 255))
        damaged.append(bytes(batch_data[: data.draw(st.integers(0, 500)) or None]))
    with suppress(CorruptData):
        rebatched(damaged, codec=codec, max_bytes=500)
    for one in damaged:
        with suppress(CorruptData):
            list(iter_records(one, max_decompressed=1_000_000))
        with suppress(CorruptData):
            recompress(memoryview(one), ZSTD, None, max_decompressed=1_000_000)
        with suppress(CorruptData):
            verify_crc(memoryview(one))


@given(stored_batches(max_batches=1))
@settings(max_examples=100)
def test_split_gives_two_halves_with_their_source_offsets(stored: list[Stored]) -> None:
    for made in rebatched([batch.data for batch in stored], codec=KEEP_CODEC):
        if made.records < 2:
            with pytest.raises(ValueError, match="cannot split"):
                split(made.data, runs=made.runs)
            continue
        halves = split(made.data, runs=made.runs)
        assert [half.records for half in halves] == [made.records // 2, (made.records + 1) // 2]
        assert seen_in(halves) == seen_in([made])
        codecs = {HEADER.unpack_from(half.data)[5] for half in halves}
        assert codecs == {HEADER.unpack_from(made.data)[5]}


def test_split_takes_a_batch_that_was_to_be_forwarded_whole() -> None:
    stored = encode_batch(
        [event(n) for n in range(700, 705)], base_offset=700, codec=LZ4, producer_id=5
    )
    first, second = split(memoryview(stored), runs=[(700, 5)])
    assert (first.runs, second.runs) == ([(700, 2)], [(702, 3)])


def test_split_wants_as_many_source_offsets_as_records() -> None:
    with pytest.raises(ValueError, match="cannot split 3 records"):
        split(memoryview(batch_of(1, 2, 3)), runs=[(1, 2)])


@pytest.mark.parametrize("old", CODECS)
@pytest.mark.parametrize("new", CODECS)
def test_recompress_changes_codec_length_and_crc_only(old: int, new: int) -> None:
    stored = encode_batch(
        [event(n) for n in (3, 4, 9)],
        base_offset=3,
        codec=old,
        leader_epoch=2,
        producer_id=7,
        producer_epoch=1,
        base_sequence=3,
        transactional=True,
    )
    made = recompress(memoryview(stored), new, None)
    header, before = list(HEADER.unpack_from(made)), list(HEADER.unpack_from(stored))
    assert header[1] == len(made) - 12
    assert verify_crc(memoryview(made))
    assert header[5] == 0x10 | new
    for changed in (1, 4, 5):
        header[changed] = before[changed]
    assert header == before
    assert list(iter_records(made)) == list(iter_records(stored))


def test_recompress_wants_magic_2() -> None:
    with pytest.raises(CorruptData, match="magic 2"):
        recompress(memoryview(bytes(7) + b"\x01" + b"\0\0\0\x12" + bytes(18)), ZSTD, None)


def test_verify_crc_finds_a_flipped_bit() -> None:
    stored = bytearray(batch_of(1, 2, codec=ZSTD))
    assert verify_crc(memoryview(stored))
    stored[-1] ^= 1
    assert not verify_crc(memoryview(stored))


def test_a_new_batch_keeps_what_headers_hold() -> None:
    headers = (("a", b"1"), ("a", None), ("", b""), ("größe", b"2"), ("\udcff", b"not utf-8"))
    record = replace(event(1), headers=headers)
    (made,) = rebatched([encode_batch([record], base_offset=1)])
    assert seen_in([made]) == [record]
