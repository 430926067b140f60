"""Keeps the history small: merges old rows, and deletes those beyond the retention.

Rows stay as they were written for ten minutes (ranges and lags of partitions) or an hour (samples
of tasks). Then the rows of a partition or task that fall into the same slot of time become one: ten
minutes of a partition, later an hour and a day; a minute of a task, later five and an hour. Nothing
is lost that a chart or an audit needs: counts are added, the highest lag and the lowest time to
loss stay, and ranges are merged only where they join without a gap or an overlap. Events and jobs
are never merged.

Several processes may write one database. A row of `mirror_upkeep` makes sure that only one of them
merges a slot.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Engine,
    Table,
    bindparam,
    delete,
    exc,
    func,
    insert,
    select,
    update,
)

from connectors.mirror.history.tables import TABLES, delete_before

__all__ = ["DAY_MS", "HOUR_MS", "MINUTE_MS", "keep_small"]

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS


@dataclass(frozen=True, slots=True)
class _Merge:
    """Rows of `table` older than `after_ms` are merged by slots of `slot_ms`.

    `slots`: how many are merged in one transaction, so that no other process waits long.
    """

    name: str
    table: str
    after_ms: int
    slot_ms: int
    slots: int = 1

    @property
    def span_ms(self) -> int:
        """How much is merged in one transaction: whole slots."""
        return self.slot_ms * self.slots


_MERGES = (
    # As the dashboard's charts of an hour, six hours, a day and a week need them.
    _Merge("samples by minutes", "mirror_samples", HOUR_MS, MINUTE_MS, 10),
    _Merge("samples by five minutes", "mirror_samples", 6 * HOUR_MS, 5 * MINUTE_MS, 12),
    _Merge("samples by hours", "mirror_samples", 48 * HOUR_MS, HOUR_MS),
    _Merge("ranges by ten minutes", "mirror_ranges", 10 * MINUTE_MS, 10 * MINUTE_MS),
    _Merge("ranges by hours", "mirror_ranges", HOUR_MS, HOUR_MS),
    _Merge("ranges by days", "mirror_ranges", 48 * HOUR_MS, DAY_MS),
    _Merge("lags by ten minutes", "mirror_lags", 10 * MINUTE_MS, 10 * MINUTE_MS),
    _Merge("lags by hours", "mirror_lags", HOUR_MS, HOUR_MS),
    _Merge("lags by days", "mirror_lags", 48 * HOUR_MS, DAY_MS),
)

_TASK = ("process", "connector", "task", "source", "target")
_PARTITION = ("connector", "source", "target", "topic", "partition", "target_topic")


def keep_small(
    engine: Engine, now_ms: int, retention_ms: int, stopping: Callable[[], bool] = lambda: False
) -> None:
    """Delete and merge what is due, until `stopping`. Raises SQLAlchemy's errors; the next call
    goes on."""
    delete_before(engine, now_ms - retention_ms)
    for merge in _MERGES:
        # Whole slots only: what was merged once is not touched again.
        end = (now_ms - merge.after_ms) // merge.span_ms * merge.span_ms
        start = _begin(engine, merge, end)
        while start is not None and start < end and not stopping():
            with engine.begin() as connection:
                if not _take(connection, merge, start, start + merge.span_ms):
                    break  # another process does it
                _merge(connection, merge, start, start + merge.span_ms)
            start += merge.span_ms


def _begin(engine: Engine, merge: _Merge, end: int) -> int | None:
    """Return from where rows are to be merged; None: nothing is old enough."""
    upkeep, table = TABLES.tables["mirror_upkeep"], TABLES.tables[merge.table]
    with engine.begin() as connection:
        done = connection.execute(
            select(upkeep.c.until_ms).where(upkeep.c.name == merge.name)
        ).scalar()
        oldest = connection.execute(
            select(func.min(table.c.at_ms)).where(table.c.at_ms >= (done or 0))
        ).scalar()
    if oldest is None or oldest >= end:
        return None
    first = oldest // merge.span_ms * merge.span_ms
    if done is None:
        try:
            with engine.begin() as connection:
                connection.execute(insert(upkeep).values(name=merge.name, until_ms=first))
        except exc.IntegrityError:
            return None  # another process begins at the same moment
        return int(first)
    with engine.begin() as connection:
        # Passes over the time without rows.
        connection.execute(
            update(upkeep)
            .where(upkeep.c.name == merge.name, upkeep.c.until_ms == done)
            .values(until_ms=max(done, first))
        )
    return int(max(done, first))


def _take(connection: Connection, merge: _Merge, start: int, end: int) -> bool:
    """Mark this time as merged. Returns False if another process did so before."""
    upkeep = TABLES.tables["mirror_upkeep"]
    taken = connection.execute(
        update(upkeep)
        .where(upkeep.c.name == merge.name, upkeep.c.until_ms == start)
        .values(until_ms=end)
    )
    return taken.rowcount == 1


def _merge(connection: Connection, merge: _Merge, start: int, end: int) -> None:
    table = TABLES.tables[merge.table]
    keys = _PARTITION if "topic" in table.c else _TASK
    slot = table.c.at_ms - table.c.at_ms % merge.slot_ms
    inside = (table.c.at_ms >= start, table.c.at_ms < end)
    grouped = (
        select(
            *(table.c[key] for key in keys),
            func.max(table.c.id).label("last_id"),
            *_merged(table, keys),
        )
        .where(*inside)
        .group_by(*(table.c[key] for key in keys), slot)
        .having(func.count() > 1)
    )
    if "source_start" in table.c:
        length = func.sum(table.c.source_end - table.c.source_start)
        grouped = grouped.having(
            func.max(table.c.source_end) - func.min(table.c.source_start) == length
        )
    found = [dict(row._mapping) for row in connection.execute(grouped)]
    if not found:
        return
    kept = [column for column in found[0] if column not in (*keys, "last_id")]
    same = [table.c[key] == bindparam(f"of_{key}") for key in keys]
    others = delete(table).where(
        *same,
        table.c.at_ms >= bindparam("of_slot"),
        table.c.at_ms < bindparam("of_next"),
        table.c.id != bindparam("of_id"),
    )
    one = update(table).where(table.c.id == bindparam("of_id"))
    slots = [row["at_ms"] - row["at_ms"] % merge.slot_ms for row in found]
    connection.execute(
        others,
        [
            {f"of_{key}": row[key] for key in keys}
            | {"of_slot": at, "of_next": at + merge.slot_ms, "of_id": row["last_id"]}
            for row, at in zip(found, slots, strict=True)
        ],
    )
    connection.execute(
        one.values({column: bindparam(f"new_{column}") for column in kept}),
        [{f"new_{c}": row[c] for c in kept} | {"of_id": row["last_id"]} for row in found],
    )


def _merged(table: Table, keys: tuple[str, ...]) -> list[ColumnElement[Any]]:
    """The value of each column of the merged row. The process and task of the last one stay."""
    rules: dict[str, Any] = {
        "at_ms": func.max,
        "records": func.sum,
        "bytes": func.sum,
        "span_ms": func.sum,
        "source_start": func.min,
        "source_end": func.max,
        "target_end": func.max,
        "lag_records": func.max,
        "lag_ms": func.max,
        "time_to_loss_ms": func.min,
        "latency_ms": func.avg,
        "partitions": func.max,
        "stuck": func.max,
    }
    return [
        rules[column.name](column).label(column.name)
        for column in table.c
        if column.name in rules and column.name not in keys
    ]
