"""The tables of the history database. Slices are ranges of row ids; executors read the database.

Executors on other hosts cannot read an SQLite file of this one: they raise an error that says so.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyspark  # noqa: F401 - before its parts
from pyspark.sql.datasource import InputPartition

from connect.config.types import SecretStr
from connect.errors import ConfigError
from connectors.dataframes.options import FrameFlow
from connectors.dataframes.tables import Row
from connectors.mirror.config.history_url import is_off
from connectors.mirror.config.loss_policies import URL_KEY
from connectors.mirror.history.database import sqlite_file
from connectors.mirror.history.row_ids import id_bounds, newest_id, rows_between

__all__ = ["HistoryTable"]

_SLICE_ROWS = 50_000
_PLACE = "id"


@dataclass(frozen=True)
class RowIds(InputPartition):
    """Row ids from `start` to before `end`."""

    start: int
    end: int


class HistoryTable:
    def __init__(self, table: str, columns: Sequence[str]) -> None:
        """`table`: its name in the database. `columns`: those of its schema."""
        self._table = table
        self._columns = columns

    def slices(self, flow: FrameFlow) -> Sequence[RowIds]:
        if not _exists(flow.history_url):
            return []
        first, last = id_bounds(flow.history_url, self._table, *flow.aliases)
        return _cut(first, last + 1)

    def rows(self, flow: FrameFlow, piece: RowIds) -> Iterator[Row]:
        if not _exists(flow.history_url):
            raise ConfigError(
                f"The history {sqlite_file(flow.history_url)} is not on the executor's host "
                f"{socket.gethostname()}: set {URL_KEY} to a database that executors reach, for "
                "example PostgreSQL, or read it with spark.master=local[*] on the mirror's host",
                key=URL_KEY,
            )
        for row in rows_between(
            flow.history_url, self._table, *flow.aliases, piece.start, piece.end
        ):
            row["at"] = row["at_ms"] * 1000
            yield tuple(row[column] for column in self._columns)

    def end(self, flow: FrameFlow) -> dict[str, int]:
        if not _exists(flow.history_url):
            return {}
        newest = newest_id(flow.history_url, self._table)
        return {_PLACE: newest} if newest else {}

    def new_slices(
        self, _: FrameFlow, start: Mapping[str, int], end: Mapping[str, int]
    ) -> Sequence[RowIds]:
        return _cut(start.get(_PLACE, 0) + 1, end.get(_PLACE, 0) + 1)

    def new_rows(self, flow: FrameFlow, piece: RowIds) -> Iterator[Row]:
        return self.rows(flow, piece)


def _cut(start: int, end: int) -> list[RowIds]:
    return [RowIds(at, min(at + _SLICE_ROWS, end)) for at in range(start, end, _SLICE_ROWS)]


def _exists(url: SecretStr) -> bool:
    """Whether there may be a history. A missing SQLite file would be created by reading it."""
    file = None if is_off(url) else sqlite_file(url)
    return not is_off(url) and (file is None or file.exists())
