"""Finds which of an archive's next records are on the target already, as after a killed restore."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator
from contextlib import closing

import pyspark  # noqa: F401 - before its parts
from pyspark.sql import DataFrame

from connect.clients.cluster.cluster_link import ClusterLink
from connect.clients.cluster.partition_reader import PartitionReader
from connect.protocol.messages import TopicPartition
from connect.protocol.record_columns import Columns
from connectors.archive.rows import ArchivedRecords, records_of
from connectors.mirror.compare.batch_runs import NOTHING_EQUAL, BatchRun, EqualBatches, wire_runs
from connectors.mirror.compare.target_tail import Tail, compared
from connectors.spark.arrow import arriving
from connectors.spark.errors import job_errors

__all__ = ["ArchiveTails"]

Rows = Callable[[Collection[tuple[TopicPartition, int, int]]], DataFrame | None]


class ArchiveTails:
    """Compares on the driver: a tail is what one piece wrote. For one thread."""

    def __init__(self, rows: Rows, target: ClusterLink) -> None:
        """`rows`: `ArchiveReader.rows`. `target`: with metadata for the topics."""
        self._rows = rows
        self._target = target

    def look(
        self,
        source: TopicPartition,
        target: TopicPartition,
        span: tuple[int, int],
        target_span: tuple[int, int],
        *,
        timestamps: bool | None,
    ) -> Tail:
        """Compare the target's records of `target_span` with the archive's of `span`, as
        `TailReader.look` does."""
        frame = self._rows([(source, *span)])
        if frame is not None:
            # The target has no more records than offsets, so no more can be equal.
            frame = frame.limit(max(1, target_span[1] - target_span[0]))
        theirs = PartitionReader(self._target, target, *target_span, isolation=1)
        with (
            closing(theirs),
            job_errors("Reading the archive"),
            closing(_runs(frame)) as ours,
        ):
            return compared(
                source,
                target,
                span[0],
                ours,
                wire_runs(theirs, *target_span, committed=True),
                timestamps=timestamps is not False,
            )


def _runs(frame: DataFrame | None) -> Generator[BatchRun, None, None]:
    if frame is None:
        return
    with closing(arriving(frame)) as batches:
        for batch in batches:
            for records in records_of(batch):
                yield _ArchivedRun(records)


class _ArchivedRun:
    """Archived records as one batch, of which the target has no equal one."""

    def __init__(self, records: ArchivedRecords) -> None:
        self._records = records
        self.size = sum(map(len, records.tails))

    def __len__(self) -> int:
        return 1

    def __getitem__(self, index: int) -> _ArchivedRun:
        return self

    def columns(self) -> Columns:
        found = Columns()
        found.offsets = list(self._records.offsets)
        found.timestamps = list(self._records.stamps)
        found.tails = list(self._records.tails)
        return found

    def spans(self, at: int, batches: int) -> list[tuple[int, int]]:
        return []

    def equal_batches(self, at: int, target: BatchRun, target_at: int) -> EqualBatches:
        return NOTHING_EQUAL
