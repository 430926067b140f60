"""The interface that the data source expects of its tables.

Slices are planned in a Python process of the driver and read on executors. They say where rows are:
topic partitions, offsets, row ids. Rows are tuples in the order of the schema, timestamps in
microseconds since 1970.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

import pyspark  # noqa: F401 - before its parts
from pyspark.sql.datasource import InputPartition

from connectors.dataframes.options import FrameFlow

__all__ = ["GrowingTable", "Row", "Table"]

Row = tuple[Any, ...]


class Table(Protocol):
    """A table. Methods raise `ConnectError`."""

    def slices(self, flow: FrameFlow) -> Sequence[InputPartition]:
        """Cut the table as it is now; empty if it has no rows. On the driver."""

    def rows(self, flow: FrameFlow, piece: Any) -> Iterable[Row]:
        """Read a slice. On an executor."""


class GrowingTable(Table, Protocol):
    """A table that a streaming query can follow. Ends and starts are offsets by place; a place that
    is not named starts at 0."""

    def end(self, flow: FrameFlow) -> dict[str, int]:
        """Return where the table ends now. Rows before it stay as they are. On the driver."""

    def new_slices(
        self, flow: FrameFlow, start: Mapping[str, int], end: Mapping[str, int]
    ) -> Sequence[InputPartition]:
        """Cut what was added between two ends. On the driver."""

    def new_rows(self, flow: FrameFlow, piece: Any) -> Iterable[Row]:
        """Read a slice of `new_slices`. On an executor."""
