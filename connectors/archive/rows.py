"""An archive's records between Kafka's form and Parquet's columns.

Executors import this module, so it must not need packages that they do not have
(`connectors.spark.packages.frame_distributions`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from connect.protocol.record_codec import encode_tail
from connectors.mirror.compare.batch_runs import WireBatch
from connectors.spark.record_columns import RecordColumns

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "READ_COLUMNS",
    "READ_SCHEMA",
    "WRITE_SCHEMA",
    "ArchivedRecords",
    "RowBuffer",
    "records_of",
]

_COLUMNS: Mapping[str, str] = {
    "offset": "bigint",
    "timestamp_ms": "bigint",
    "timestamp_type": "int",
    "key": "binary",
    "value": "binary",
    "headers": "array<struct<key: string, value: binary>>",
    "leader_epoch": "int",
}
"""The columns of a file, with Spark's types. `timestamp_ms`: since 1970, -1 without one.
`timestamp_type`: 0 by the producer, 1 by the broker. `leader_epoch`: -1 if not known."""

WRITE_SCHEMA = ", ".join(f"{name} {kind}" for name, kind in _COLUMNS.items())

READ_SCHEMA = f"{WRITE_SCHEMA}, topic string, partition int"
"""The columns of the folder `data`: topic and partition are in the names of its folders."""

READ_COLUMNS = (*_COLUMNS, "topic", "partition")


class RowBuffer:
    """Collects the rows of one Arrow batch."""

    def __init__(self) -> None:
        self._columns = RecordColumns("Parquet cannot keep: leave its topic out with --topics")
        self._stamps: list[int] = []
        self._types: list[int] = []
        self._epochs: list[int] = []

    def add(
        self, batch: WireBatch, offsets: list[int], stamps: list[int], tails: list[bytes]
    ) -> None:
        """Add the records of a batch. Raises CorruptData."""
        for offset, tail in zip(offsets, tails, strict=True):
            self._columns.add(offset, tail)
        self._stamps += stamps
        self._types += [int(batch.append_time)] * len(offsets)
        self._epochs += [batch.leader_epoch] * len(offsets)

    @property
    def full(self) -> bool:
        return self._columns.full

    def __len__(self) -> int:
        return len(self._columns)

    def to_arrow(self) -> pa.RecordBatch:
        """Return the rows, with the columns of WRITE_SCHEMA."""
        import pyarrow as pa

        others = {
            "timestamp_ms": pa.array(self._stamps, pa.int64()),
            "timestamp_type": pa.array(self._types, pa.int32()),
            "leader_epoch": pa.array(self._epochs, pa.int32()),
        }
        return self._columns.to_arrow(_COLUMNS, others)


class ArchivedRecords(NamedTuple):
    """Consecutive records of one partition, as columns."""

    topic: str
    partition: int
    offsets: list[int]
    stamps: list[int]
    tails: list[bytes]


def records_of(batch: pa.RecordBatch) -> Iterator[ArchivedRecords]:
    """Yield the records of rows with READ_SCHEMA, by runs of one partition."""
    plain = batch.to_pydict()
    run: ArchivedRecords | None = None
    for topic, partition, offset, stamp, key, value, headers in zip(
        plain["topic"],
        plain["partition"],
        plain["offset"],
        plain["timestamp_ms"],
        plain["key"],
        plain["value"],
        plain["headers"],
        strict=True,
    ):
        if run is None or (run.topic, run.partition) != (topic, partition):
            if run is not None:
                yield run
            run = ArchivedRecords(topic, partition, [], [], [])
        run.offsets.append(offset)
        run.stamps.append(stamp)
        pairs = [(each["key"], each["value"]) for each in headers]
        run.tails.append(encode_tail(key, value, pairs))
    if run is not None:
        yield run
