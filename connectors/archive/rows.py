"""An archive's records between Kafka's form and Parquet's columns.

Executors import this module, so it must not need packages that they do not have
(`connectors.spark.packages.frame_distributions`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from connect.errors import CorruptData
from connect.protocol.record_codec import encode_tail, tail_fields
from connectors.mirror.compare.batch_runs import WireBatch

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["READ_SCHEMA", "WRITE_SCHEMA", "ArchivedRecords", "RowBuffer", "records_of"]

WRITE_SCHEMA = (
    "offset bigint, timestamp_ms bigint, timestamp_type int, key binary, value binary, "
    "headers array<struct<key: string, value: binary>>, leader_epoch int"
)
"""The columns of a file. `timestamp_ms`: since 1970, -1 without one. `timestamp_type`: 0 by the
producer, 1 by the broker. `leader_epoch`: -1 if not known."""

READ_SCHEMA = f"{WRITE_SCHEMA}, topic string, partition int"
"""The columns of the folder `data`: topic and partition are in the names of its folders."""

_ROWS = 8192
_BYTES = 8 * 1024 * 1024


class RowBuffer:
    """Collects the rows of one Arrow batch."""

    def __init__(self) -> None:
        self._offsets: list[int] = []
        self._stamps: list[int] = []
        self._types: list[int] = []
        self._keys: list[bytes | None] = []
        self._values: list[bytes | None] = []
        self._headers: list[list[dict[str, Any]]] = []
        self._epochs: list[int] = []
        self._bytes = 0

    def add(
        self, batch: WireBatch, offsets: list[int], stamps: list[int], tails: list[bytes]
    ) -> None:
        """Add the records of a batch. Raises CorruptData."""
        for offset, tail in zip(offsets, tails, strict=True):
            key, value, headers = tail_fields(offset, tail)
            self._keys.append(key)
            self._values.append(value)
            self._headers.append(
                [{"key": _utf8(name, offset), "value": content} for name, content in headers]
            )
            self._bytes += len(tail)
        self._offsets += offsets
        self._stamps += stamps
        self._types += [int(batch.append_time)] * len(offsets)
        self._epochs += [batch.leader_epoch] * len(offsets)

    @property
    def full(self) -> bool:
        return len(self._offsets) >= _ROWS or self._bytes >= _BYTES

    def __len__(self) -> int:
        return len(self._offsets)

    def to_arrow(self) -> pa.RecordBatch:
        """Return the rows."""
        import pyarrow as pa

        header = pa.struct([("key", pa.string()), ("value", pa.binary())])
        columns = {
            "offset": pa.array(self._offsets, pa.int64()),
            "timestamp_ms": pa.array(self._stamps, pa.int64()),
            "timestamp_type": pa.array(self._types, pa.int32()),
            "key": pa.array(self._keys, pa.binary()),
            "value": pa.array(self._values, pa.binary()),
            "headers": pa.array(self._headers, pa.list_(header)),
            "leader_epoch": pa.array(self._epochs, pa.int32()),
        }
        return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def _utf8(name: str, offset: int) -> str:
    try:
        name.encode()
    except UnicodeEncodeError:
        raise CorruptData(
            f"the record at offset {offset} has a header whose key is not UTF-8, which Parquet "
            "cannot keep: leave its topic out with --topics"
        ) from None
    return name


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
