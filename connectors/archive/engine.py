"""Archives pieces as Spark jobs: each range of a piece is one task, whose rows become one staged
Parquet file."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Sequence
from typing import NamedTuple

import pyspark  # noqa: F401 - before its parts
from pyspark.accumulators import _accumulatorRegistry
from pyspark.sql import Observation, SparkSession

from connect.errors import RetriableError
from connectors.archive.files import ArchiveFiles
from connectors.archive.ledger import ArchivedRange, data_file
from connectors.archive.reader import (
    Measure,
    Measures,
    SourceSetup,
    WantedRange,
    range_reader,
)
from connectors.archive.rows import WRITE_SCHEMA
from connectors.archive.store import STAGING
from connectors.archive.unpacking import Unpacking
from connectors.mirror.backfill.scheduler import Chunk
from connectors.spark.arrow import map_batches
from connectors.spark.errors import job_errors

__all__ = ["ArchiveEngine", "StagedPiece", "archive_engine"]

_PART = re.compile(r"part-(\d+)-.*\.parquet")
_ROW_GROUP_BYTES = 32 * 1024 * 1024
"""Spark's default of 128 MB would be held by each task of a small driver."""


class StagedPiece(NamedTuple):
    """The ranges of a piece, and where their files are now, by their final names. `folder`: to be
    deleted once they are moved. `unparsed`: keys and values that no schema unpacks."""

    ranges: Sequence[ArchivedRange]
    staged: dict[str, str]
    folder: str
    unparsed: int


ArchiveEngine = Callable[[Chunk], StagedPiece]
"""An engine: archives a piece, which the caller then commits. Called on several threads at a time.
Raises one of `connect.errors`."""


def archive_engine(
    session: SparkSession, setup: SourceSetup, files: ArchiveFiles, unpacking: Unpacking
) -> ArchiveEngine:
    """Return an engine that reads on this session's executors."""

    def archive(piece: Chunk) -> StagedPiece:
        wanted = [(*each.source, each.start, each.end) for each in piece.ranges]
        folder = f"{STAGING}/{uuid.uuid4().hex}"
        measures, unparsed = _write(session, setup, unpacking, wanted, files.path(folder))
        parts = {
            int(found[1]): f"{folder}/{name}"
            for name in files.names(folder)
            if (found := _PART.fullmatch(name))
        }
        return StagedPiece(*_staged(wanted, measures, parts, files.root), folder, unparsed)

    return archive


def _write(
    session: SparkSession,
    setup: SourceSetup,
    unpacking: Unpacking,
    wanted: list[WantedRange],
    folder: str,
) -> tuple[dict[int, Measure], int]:
    """Write the files of a piece. Returns the measures of its ranges, and how many keys and values
    were not unpacked."""
    context = session.sparkContext
    measures = context.accumulator({}, Measures())
    offsets = sum(end - start for _, _, start, end in wanted)
    with job_errors("The archive"):
        context.setJobDescription(f"Archive, {len(wanted)} partitions, {offsets:,} offsets")
        numbers = session.range(0, len(wanted), 1, len(wanted))
        rows = map_batches(numbers, range_reader(setup, wanted, measures), WRITE_SCHEMA)
        counted = Observation()
        if unpacking:
            rows = unpacking.of(rows)
            rows = rows.observe(counted, unpacking.unparsed().alias("unparsed"))
        rows.write.option("compression", "zstd").option(
            "parquet.block.size", _ROW_GROUP_BYTES
        ).parquet(folder)
        unparsed = int(counted.get["unparsed"]) if unpacking else 0
    # PySpark would keep it for the life of the process, of which there may be a million pieces.
    _accumulatorRegistry.pop(measures.aid, None)
    return measures.value, unparsed


def _staged(
    wanted: list[WantedRange], measures: dict[int, Measure], parts: dict[int, str], root: str
) -> tuple[list[ArchivedRange], dict[str, str]]:
    """Return ranges and files of a piece. Raises `RetriableError` if the driver does not see a
    task's file."""
    ranges: list[ArchivedRange] = []
    staged: dict[str, str] = {}
    for number, (topic, partition, start, end) in enumerate(wanted):
        measure = measures[number]
        name = data_file((topic, partition), start, end) if measure.records else None
        if name is not None:
            if number not in parts:
                raise RetriableError(
                    f"The file of {topic}-{partition} is not in {root}: the executors wrote it to "
                    "a directory of their own machine. Name a directory that the driver and all "
                    "executors share, such as one on HDFS or an object store"
                )
            staged[name] = parts[number]
        ranges.append(
            ArchivedRange(
                topic,
                partition,
                start,
                end,
                measure.records,
                measure.bytes,
                measure.checksum,
                measure.lost,
                name,
            )
        )
    return ranges, staged
