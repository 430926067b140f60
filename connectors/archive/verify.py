"""Checks that the files of an archive have the records that its ledger names, by their checksums.

Each range is a Spark job of one task. The checksum is that of the records as they were read from
the source, so it also shows that they can be restored byte for byte.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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

_FOUND = "records bigint, checksum string"


class VerifiedRange(NamedTuple):
    """A range of the ledger. `problem`: how its file differs; None if it does not."""

    range: ArchivedRange
    problem: str | None


def verified(
    reader: ArchiveReader, ranges: Sequence[ArchivedRange], slots: int
) -> Iterator[VerifiedRange]:
    """Yield the result of each range, in their order. `slots`: how many are read at a time."""
    with OwnedPool(slots, thread_name_prefix="verify") as pool:
        try:
            yield from pool.map(partial(_verify, reader), ranges)
        finally:
            pool.shutdown(cancel_futures=True)


def _verify(reader: ArchiveReader, wanted: ArchivedRange) -> VerifiedRange:
    try:
        with job_errors("Verifying the archive"):
            rows = reader.rows([(wanted.key, wanted.start, wanted.end)])
            if rows is None:
                return VerifiedRange(wanted, None)
            (found,) = collect(map_batches(rows, _measured, _FOUND)).to_pylist()
    except ConnectError as error:
        return VerifiedRange(wanted, str(error))
    if found["records"] != wanted.records:
        problem = f"it has {found['records']} records, and the ledger says {wanted.records}"
        return VerifiedRange(wanted, problem)
    if int(found["checksum"], 16) != wanted.checksum:
        return VerifiedRange(wanted, "its records are not those of the ledger: checksums differ")
    return VerifiedRange(wanted, None)


def _measured(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Count the rows of one range, and compute their checksum. Runs on executors."""
    import pyarrow as pa

    count, mixed = 0, 0
    for batch in batches:
        for records in records_of(batch):
            count += len(records.offsets)
            mixed = checksum(records.stamps, list(records.tails), mixed)
    drop_importers()
    yield pa.RecordBatch.from_pydict({"records": [count], "checksum": [f"{mixed:016x}"]})
