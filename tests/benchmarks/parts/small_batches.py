"""Prints what small batches cost from fetched bytes to batches for the target. Not a test.

Run: python -m tests.benchmarks.parts.small_batches [records]
Goal: 2.0 µs of CPU per record of a one-record batch, with sending and receiving.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Sequence
from functools import partial

from connect.protocol.batches import BatchHeader, read_headers, stamp_for_produce
from connect.protocol.compiled import native
from connect.protocol.compression import CODEC_NAMES
from connectors.mirror.copy.batches.choice import CopyOptions, read_batches
from connectors.mirror.copy.batches.conversion import Chosen, FetchedRecords, outgoing_batches
from connectors.mirror.copy.memory import FetchBuffer, MemoryBudget
from tests.benchmarks.parts.records import batches_of, event, report

_OPTIONS = CopyOptions()
_STAMPED_BYTES = (700, 5_000, 65_536, 262_144)
_STAMPS = 1_000


def _converted(data: bytearray, read: Callable[[memoryview], Sequence[BatchHeader]]) -> Chosen:
    budget = MemoryBudget(1 << 30)
    view = memoryview(data)
    buffer = FetchBuffer(budget, data)
    return outgoing_batches(
        FetchedRecords(view, read(view), 0, None, 1 << 20, (), _OPTIONS, buffer, budget)
    )


def _merging(view: memoryview) -> Sequence[BatchHeader]:
    return read_batches(view, position=0, end=-1, aborted=(), options=_OPTIONS)


def _stamping(size: int) -> Callable[[], object]:
    batch = memoryview(bytearray(random.Random(1).randbytes(size)))

    def run() -> None:
        for number in range(_STAMPS):
            stamp_for_produce(batch, 1, 2, number)

    return run


def main(count: int) -> None:
    randomness = random.Random(1)
    records = [event(number, randomness) for number in range(count)]
    print("compiled part:", "there" if native else "not built")
    for each in (1, 2, 10):
        for codec, name in enumerate(CODEC_NAMES):
            data = bytearray(b"".join(batches_of(records, each, codec)))
            what = f"{each} in a batch, {name}"
            report(f"{what}, in Python", count, partial(_converted, data, read_headers))
            if native:
                report(f"{what}, compiled", count, partial(_converted, data, _merging))
    for size in _STAMPED_BYTES:
        report(f"stamping a batch of {size} bytes (per batch)", _STAMPS, _stamping(size))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 2_000)
