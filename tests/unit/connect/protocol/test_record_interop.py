"""Batches exchanged with kafka-python's own record builder and reader."""

from typing import Any

import pytest
from hypothesis import given, settings
from kafka.record.default_records import DefaultRecordBatchBuilder
from kafka.record.memory_records import MemoryRecords

from connect.protocol.compression import GZIP, NONE
from connect.protocol.frame import to_int64
from connect.protocol.records import Record, iter_records, rebatch, verify_crc
from tests.support.records.batches import encode_batch

from .record_strategies import TIME, Stored, stored_batches

# The codecs that kafka-python has without further packages.
CODECS = [NONE, GZIP]


def batches_of(data: bytes) -> list[Any]:
    log = MemoryRecords(data)
    found = []
    while log.has_next():
        found.append(log.next_batch())
    return found


RECORDS = [
    Record(0, TIME + 5, b"key", b"value"),
    Record(1, TIME, None, b"x" * 9000, (("a", b"1"), ("a", None), ("é", b""))),
    Record(2, TIME + 90_000, b"tombstone", None),
    Record(3, TIME, b"", b""),
]


@pytest.mark.parametrize("codec", CODECS)
def test_what_kafka_python_builds_is_read(codec: int) -> None:
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=codec,
        is_transactional=0,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=1_000_000,
    )
    for record in RECORDS:
        builder.append(
            record.offset, record.timestamp, record.key, record.value, list(record.headers)
        )
    built = bytes(builder.build())
    assert verify_crc(memoryview(built))
    assert list(iter_records(built)) == RECORDS


@pytest.mark.parametrize("codec", CODECS)
@given(stored=stored_batches(max_batches=3))
@settings(max_examples=50)
def test_new_batches_are_read_by_kafka_python(codec: int, stored: list[Stored]) -> None:
    made = rebatch(
        [memoryview(batch.data) for batch in stored],
        from_offset=0,
        codec=codec,
        level=None,
        max_bytes=1000,
    )
    read = []
    for batch in made:
        (parsed,) = batches_of(bytes(batch.data))
        assert parsed.last_offset_delta == batch.records - 1
        read += [(r.timestamp, r.key, r.value, tuple(r.headers)) for r in parsed]
    expected = [r for batch in stored for r in batch.records]
    # kafka-python does not wrap sums of timestamps into 64 bits as Java does.
    read = [(to_int64(timestamp), *rest) for timestamp, *rest in read]
    assert read == [(r.timestamp, r.key, r.value, r.headers) for r in expected]


@pytest.mark.parametrize("codec", CODECS)
def test_encoded_batches_pass_kafka_pythons_checks(codec: int) -> None:
    (parsed,) = batches_of(encode_batch(RECORDS, base_offset=0, codec=codec))
    assert parsed.validate_crc()
    assert [(r.offset, r.key, r.value) for r in parsed] == [
        (r.offset, r.key, r.value) for r in RECORDS
    ]
