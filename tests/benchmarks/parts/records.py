"""Prints what re-batching costs, in µs of CPU per record. Not a test.

Run: python -m tests.benchmarks.parts.records [records]
Goals: 2.0 µs for uncompressed one-record batches, 2.5 µs for decompressed many-record batches.
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections.abc import Callable, Sequence

from connect.protocol.compression import CODEC_NAMES, NONE
from connect.protocol.records import KEEP_CODEC, Record, iter_records, rebatch, recompress
from tests.support.records.batches import encode_batch

ROUNDS = 7  # the best of them counts: the others were disturbed
TIME = 1_700_000_000_000
VALUE_BYTES = 545


def event(number: int, randomness: random.Random) -> Record:
    """A JSON event of 545 bytes, half of it hard to compress."""
    body = {"id": number, "user": randomness.randbytes(8).hex(), "page": "/catalogue/item"}
    room = VALUE_BYTES - len(json.dumps(body)) - len(', "trace": ""')
    noise = randomness.randbytes(room // 4).hex()
    body["trace"] = noise + "-" * (room - len(noise))
    return Record(number, TIME + number // 50, b"key-%d" % number, json.dumps(body).encode())


def batches_of(
    records: Sequence[Record], per_batch: int, codec: int = NONE, log_append_time: int | None = None
) -> list[memoryview]:
    return [
        memoryview(
            encode_batch(
                records[start : start + per_batch],
                base_offset=records[start].offset,
                codec=codec,
                log_append_time=log_append_time,
            )
        )
        for start in range(0, len(records), per_batch)
    ]


def report(name: str, records: int, run: Callable[[], object]) -> None:
    best = float("inf")
    for _ in range(ROUNDS):
        started = time.process_time()
        run()
        best = min(best, time.process_time() - started)
    print(f"{name:52} {best / records * 1e6:7.2f} µs/record")


def rebatching(batches: list[memoryview], codec: int, from_offset: int = 0) -> Callable[[], object]:
    return lambda: rebatch(
        batches, from_offset=from_offset, codec=codec, level=None, max_bytes=1_000_000
    )


def recompressing(batches: list[memoryview], codec: int) -> Callable[[], object]:
    return lambda: [recompress(batch, codec, None) for batch in batches]


def main(count: int) -> None:
    randomness = random.Random(1)
    records = [event(number, randomness) for number in range(count)]
    tiny = [Record(r.offset, r.timestamp, None, b"tiny") for r in records]
    plain = batches_of(records, 100)
    stamped = batches_of(records, 1, log_append_time=TIME)
    report("one record a batch", count, rebatching(batches_of(records, 1), NONE))
    report("  4-byte values", count, rebatching(batches_of(tiny, 1), NONE))
    report("  LogAppendTime", count, rebatching(stamped, NONE))
    report("100 records a batch", count, rebatching(plain, NONE))
    report("  from inside the first batch", count - 50, rebatching(plain, NONE, 50))
    report("  every field decoded", count, lambda: [list(iter_records(b)) for b in plain])
    for codec, name in list(enumerate(CODEC_NAMES))[1:]:
        packed = batches_of(records, 100, codec)
        report(f"100 records a batch, {name} to none", count, rebatching(packed, NONE))
        report(f"  {name} to {name}", count, rebatching(packed, KEEP_CODEC))
        report(f"  none to {name}, recompressed whole", count, recompressing(plain, codec))
        single = batches_of(records, 1, codec)
        report(f"  one record a batch, {name} to none", count, rebatching(single, NONE))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5_000)
