import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from connect.errors import CorruptData
from connect.protocol.compression import LZ4, NONE
from connect.protocol.record_codec import encode_batch as plain_batch
from connect.protocol.records import Record, iter_records, rebatch, verify_crc
from tests.support.records.batches import encode_batch

from .record_strategies import TIME, seen_in

# Written and read by Kafka itself; made by RecordBatches.java beside it.
GOLDEN: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[3] / "golden" / "record_batches.json").read_text()
)


def entries(log: bytes) -> list[memoryview]:
    """The batches, or messages of magic 0 and 1, of a piece of a log."""
    found = []
    position = 0
    while position < len(log):
        end = position + 12 + int.from_bytes(log[position + 8 : position + 12], "big")
        found.append(memoryview(log)[position:end])
        position = end
    return found


def as_java_prints(record: Record) -> list[Any]:
    def field(data: bytes | None) -> str | None:
        if data is None or len(data) <= 200:
            return None if data is None else data.hex()
        return "sha256 " + hashlib.sha256(data).hexdigest()

    headers = [[name, field(value)] for name, value in record.headers]
    return [record.offset, record.timestamp, field(record.key), field(record.value), headers]


@pytest.mark.parametrize("case", GOLDEN, ids=lambda case: case["name"])
def test_what_java_wrote_is_read_as_java_reads_it(case: dict[str, Any]) -> None:
    log = entries(bytes.fromhex(case["data"]))
    assert all(verify_crc(batch) for batch in log)
    records = [as_java_prints(record) for batch in log for record in iter_records(batch)]
    assert records == case["records"]


@pytest.mark.parametrize("codec", [NONE, LZ4])
@pytest.mark.parametrize("case", GOLDEN[:-1], ids=lambda case: case["name"])
def test_what_java_wrote_stays_itself_in_new_batches(case: dict[str, Any], codec: int) -> None:
    made = rebatch(
        entries(bytes.fromhex(case["data"])),
        from_offset=0,
        codec=codec,
        level=None,
        max_bytes=1_000_000,
    )
    assert [as_java_prints(record) for record in seen_in(made)] == case["records"]


def test_the_golden_cases_are_all_there() -> None:
    names = [case["name"] for case in GOLDEN]
    assert len(names) == len(set(names)) == 43
    assert "magic 0 lz4" in names
    assert "magic 2 snappy large" in names


@pytest.mark.parametrize("log_append_time", [None, TIME + 5000])
def test_encode_batch_writes_the_bytes_that_java_writes(log_append_time: int | None) -> None:
    cases = {case["name"]: case for case in GOLDEN}
    name = "magic 2 none" + ("" if log_append_time is None else " LogAppendTime")
    records = list(iter_records(bytes.fromhex(cases["magic 2 none"]["data"])))
    encoded = encode_batch(
        records,
        base_offset=100,
        log_append_time=log_append_time,
        leader_epoch=3,
        producer_id=4000,
        producer_epoch=2,
        base_sequence=9,
        transactional=True,
    )
    assert encoded.hex() == cases[name]["data"]


def test_a_plain_batch_is_that_of_the_encoder_that_java_s_bytes_check() -> None:
    records = [
        Record(0, TIME + 7, b"key", b"value", (("h", b"x"), ("h", None))),
        Record(1, TIME, None, b""),
        Record(2, TIME + 9, b"", None),
    ]
    assert plain_batch(records) == encode_batch(records, base_offset=0)


def damaged(position: int, value: int) -> bytes:
    batch = bytearray(
        encode_batch([Record(0, TIME, b"key", b"value", (("h", b"x"),))], base_offset=0)
    )
    batch[position] = value
    return bytes(batch)


@pytest.mark.parametrize(
    ("position", "value", "reason"),
    [
        (11, 0, "invalid length field"),  # batchLength
        (16, 3, "unknown batch magic 3"),
        (60, 2, "records end|record runs over|invalid record count"),  # recordsCount
        (57, 255, "invalid record count -"),
        (61, 1, "negative length"),
        (61, 200, "records end at byte"),  # record length
        (64, 1, "wrong offset delta"),
        (65, 3, "field of -2 bytes"),  # key length
        (65, 100, "field of 50 bytes"),
        (75, 1, "claims -1 headers"),
        (75, 100, "claims 50 headers"),
        (76, 1, "header without a key"),
        (78, 0, "1 bytes too many"),  # length of the header's value
    ],
)
def test_malformed_records_are_named(position: int, value: int, reason: str) -> None:
    assert len(damaged(61, 36)) == 80
    with pytest.raises(CorruptData, match=reason):
        list(iter_records(damaged(position, value)))


def test_a_batch_with_fewer_records_than_bytes_is_corrupt() -> None:
    batch = bytearray(encode_batch([Record(n, TIME, None, b"v") for n in range(3)], base_offset=0))
    batch[60] = 2
    with pytest.raises(CorruptData, match="records end at byte"):
        list(iter_records(batch))


def test_records_beyond_the_last_offset_delta_are_corrupt() -> None:
    batch = encode_batch(
        [Record(n, TIME, None, b"v") for n in range(3)], base_offset=0, last_offset_delta=1
    )
    with pytest.raises(CorruptData, match="last delta 1"):
        list(iter_records(batch))
