"""Checks that an archive has the records that its ledger names, by their checksums.

Ranges that are read together are a Spark job of one task. The checksum is that of the records as
they were read from the source, so it also shows that they can be restored byte for byte.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import pyspark  # noqa: F401 - before its parts

from connect.errors import ConnectError
from connect.log_fields import OwnedPool
from connectors.archive.ledger import ArchivedRange
from connectors.archive.restore import ArchiveReader
from connectors.archive.rows import records_of
from connectors.mirror.compare.record_streams import checksum
from connectors.spark.arrow import collect, map_batches
from connectors.spark.errors import job_errors
from connectors.spark.worker_imports import drop_importers

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["VerifiedRange", "verified"]

_FOUND = "start bigint, records bigint, checksum string"


class VerifiedRange(NamedTuple):
    """A range of the ledger. `problem`: how its records differ; None if they do not."""

    range: ArchivedRange
    problem: str | None


def verified(
    reader: ArchiveReader, ranges: Sequence[ArchivedRange], slots: int
) -> Iterator[VerifiedRange]:
    """Yield the result of each range, in their order. `slots`: how many are read at a time."""
    with OwnedPool(slots, thread_name_prefix="verify") as pool:
        try:
            for found in pool.map(partial(_verify, reader), reader.scans(ranges)):
                yield from found
        finally:
            pool.shutdown(cancel_futures=True)


def _verify(reader: ArchiveReader, wanted: Sequence[ArchivedRange]) -> list[VerifiedRange]:
    try:
        with job_errors("Verifying the archive"):
            # Ranges of a partition follow each other.
            rows = reader.rows([(wanted[0].key, wanted[0].start, wanted[-1].end)])
            if rows is None:
                return [VerifiedRange(each, None) for each in wanted]
            work = _measurer([(each.start, each.end) for each in wanted])
            measured = collect(map_batches(rows, work, _FOUND)).to_pylist()
    except ConnectError as error:
        return [VerifiedRange(each, str(error)) for each in wanted]
    found = {each["start"]: each for each in measured}
    return [
        VerifiedRange(
            each,
            _problem(each, found[each.start]["records"], int(found[each.start]["checksum"], 16)),
        )
        for each in wanted
    ]


def _problem(wanted: ArchivedRange, records: int, checked: int) -> str | None:
    if records != wanted.records:
        return f"it has {records} records, and the ledger says {wanted.records}"
    if checked != wanted.checksum:
        return "its records are not those of the ledger: checksums differ"
    return None


def _measurer(
    ranges: Sequence[tuple[int, int]],
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return a function for `map_batches` that counts the rows of each of these ranges of one
    partition, and computes their checksums. It gets them by offset, and runs on executors."""
    text = json.dumps(ranges)

    def measure(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        wanted: list[tuple[int, int]] = json.loads(text)
        counts, sums = [0] * len(wanted), [0] * len(wanted)
        for batch in batches:
            for records in records_of(batch):
                for number, (start, end) in enumerate(wanted):
                    first = bisect_left(records.offsets, start)
                    last = bisect_left(records.offsets, end)
                    if first < last:
                        counts[number] += last - first
                        stamps, tails = records.stamps[first:last], records.tails[first:last]
                        sums[number] = checksum(stamps, list(tails), sums[number])
        drop_importers()
        yield pa.RecordBatch.from_pydict(
            {
                "start": [start for start, _ in wanted],
                "records": counts,
                "checksum": [f"{each:016x}" for each in sums],
            }
        )

    return measure
