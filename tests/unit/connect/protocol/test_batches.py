"""Batch headers are read and rewritten as Kafka lays them out, and nothing else is touched."""

from __future__ import annotations

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder

from connect.errors import CorruptData
from connect.protocol.batches import (
    HEADER_SIZE,
    TRANSACTIONAL,
    abort_marker,
    crc_matches,
    read_headers,
    set_crc,
    shallow_copy_allowed,
    stamp_for_produce,
)
from connect.protocol.compiled import native
from connect.protocol.record_codec import Record
from tests.support.records.batches import encode_batch
from tests.support.records.record_sets import legacy_message, legacy_wrapper


def batch(values: list[bytes], *, transactional: bool = False, codec: int = 0) -> bytearray:
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=codec,
        is_transactional=transactional,
        producer_id=77,
        producer_epoch=3,
        base_sequence=5,
        batch_size=1 << 20,
    )
    for offset, value in enumerate(values):
        builder.append(offset, timestamp=1_000 + offset, key=b"k", value=value, headers=[])
    return bytearray(builder.build())


def moved(data: bytearray, base_offset: int) -> bytearray:
    """The batch as a log has it: at an offset."""
    data[0:8] = base_offset.to_bytes(8, "big")
    return data


def test_reads_every_whole_batch_and_leaves_a_cut_one_out() -> None:
    first, second = moved(batch([b"a", b"b"]), 10), moved(batch([b"c"]), 12)
    records = memoryview(first + second + second[:65])

    headers = read_headers(records)

    assert [(h.base_offset, h.next_offset, h.records) for h in headers] == [
        (10, 12, 2),
        (12, 13, 1),
    ]
    assert [(h.start, h.size) for h in headers] == [(0, len(first)), (len(first), len(second))]
    assert headers[0].producer_id == 77
    assert headers[0].max_timestamp == 1_001


def test_stamping_changes_the_producer_and_keeps_the_records() -> None:
    data = batch([b"a", b"b"], transactional=True)
    records_before = bytes(data[HEADER_SIZE:])

    stamp_for_produce(memoryview(data), 123, 4, 2**31 + 9)

    header = read_headers(memoryview(data))[0]
    assert bytes(data[HEADER_SIZE:]) == records_before
    assert header.producer_id == 123
    assert not header.attributes & TRANSACTIONAL
    assert int.from_bytes(data[51:53], "big") == 4
    assert int.from_bytes(data[53:57], "big") == 9
    parsed = DefaultRecordBatch(bytes(data))
    assert parsed.validate_crc()
    assert [record.value for record in parsed] == [b"a", b"b"]


@pytest.mark.parametrize("before", [False, True])
@pytest.mark.parametrize("transactional", [False, True])
def test_a_batch_is_of_a_transaction_as_told_whatever_it_was(
    before: bool, transactional: bool
) -> None:
    data = batch([b"a" * 500, b"b" * 500], transactional=before, codec=1)
    stamp_for_produce(memoryview(data), 123, 4, 0, transactional=transactional)
    (header,) = read_headers(memoryview(data))
    assert bool(header.attributes & TRANSACTIONAL) is transactional
    assert header.attributes & ~TRANSACTIONAL == 1, "the codec stays"
    parsed = DefaultRecordBatch(bytes(data))
    assert parsed.validate_crc()
    assert parsed.is_transactional is transactional


def test_stamping_twice_is_stamping_once() -> None:
    data = batch([b"x"])
    stamp_for_produce(memoryview(data), 1, 0, 7)
    once = bytes(data)
    stamp_for_produce(memoryview(data), 1, 0, 7)
    assert bytes(data) == once


def test_a_flipped_bit_fails_the_crc() -> None:
    data = batch([b"payload"])
    (header,) = read_headers(memoryview(data))
    assert crc_matches(memoryview(data), header)
    data[-1] ^= 1
    assert not crc_matches(memoryview(data), header)


@pytest.mark.parametrize(
    ("attributes", "allowed"),
    [(0, True), (4, True), (0x10, True), (0x08, False), (0x20, False), (0x40, False)],
    ids=["plain", "zstd", "transactional", "log append time", "control", "delete horizon"],
)
def test_which_batches_may_go_as_bytes(attributes: int, allowed: bool) -> None:
    (header,) = read_headers(memoryview(moved(batch([b"a", b"b"]), 5)))
    assert shallow_copy_allowed(header._replace(attributes=attributes), 5, 10_000) is allowed


def test_gaps_overlap_and_size_forbid_a_shallow_copy() -> None:
    (header,) = read_headers(memoryview(moved(batch([b"a", b"b"]), 5)))
    assert not shallow_copy_allowed(header._replace(last_offset_delta=2), 5, 10_000)
    assert not shallow_copy_allowed(header, 6, 10_000)
    assert not shallow_copy_allowed(header, 5, header.size - 1)
    assert shallow_copy_allowed(header, 4, header.size)


@pytest.mark.parametrize(("kind", "aborts"), [(0, True), (1, False)])
def test_control_records_say_whether_they_abort(kind: int, aborts: bool) -> None:
    key = b"\x00\x00" + kind.to_bytes(2, "big")
    # length, attributes, timestamp delta, offset delta, key length 4 (zigzag 8), key
    record = b"\x20\x00\x00\x00\x08" + key + b"\x0c" + bytes(6) + b"\x00"
    data = bytearray(HEADER_SIZE) + record
    data[57:61] = (1).to_bytes(4, "big")  # recordsCount
    assert abort_marker(memoryview(data)) is aborts


