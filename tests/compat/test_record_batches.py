"""Kafka's own classes read the batches that we write, whatever the codec."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import crc32c
import pytest

from connect.protocol.compression import CODEC_NAMES
from connect.protocol.records import Record, rebatch, recompress, verify_crc
from deploy.brokers import KafkaRuntime
from tests.support.records.batches import encode_batch
from tests.support.workers.java import run_java_class

READER = Path(__file__).parents[1] / "golden" / "RecordBatches.java"
TIME = 1_700_000_000_000
LEVELS: dict[int, list[int | None]] = {
    0: [None],
    1: [None, 1, 9],
    2: [None],
    3: [None, 1, 9],
    4: [None, 1, 19],
}

# Short fields, as the reader prints longer ones as digests; but many, to fill several blocks.
RECORDS = [
    Record(
        n,
        TIME + n * 37 % 30_000,
        None if n % 7 == 0 else b"key %d" % n,
        None if n % 11 == 0 else b"value %d " % n * (n % 15),
        (("a", b"%d" % n), ("a", None)) if n % 5 == 0 else (),
    )
    for n in range(3000)
]


def sealed(data: bytearray) -> bytes:
    """With the CRC, which whoever sends a batch fills in."""
    data[17:21] = crc32c.crc32c(memoryview(data)[21:]).to_bytes(4, "big")
    assert verify_crc(memoryview(data))
    return bytes(data)


def as_printed(record: Record) -> list[Any]:
    def field(data: bytes | None) -> str | None:
        return None if data is None else data.hex()

    headers = [[name, field(value)] for name, value in record.headers]
    return [record.offset, record.timestamp, field(record.key), field(record.value), headers]


def test_kafka_reads_what_we_write(kafka: KafkaRuntime) -> None:
    if not kafka.java.with_name("javac").exists():
        pytest.skip("the reader is compiled when it runs, which needs a whole JDK")
    stored = encode_batch(RECORDS, base_offset=0)
    written = [encode_batch(RECORDS, base_offset=0, codec=codec) for codec in LEVELS]
    for codec, levels in LEVELS.items():
        for level in levels:
            (made,) = rebatch(
                [memoryview(stored)],
                from_offset=0,
                codec=codec,
                level=level,
                max_bytes=10_000_000,
            )
            assert len(made.data) < len(stored) or codec == 0
            written.append(sealed(made.data))
            written.append(sealed(recompress(memoryview(stored), codec, level)))
    lines = "".join(batch.hex() + "\n" for batch in written)
    printed = run_java_class(kafka, str(READER), ["read"], stdin=lines.encode())
    read = json.loads("[" + printed.strip().replace("]\n[[", "],\n[[") + "]")
    assert len(read) == len(written) == len(CODEC_NAMES) + 2 * sum(map(len, LEVELS.values()))
    expected = [as_printed(record) for record in RECORDS]
    assert all(records == expected for records in read)
