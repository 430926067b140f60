"""The SQLAlchemy tables of the history."""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    delete,
    event,
    select,
)
from sqlalchemy.engine import Engine

__all__ = ["TABLES", "delete_before", "prepare"]

TABLES = MetaData()

_AT_ONCE = 10_000

# SQLite auto-increments only an INTEGER key.
_ID = BigInteger().with_variant(Integer, "sqlite")


def _table(name: str, *columns: Column[Any]) -> Table:
    return Table(
        name,
        TABLES,
        Column("id", _ID, primary_key=True, autoincrement=True),
        Column("at_ms", BigInteger, nullable=False),
        Column("process", String(255), nullable=False),
        Column("connector", String(255), nullable=False),
        Column("task", Integer, nullable=False),
        Column("source", String(255), nullable=False),
        Column("target", String(255), nullable=False),
        Column("topic", String(249), nullable=False),
        Column("partition", Integer, nullable=False),
        Column("target_topic", String(510), nullable=False),
        *columns,
        Index(f"{name}_at", "at_ms"),
    )


_table(
    "mirror_events",
    Column("kind", String(64), nullable=False),
    Column("action", String(64), nullable=False),
    Column("side", String(16)),
    Column("first", BigInteger),
    Column("last", BigInteger),
    Column("records", BigInteger, nullable=False),
    Column("resume", BigInteger),
    Column("text", Text, nullable=False),
)
_table(
    "mirror_ranges",
    Column("source_start", BigInteger, nullable=False),
    Column("source_end", BigInteger, nullable=False),
    Column("target_end", BigInteger),
    Column("records", BigInteger, nullable=False),
    Column("bytes", BigInteger, nullable=False),
)
_table(
    "mirror_lags",
    Column("lag_records", BigInteger),
    Column("lag_ms", BigInteger),
    Column("time_to_loss_ms", BigInteger),
)


def prepare(engine: Engine) -> None:
    """Let several processes share an SQLite file, so that readers never wait for writers."""
    if engine.dialect.name != "sqlite":
        return

    @event.listens_for(engine, "connect")
    def _on_connect(connection: Any, _: Any) -> None:
        cursor = connection.cursor()
        cursor.execute("PRAGMA journal_mode=WAL")
        cursor.execute("PRAGMA synchronous=NORMAL")
        cursor.close()


def delete_before(engine: Engine, at_ms: int) -> None:
    """Delete rows before `at_ms` in small steps, so that other processes do not wait long for the
    file."""
    for table in TABLES.tables.values():
        old = select(table.c.id).where(table.c.at_ms < at_ms).limit(_AT_ONCE)
        while True:
            with engine.begin() as connection:
                ids = list(connection.execute(old).scalars())
                if ids:
                    newest = max(ids)
                    connection.execute(
                        delete(table).where(table.c.at_ms < at_ms, table.c.id <= newest)
                    )
            if len(ids) < _AT_ONCE:
                break
