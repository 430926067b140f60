"""The data source `kafka_mirror`: the methods that Spark calls, on the driver and on executors.

The driver's Python process plans: it reads the file and cuts the table into slices, which name
topic partitions, offsets or row ids, never rows. Executors read the slices. A reader is sent to
them with the client properties of the flow, secrets included, inside the task; a plan, the UI and
the event log show only the options: table, file and flow.

A streaming read's offsets are those of the Kafka topic or the last row id of the history, so that
Spark's checkpoint makes it exactly once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

import pyspark  # noqa: F401 - before its parts
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
)
from pyspark.sql.types import StructType

from connect.clock import SYSTEM_CLOCK
from connect.errors import ConfigError, ConnectError
from connectors.dataframes.options import FrameFlow, open_flow, table_name
from connectors.dataframes.schemas import SCHEMAS
from connectors.dataframes.tables import GrowingTable, Row, Table
from connectors.dataframes.tables.catalogue import growing_table, table

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["FORMAT", "KafkaMirrorDataSource"]

FORMAT = "kafka_mirror"

_BATCH_ROWS = 10_000
"""Rows of an Arrow batch: Spark's own default."""

_LOOK_S = 1.0
"""How often a streaming query looks for new rows. Spark asks a hundred times a second."""


class KafkaMirrorDataSource(DataSource):
    """One read of one table. Made in a Python process of the driver."""

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> StructType:
        """Return the table's schema. Wrong options fail here, before anything is planned."""
        name, _ = self._opened()
        return SCHEMAS[name].columns

    def reader(self, schema: StructType) -> DataSourceReader:
        name, flow = self._opened()
        return _BatchReader(name, flow, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        name, flow = self._opened()
        if not SCHEMAS[name].stream:
            growing = ", ".join(each for each, table in SCHEMAS.items() if table.stream)
            raise ConfigError(
                f"Table {name} cannot be streamed, because it shows a current state: use "
                "spark.read, or "
                f"stream one of {growing}"
            )
        return _StreamReader(name, flow, schema)

    def _opened(self) -> tuple[str, FrameFlow]:
        name = table_name(self.options)
        return name, open_flow(self.options)


class _BatchReader(DataSourceReader):
    def __init__(self, name: str, flow: FrameFlow, schema: StructType) -> None:
        self._table, self._flow, self._schema = name, flow, schema

    def partitions(self) -> Sequence[InputPartition]:
        # Spark reads one slice where there is none, and wants a list.
        return list(self._read_by.slices(self._flow)) or [_Nothing(None)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if isinstance(partition, _Nothing):
            return iter(())
        return _batches(self._read_by.rows(self._flow, partition), self._schema)

    @property
    def _read_by(self) -> Table:
        return table(self._table)


class _StreamReader(DataSourceStreamReader):
    def __init__(self, name: str, flow: FrameFlow, schema: StructType) -> None:
        self._table, self._flow, self._schema = name, flow, schema
        self._latest: dict[str, int] = {}
        self._look_at = 0.0

    def initialOffset(self) -> dict[str, int]:
        return {}

    def latestOffset(self) -> dict[str, int]:
        now = SYSTEM_CLOCK.monotonic()
        if now >= self._look_at:
            self._latest = self._read_by.end(self._flow)
            self._look_at = now + _LOOK_S
        return self._latest

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[InputPartition]:
        if any(end.get(place, 0) < offset for place, offset in start.items()):
            raise ConnectError(
                f"Table {self._table} of {self._flow.name} ends at {end}, before {start}, where "
                "this query stopped: its topic or history was re-created. Start the query with a "
                "new checkpoint"
            )
        return list(self._read_by.new_slices(self._flow, start, end))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return _batches(self._read_by.new_rows(self._flow, partition), self._schema)

    def commit(self, end: dict[str, int]) -> None:
        """Do nothing: Spark's checkpoint keeps the offsets."""

    def stop(self) -> None:
        """Do nothing: no connection stays open between two calls."""

    @property
    def _read_by(self) -> GrowingTable:
        return growing_table(self._table)


class _Nothing(InputPartition):
    """The only slice of a table without rows."""


def _batches(rows: Iterable[Row], schema: StructType) -> Iterator[pa.RecordBatch]:
    """Yield the rows as Arrow, a batch at a time. Timestamps are microseconds since 1970."""
    import pyarrow as pa
    from pyspark.sql.pandas.types import to_arrow_schema

    wanted = to_arrow_schema(schema)
    left = iter(rows)
    while chunk := list(islice(left, _BATCH_ROWS)):
        columns: Any = [
            pa.array(column, type=kind)
            for column, kind in zip(zip(*chunk, strict=True), wanted.types, strict=True)
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=wanted)
