"""Batches that are equal at a glance, and those of which only the records can tell."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from crc32c import crc32c

from connect.errors import CorruptData
from connect.protocol.batches import stamp_for_produce
from connect.protocol.compression import GZIP, LZ4, NONE
from connect.protocol.record_codec import Record
from connectors.mirror.compare.batch_runs import NOTHING_EQUAL
from tests.support.records.batches import encode_batch
from tests.support.records.wire_runs import run_of

CRC_AT, COVERED_AT, MAX_TIMESTAMP_AT = 17, 21, 35
RECORDS = 5


def batch(first: int, value: bytes = b"v" * 50, **header: Any) -> bytes:
    records = [Record(first + n, 1000 + n, b"k", value) for n in range(RECORDS)]
    return encode_batch(records, base_offset=first, **header)


def forwarded(data: bytes, base_offset: int) -> bytes:
    """As the mirror's producer and the target's broker make of it."""
    copy = bytearray(data)
    stamp_for_produce(memoryview(copy), 77, 3, 1000, transactional=True)
    struct.pack_into(">q", copy, 0, base_offset)
    struct.pack_into(">i", copy, 12, 9)
    return bytes(copy)


def tampered(data: bytes, at: int) -> bytes:
    """One byte changed, and the CRC made right."""
    copy = bytearray(data)
    copy[at] ^= 1
    struct.pack_into(">I", copy, CRC_AT, crc32c(bytes(copy[COVERED_AT:])))
    return bytes(copy)


@pytest.mark.parametrize("codec", [NONE, GZIP, LZ4])
def test_what_was_forwarded_is_equal_whoever_produced_it(codec: int) -> None:
    source = [batch(at, codec=codec, producer_id=5, base_sequence=at) for at in (10, 15, 20)]
    target = [forwarded(data, 100 + 5 * n) for n, data in enumerate(source)]
    found = run_of(source).equal_batches(0, run_of(target), 0)
    assert (found.batches, found.records) == (3, 15)
    assert (found.last_source, found.last_target) == (24, 114)


def test_a_comparison_begins_anywhere_in_both_runs() -> None:
    source = [batch(at, b"%d" % at) for at in (10, 15, 20)]
    target = [forwarded(source[1], 100), forwarded(source[2], 105)]
    found = run_of(source).equal_batches(1, run_of(target), 0)
    assert (found.batches, found.last_source, found.last_target) == (2, 24, 109)
    assert run_of(source).equal_batches(0, run_of(target), 0) == NOTHING_EQUAL


def test_marks_are_the_same_however_runs_are_cut() -> None:
    source = [batch(at, b"%d" % at) for at in (10, 15, 20)]
    target = [forwarded(data, 100 + 5 * n) for n, data in enumerate(source)]
    whole = run_of(source).equal_batches(0, run_of(target), 0)
    first = run_of(source[:1]).equal_batches(0, run_of(target), 0)
    rest = run_of(source).equal_batches(1, run_of(target[1:]), 0)
    assert first.marks + rest.marks == whole.marks
    assert len(whole.marks) == 24


def test_a_changed_byte_of_a_record_ends_what_is_equal() -> None:
    source = [batch(at) for at in (10, 15, 20)]
    target = [forwarded(data, 100 + 5 * n) for n, data in enumerate(source)]
    for at in range(61, len(source[1])):
        changed = [target[0], tampered(target[1], at), target[2]]
        assert run_of(source).equal_batches(0, run_of(changed), 0).batches == 1


@pytest.mark.parametrize("at", [22, MAX_TIMESTAMP_AT + 7, 27 + 7, 60], ids=str)
def test_another_codec_timestamp_or_count_is_not_equal(at: int) -> None:
    source = batch(10)
    assert run_of([source]).equal_batches(0, run_of([tampered(source, at)]), 0) == NOTHING_EQUAL


@pytest.mark.parametrize("side", ["source", "target"])
def test_a_batch_that_fails_its_crc_is_named(side: str) -> None:
    source, target = bytearray(batch(10)), bytearray(batch(10))
    bad = source if side == "source" else target
    bad[-1] ^= 1
    with pytest.raises(CorruptData, match="the batch at offset 10 fails its CRC"):
        run_of([bytes(source)]).equal_batches(0, run_of([bytes(target)]), 0)
    with pytest.raises(CorruptData, match="the batch at offset 10 fails its CRC"):
        run_of([bytes(bad)])[0]


def test_what_reaches_out_of_the_range_is_compared_by_its_records() -> None:
    data = [batch(10), batch(15), batch(20)]
    everything = run_of(data)
    part = run_of(data, (12, 23))
    assert everything.equal_batches(0, part, 0) == NOTHING_EQUAL
    assert part.equal_batches(0, everything, 0) == NOTHING_EQUAL
    assert part.equal_batches(1, everything, 1).batches == 1
    assert part[0].columns().offsets == [12, 13, 14]
    assert part[2].columns().offsets == [20, 21, 22]


def test_readers_get_no_markers_and_nothing_that_was_aborted() -> None:
    marker = [Record(20, 1000, b"\0\0\0\0", b"\0\0\0\0\0\0")]
    ended = encode_batch(marker, base_offset=20, producer_id=5, transactional=True, control=True)
    mine: dict[str, Any] = {"producer_id": 5, "producer_epoch": 0, "transactional": True}
    data = [batch(10), batch(15, **mine), ended, batch(21, **mine)]
    firsts = [
        [each.columns().offsets[0] for each in run_of(data, aborted=aborted)]
        for aborted in (None, [(5, 15)])
    ]
    assert firsts == [[10, 15, 21], [10, 21]]


def test_a_batch_that_is_left_out_is_checked_too() -> None:
    aborted = bytearray(batch(15, producer_id=5, transactional=True))
    aborted[-1] ^= 1
    with pytest.raises(CorruptData, match="offset 15"):
        run_of([batch(10), bytes(aborted)], aborted=[(5, 15)])


def test_the_bytes_of_a_run_are_those_that_are_compared() -> None:
    data = [batch(10), batch(15), batch(20)]
    assert run_of(data, (15, 20)).size == len(data[1])
