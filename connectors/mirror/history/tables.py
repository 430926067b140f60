"""The SQLAlchemy tables of the history."""

from __future__ import annotations

import sqlite3
import time
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    Engine,
    Float,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    delete,
    event,
    func,
    select,
)
from sqlalchemy.schema import CreateIndex, CreateTable

from connect.clock import Deadline

__all__ = ["TABLES", "create_tables", "delete_before", "prepare"]

TABLES = MetaData()

_AT_ONCE = 10_000
_CREATING = 0x6D6D32
"""The number of the lock under which the tables are created: `mm2`."""
_LOCKED_S, _TRY_AGAIN_S = 5.0, 0.02
_CREATES_IF_MISSING = ("sqlite", "postgresql")
"""Databases that know `IF NOT EXISTS` for tables and indexes."""

# SQLite auto-increments only an INTEGER key.
_ID = BigInteger().with_variant(Integer, "sqlite")


def _table(name: str, *columns: Column[Any], indexes: dict[str, tuple[str, ...]]) -> Table:
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
        *columns,
        Index(f"{name}_at", "at_ms"),
        *(Index(f"{name}_{suffix}", *of) for suffix, of in indexes.items()),
    )


def _partition() -> tuple[Column[Any], ...]:
    return (
        Column("topic", String(249), nullable=False),
        Column("partition", Integer, nullable=False),
        Column("target_topic", String(510), nullable=False),
    )


_BY_FLOW = ("source", "target", "at_ms")
_BY_PARTITION = ("topic", "partition", "at_ms")

_table(
    "mirror_events",
    *_partition(),
    Column("kind", String(64), nullable=False),
    Column("action", String(64), nullable=False),
    Column("side", String(16)),
    Column("first", BigInteger),
    Column("last", BigInteger),
    Column("records", BigInteger, nullable=False),
    Column("resume", BigInteger),
    Column("text", Text, nullable=False),
    indexes={"flow": _BY_FLOW, "partition": _BY_PARTITION},
)
_table(
    "mirror_ranges",
    *_partition(),
    Column("source_start", BigInteger, nullable=False),
    Column("source_end", BigInteger, nullable=False),
    Column("target_end", BigInteger),
    Column("records", BigInteger, nullable=False),
    Column("bytes", BigInteger, nullable=False),
    indexes={"partition": _BY_PARTITION},
)
_table(
    "mirror_lags",
    *_partition(),
    Column("lag_records", BigInteger),
    Column("lag_ms", BigInteger),
    Column("time_to_loss_ms", BigInteger),
    indexes={"partition": _BY_PARTITION},
)
_table(
    "mirror_samples",
    Column("span_ms", BigInteger, nullable=False),
    Column("partitions", Integer, nullable=False),
    Column("stuck", Integer, nullable=False),
    Column("lag_records", BigInteger, nullable=False),
    Column("lag_ms", BigInteger),
    Column("time_to_loss_ms", BigInteger),
    Column("records", BigInteger, nullable=False),
    Column("bytes", BigInteger, nullable=False),
    Column("latency_ms", Float),
    indexes={"flow": _BY_FLOW},
)
_table(
    "mirror_jobs",
    Column("job", String(64), nullable=False),
    Column("kind", String(16), nullable=False),
    Column("state", String(16), nullable=False),
    Column("began_ms", BigInteger, nullable=False),
    Column("parts", Integer, nullable=False),
    Column("done", Integer, nullable=False),
    Column("failed", Integer, nullable=False),
    Column("records", BigInteger, nullable=False),
    Column("bytes", BigInteger, nullable=False),
    Column("left_bytes", BigInteger, nullable=False),
    Column("rate", Float, nullable=False),
    Column("left_ms", BigInteger),
    Column("text", Text, nullable=False),
    indexes={"flow": _BY_FLOW},
)
Table(
    "mirror_audit",
    TABLES,
    Column("id", _ID, primary_key=True, autoincrement=True),
    Column("at_ms", BigInteger, nullable=False),
    Column("process", String(255), nullable=False),
    Column("user", String(255), nullable=False),
    Column("address", String(64), nullable=False),
    Column("method", String(16), nullable=False),
    Column("path", String(500), nullable=False),
    Column("status", Integer, nullable=False),
    Index("mirror_audit_at", "at_ms"),
)
# How far rows have been merged (`upkeep`), by the name of the step; one process at a time does it.
Table(
    "mirror_upkeep",
    TABLES,
    Column("name", String(64), primary_key=True),
    Column("until_ms", BigInteger, nullable=False),
)


def create_tables(engine: Engine) -> None:
    """Create what is missing: also indexes of tables that an earlier release made. Several
    processes may do so at once."""
    if engine.dialect.name not in _CREATES_IF_MISSING:
        TABLES.create_all(engine)
        for index in (each for table in TABLES.tables.values() for each in table.indexes):
            index.create(engine, checkfirst=True)
        return
    for table in TABLES.tables.values():
        with engine.begin() as connection:
            if engine.dialect.name == "postgresql":
                # Two that find it missing at the same time would both create it.
                connection.execute(select(func.pg_advisory_xact_lock(_CREATING)))
            connection.execute(CreateTable(table, if_not_exists=True))
            for index in table.indexes:
                connection.execute(CreateIndex(index, if_not_exists=True))


def prepare(engine: Engine) -> None:
    """Let several processes share an SQLite file, so that readers never wait for writers."""
    if engine.dialect.name != "sqlite":
        return

    @event.listens_for(engine, "connect")
    def _on_connect(connection: Any, _: Any) -> None:
        cursor = connection.cursor()
        _log_ahead(cursor)
        cursor.execute("PRAGMA synchronous=NORMAL")
        cursor.close()


def _log_ahead(cursor: sqlite3.Cursor) -> None:
    """Set the file's journal mode. Elsewhere SQLite waits for other connections, here it fails."""
    deadline = Deadline(_LOCKED_S)
    while True:
        try:
            cursor.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError:
            if deadline.expired():
                raise
        time.sleep(_TRY_AGAIN_S)


def delete_before(engine: Engine, at_ms: int) -> None:
    """Delete rows before `at_ms` in small steps, so that other processes do not wait long for the
    file."""
    for table in TABLES.tables.values():
        if "at_ms" not in table.c:
            continue
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
