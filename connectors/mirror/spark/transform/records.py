"""The records of a shard as rows, which `mirror.transform` gets, and the rows that it returned.

Executors import this module, so PyArrow is imported by the functions that need it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from connect.errors import DataError
from connect.plugin import RawRecord
from connect.protocol.messages import TopicPartition
from connectors.mirror.copy.batches.transformed import ChangeRecord
from connectors.mirror.copy.range_copier import SourceRange
from connectors.spark.record_columns import RecordColumns

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["COLUMNS", "IDENTITY", "RECORDS_SCHEMA", "RecordRows", "TransformedRows", "not_known"]

COLUMNS: Mapping[str, str] = {
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "key": "binary",
    "value": "binary",
    "headers": "array<struct<key:string,value:binary>>",
}
"""The columns of the records, with Spark's types. `topic`, `partition` and `offset` are the
source's. `timestamp` is null if the record has none that Spark can represent."""

IDENTITY = ("topic", "partition", "offset")
"""The columns that say which record a row is."""

RECORDS_SCHEMA = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())

_US = 1000
_LATEST_MS = (1 << 63) // _US - 1


class RecordRows:
    """Collects the rows of one Arrow batch, of one partition."""

    def __init__(self, key: TopicPartition) -> None:
        self._key = key
        self._columns = RecordColumns(
            "Spark cannot represent: leave its topic out of mirror.transform.topics"
        )
        self._times: list[int | None] = []

    def add(self, offset: int, timestamp_ms: int, tail: bytes) -> None:
        """Add a record. `tail`: its bytes from the key's length on. Raises CorruptData."""
        self._columns.add(offset, tail)
        known = 0 <= timestamp_ms <= _LATEST_MS
        self._times.append(timestamp_ms * _US if known else None)

    def __len__(self) -> int:
        return len(self._columns)

    @property
    def full(self) -> bool:
        return self._columns.full

    def to_arrow(self) -> pa.RecordBatch:
        """Return the rows, with the columns of RECORDS_SCHEMA."""
        import pyarrow as pa

        topic, partition = self._key
        others = {
            "topic": pa.array([topic] * len(self), pa.string()),
            "partition": pa.array([partition] * len(self), pa.int32()),
            "timestamp": pa.array(self._times, pa.timestamp("us", tz="UTC")),
        }
        return self._columns.to_arrow(COLUMNS, others)


class TransformedRows:
    """The rows that `mirror.transform` returned for the records of a shard, by partition and source
    offset.

    A record without a row is left out. Columns that it does not return stay as they are in the
    record, and so does a timestamp that is null.
    """

    def __init__(self, ranges: Iterable[SourceRange]) -> None:
        self._ranges = {each.source: each for each in ranges}
        self._rows: dict[TopicPartition, dict[int, _Row]] = {key: {} for key in self._ranges}

    def take(self, batch: pa.RecordBatch) -> None:
        """Add rows, in any order. Raises `DataError` for a row that is no record of the shard."""
        columns = batch.to_pydict()
        count = batch.num_rows
        given = [name for name in COLUMNS if name in columns and name not in IDENTITY]
        make = partial(_Row, frozenset(given))
        if "timestamp" in columns:
            import pyarrow as pa

            columns["timestamp"] = batch.column("timestamp").cast(pa.int64()).to_pylist()
        parts = [columns.get(name, [None] * count) for name in COLUMNS]
        for topic, partition, offset, *rest in zip(*parts, strict=True):
            self._add((topic, partition), offset, make(*rest))

    def _add(self, key: TopicPartition, offset: int | None, row: _Row) -> None:
        wanted = self._ranges.get(key)
        if wanted is None or offset is None or not wanted.start <= offset < wanted.end:
            raise DataError(
                f"mirror.transform returned a row with topic {key[0]}, partition {key[1]} and "
                f"offset {offset}, but it got no such record: it must return these three "
                "columns unchanged"
            )
        rows = self._rows[key]
        if offset in rows:
            row = row.twice()
        rows[offset] = row

    def changes(self) -> dict[TopicPartition, ChangeRecord]:
        """Return the transformation of each partition of the shard."""
        return {key: partial(_change, key, rows) for key, rows in self._rows.items()}


class _Row:
    """One row. `given`: the columns that it has."""

    __slots__ = ("again", "given", "headers", "key", "time_us", "value")

    def __init__(
        self,
        given: frozenset[str],
        time_us: int | None,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[Mapping[str, Any]] | None,
    ) -> None:
        self.given = given
        self.time_us = time_us
        self.key = key
        self.value = value
        self.headers = headers
        self.again = False

    def twice(self) -> _Row:
        """Return this row, marked as one of several rows of its record."""
        self.again = True
        return self

    def applied(self, record: RawRecord) -> RawRecord:
        given, time_us = self.given, self.time_us
        return RawRecord(
            record.timestamp_ms if time_us is None else time_us // _US,
            self.key if "key" in given else record.key,
            self.value if "value" in given else record.value,
            _pairs(self.headers) if "headers" in given else record.headers,
        )


def _pairs(headers: Sequence[Mapping[str, Any]] | None) -> tuple[tuple[str, bytes | None], ...]:
    return tuple((each["key"], each["value"]) for each in headers or ())


def _change(
    key: TopicPartition, rows: Mapping[int, _Row], offset: int, record: RawRecord
) -> RawRecord | None:
    row = rows.get(offset)
    if row is None:
        return None
    if row.again:
        raise DataError(
            f"mirror.transform returned more than one row for offset {offset} of {key[0]}-{key[1]}:"
            " it must return at most one for each record (look at joins and explode)"
        )
    if any(each is None or each["key"] is None for each in row.headers or ()):
        raise DataError(
            f"mirror.transform returned a header without a key for offset {offset} of "
            f"{key[0]}-{key[1]}"
        )
    return row.applied(record)


def not_known(key: TopicPartition) -> Callable[[int, RawRecord], RawRecord | None]:
    """Return a stand-in for the transformation of a partition whose source seemed to have no
    records: it fails for records that came meanwhile, which the next shard transforms."""

    def change(offset: int, record: RawRecord) -> RawRecord | None:
        raise DataError(
            f"the record at offset {offset} of {key[0]}-{key[1]} is new; the next shard gets it"
        )

    return change