def test_a_control_batch_without_records_aborts_nothing() -> None:
    """Compaction removed its marker, and kept the batch for its producer's epoch."""
    data = encode_batch(
        [], base_offset=4, last_offset_delta=0, producer_id=7, transactional=True, control=True
    )
    assert not abort_marker(memoryview(data))


def test_a_control_record_without_a_key_is_corrupt() -> None:
    data = bytearray(encode_batch([Record(4, 1, b"", b"")], base_offset=4, control=True))
    with pytest.raises(CorruptData, match="without a key of 4 bytes"):
        abort_marker(memoryview(data)[:64])


@pytest.mark.parametrize("magic", [0, 1])
def test_an_old_message_begins_at_the_earliest_after_the_one_before_it(magic: int) -> None:
    records = [Record(offset, 1_000, b"k", b"v") for offset in range(10, 30)]
    plain = legacy_message(records[0], magic)
    first, second = (legacy_wrapper(records[n : n + 5], magic) for n in (5, 15))
    headers = read_headers(memoryview(plain + first + second))
    assert [(h.base_offset, h.next_offset) for h in headers] == [(0, 11), (11, 20), (20, 30)]
    (alone,) = read_headers(memoryview(first))
    assert (alone.base_offset, alone.next_offset) == (0, 20)


def test_an_old_message_that_ends_before_the_batch_before_it_is_corrupt() -> None:
    ten = legacy_message(Record(10, 1_000, None, b"v"), 1)
    nine = legacy_wrapper([Record(9, 1_000, None, b"v")], 1)
    with pytest.raises(CorruptData, match=r"offset 9 overlaps .* before offset 11"):
        read_headers(memoryview(ten + nine))


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("wrapped", [False, True])
def test_a_flipped_bit_fails_the_crc_of_an_old_message(magic: int, wrapped: bool) -> None:
    record = Record(3, 1_000, b"key", b"value")
    made = legacy_wrapper([record], magic) if wrapped else legacy_message(record, magic)
    data = bytearray(made)
    (header,) = read_headers(memoryview(data))
    assert crc_matches(memoryview(data), header)
    for at in range(16, len(data)):
        data[at] ^= 1
        assert not crc_matches(memoryview(data), header)
        data[at] ^= 1


def test_impossible_lengths_are_corrupt() -> None:
    data = batch([b"a"])
    data[8:12] = (40).to_bytes(4, "big")
    with pytest.raises(CorruptData, match="batchLength 40"):
        read_headers(memoryview(data))


@given(st.binary(max_size=300))
def test_any_bytes_parse_or_are_corrupt(data: bytes) -> None:
    try:
        headers = read_headers(memoryview(data))
    except CorruptData:
        return
    assert all(h.start + h.size <= len(data) for h in headers)


@given(st.integers(0, 60), st.integers(0, 255))
def test_damaged_headers_never_raise_anything_else(at: int, value: int) -> None:
    data = batch([b"a", b"b"])
    data[at] = value
    try:
        read_headers(memoryview(data))
    except CorruptData:
        return


def test_the_crc_covers_everything_from_the_attributes_on() -> None:
    data = batch([b"a"])
    stamp_for_produce(memoryview(data), 9, 0, 0)
    assert int.from_bytes(data[17:21], "big") == crc32c(bytes(data[21:]))


@pytest.mark.parametrize("compiled", [True, False])
@given(
    data=st.binary(min_size=HEADER_SIZE, max_size=3_000),
    producer=st.tuples(
        st.integers(-1, 2**63 - 1), st.integers(-1, 2**15 - 1), st.integers(0, 2**32)
    ),
    transactional=st.booleans(),
)
def test_the_crc_that_follows_from_the_old_one_is_that_of_the_bytes(
    compiled: bool, data: bytes, producer: tuple[int, int, int], transactional: bool
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        if not compiled:
            patch.setattr("connect.protocol.batches.native", None)
        stamped = memoryview(bytearray(data))
        set_crc(stamped)
        stamp_for_produce(stamped, *producer, transactional=transactional)
        assert int.from_bytes(stamped[17:21], "big") == crc32c(stamped[21:])
        assert bytes(stamped[:8]) == bytes(8)
        assert int.from_bytes(stamped[8:12], "big") == len(data) - 12
        assert int.from_bytes(stamped[43:51], "big", signed=True) == producer[0]
        assert int.from_bytes(stamped[51:53], "big", signed=True) == producer[1]
        assert int.from_bytes(stamped[53:57], "big") == producer[2] % 2**31
        assert bool(stamped[22] & TRANSACTIONAL) is transactional
        assert (stamped[22] ^ data[22]) & ~TRANSACTIONAL & 0xFF == 0
        assert bytes(stamped[57:]) == data[57:]


@pytest.mark.skipif(native is None, reason="the compiled part was not built")
def test_a_wrong_crc_stays_wrong_and_so_the_target_finds_it() -> None:
    data = batch([b"payload" * 100])
    data[-1] ^= 1
    stamp_for_produce(memoryview(data), 123, 4, 9)
    (header,) = read_headers(memoryview(data))
    assert not crc_matches(memoryview(data), header)
