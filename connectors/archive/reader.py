"""The part of an archive that runs on executors: reads ranges of the source, as rows.

Each range is one task, whose rows become one file. Spark may run a task again, because it only
reads. How much a task read comes back by an accumulator, and only from runs that succeeded.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyspark  # noqa: F401 - before its parts
from pyspark.accumulators import Accumulator, AccumulatorParam

from connect.clients.cluster.cluster_link import ClusterLink
from connect.clients.cluster.list_offsets import EARLIEST
from connect.clients.cluster.partition_reader import PartitionReader
from connect.clients.config.properties import wire_settings
from connect.protocol.messages import TopicPartition
from connectors.archive.rows import RowBuffer
from connectors.mirror.compare.batch_runs import wire_runs
from connectors.mirror.compare.record_streams import checksum
from connectors.mirror.inspect.listed_offsets import listed
from connectors.spark.worker_imports import drop_importers

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Measure", "Measures", "SourceSetup", "WantedRange", "range_reader"]

WantedRange = tuple[str, int, int, int]
"""Topic, partition, first offset and end offset (exclusive)."""

_FETCH_BYTES = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class SourceSetup:
    """Java properties of a consumer of the source; they contain secrets, and are sent inside the
    task."""

    consumer: Mapping[str, str] = field(repr=False)
    stall_s: float = 60.0


@dataclass(slots=True)
class Measure:
    """Measures of the records that a task read, with the fields of `ArchivedRange`."""

    records: int = 0
    bytes: int = 0
    checksum: int = 0
    lost: int = 0


class Measures(AccumulatorParam[dict[int, Measure]]):
    """Measures by the number of their range. A later run of the same task replaces the earlier
    one's."""

    def zero(self, value: dict[int, Measure]) -> dict[int, Measure]:
        return {}

    def addInPlace(
        self, value1: dict[int, Measure], value2: dict[int, Measure]
    ) -> dict[int, Measure]:
        value1.update(value2)
        return value1


def range_reader(
    setup: SourceSetup, ranges: Sequence[WantedRange], measures: Accumulator[dict[int, Measure]]
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return a function for `map_batches` that reads the ranges whose numbers it gets."""
    text = json.dumps(ranges)

    def read(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        wanted: list[WantedRange] = json.loads(text)
        try:
            for batch in numbers:
                for number in batch.column(0).to_pylist():
                    measure = Measure()
                    topic, partition, start, end = wanted[number]
                    yield from _rows(setup, (topic, partition), start, end, measure)
                    measures.add({number: measure})
        finally:
            drop_importers()

    return read


def _rows(
    setup: SourceSetup, key: TopicPartition, start: int, end: int, measure: Measure
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a range. If the source has deleted the beginning, yield only the rest."""
    settings = wire_settings(setup.consumer)
    link = ClusterLink(settings, lambda: None, name="archive", topics={key[0]})
    with closing(link):
        first = min(end, max(start, listed(link, [key], EARLIEST, 0)[key]))
        measure.lost = first - start
        reader = PartitionReader(
            link,
            key,
            first,
            end,
            isolation=1,
            fetch_bytes=_FETCH_BYTES,
            stall_s=setup.stall_s,
        )
        with closing(reader):
            buffer = RowBuffer()
            for run in wire_runs(reader, first, end, committed=True):
                for batch in run:
                    columns = batch.columns()
                    tails = [bytes(tail) for tail in columns.tails]
                    buffer.add(batch, columns.offsets, columns.timestamps, tails)
                    measure.records += len(tails)
                    measure.bytes += sum(map(len, tails))
                    if tails:
                        measure.checksum = checksum(
                            columns.timestamps, columns.tails, measure.checksum
                        )
                    if buffer.full:
                        yield buffer.to_arrow()
                        buffer = RowBuffer()
            if len(buffer):
                yield buffer.to_arrow()
