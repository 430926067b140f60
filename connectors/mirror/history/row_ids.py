"""Reads tables of the history by row ids, which ascend: for readers that cut a table into parts,
and for those that follow it. They raise ConfigError if the history cannot be read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sqlalchemy import func, select, text

from connect.config.types import SecretStr
from connectors.mirror.history.database import reading
from connectors.mirror.history.tables import TABLES

__all__ = ["id_bounds", "newest_id", "rows_between"]

_FETCHED = 10_000


def id_bounds(url: SecretStr, name: str, source: str, target: str) -> tuple[int, int]:
    """Return the first and the last id of a flow's rows; (0, -1) if it has none."""
    table = TABLES.tables[name]
    query = select(func.min(table.c.id), func.max(table.c.id)).where(
        table.c.source == source, table.c.target == target
    )
    with reading(url) as connection:
        first, last = connection.execute(query).one()
    return (0, -1) if first is None else (int(first), int(last))


def newest_id(url: SecretStr, name: str) -> int:
    """Return the last id of a table, below which no row will appear any more; 0 for an empty one.

    SQLite has one writer at a time, so ids appear in their order. PostgreSQL gives out ids before
    a transaction ends: the lock waits for those that are writing.
    """
    table = TABLES.tables[name]
    with reading(url) as connection:
        if connection.dialect.name == "postgresql":
            connection.execute(text(f"LOCK TABLE {name} IN SHARE MODE"))
        return int(connection.execute(select(func.max(table.c.id))).scalar() or 0)


def rows_between(
    url: SecretStr, name: str, source: str, target: str, start: int, end: int
) -> Iterator[dict[str, Any]]:
    """Yield a flow's rows with ids from `start` to before `end`, in their order."""
    table = TABLES.tables[name]
    query = (
        select(table)
        .where(
            table.c.source == source,
            table.c.target == target,
            table.c.id >= start,
            table.c.id < end,
        )
        .order_by(table.c.id)
    )
    with reading(url) as connection:
        found = connection.execution_options(yield_per=_FETCHED).execute(query)
        for row in found:
            yield dict(row._mapping)
