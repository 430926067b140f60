"""Queries of the dashboard to a flow's history. Each function is one short read of a few thousand
rows at most, from any thread. They raise ConfigError if the history cannot be read, and return
nothing if there is no history."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Float, Select, and_, cast, func, select

from connect.config.types import SecretStr
from connectors.mirror.config.losses import LossKind
from connectors.mirror.history.database import read, there_is
from connectors.mirror.history.tables import TABLES

__all__ = [
    "flow_events",
    "flow_jobs",
    "flow_losses",
    "flow_rates",
    "flow_series",
    "partition_lags",
    "partition_ranges",
]

_LEAST_STEP_MS = 10_000
_MOST_LOSSES = 500

Row = dict[str, Any]


def flow_series(
    url: SecretStr, source: str, target: str, start_ms: int, end_ms: int, points: int
) -> tuple[int, list[Row]]:
    """Return the width of a step in ms, and a row per step that has samples: `at_ms` (its start),
    records and bytes per second, latency_ms, lag_records, lag_ms, time_to_loss_ms, stuck.

    Each task's newest lag in a step counts; lags of tasks are added, ages and losses compared.
    """
    step = max(_LEAST_STEP_MS, -(-(end_ms - start_ms) // points))
    # Steps of whole minutes or hours hold whole merged rows.
    for unit in (60_000, 3_600_000):
        if step > unit // 2:
            step = -(-step // unit) * unit
    if not there_is(url):
        return step, []
    samples = TABLES.tables["mirror_samples"].c
    at = (samples.at_ms - samples.at_ms % step).label("at_ms")
    by_task = (
        select(
            at,
            func.sum(samples.records).label("records"),
            func.sum(samples.bytes).label("bytes"),
            func.avg(samples.latency_ms).label("latency_ms"),
            func.max(samples.lag_records).label("lag_records"),
            func.max(samples.lag_ms).label("lag_ms"),
            func.min(samples.time_to_loss_ms).label("time_to_loss_ms"),
            func.max(samples.stuck).label("stuck"),
        )
        .where(
            samples.source == source,
            samples.target == target,
            samples.at_ms >= start_ms,
            samples.at_ms < end_ms,
        )
        .group_by(at, samples.process, samples.connector, samples.task)
        .subquery()
    ).c
    whole = (
        select(
            by_task.at_ms,
            cast(func.sum(by_task.records), Float).label("records"),
            cast(func.sum(by_task.bytes), Float).label("bytes"),
            func.avg(by_task.latency_ms).label("latency_ms"),
            func.sum(by_task.lag_records).label("lag_records"),
            func.max(by_task.lag_ms).label("lag_ms"),
            func.min(by_task.time_to_loss_ms).label("time_to_loss_ms"),
            func.sum(by_task.stuck).label("stuck"),
        )
        .group_by(by_task.at_ms)
        .order_by(by_task.at_ms)
    )
    rows = read(url, whole)
    for row in rows:
        # The first and the last step may be cut.
        width = min(row["at_ms"] + step, end_ms) - max(row["at_ms"], start_ms)
        for name in ("records", "bytes"):
            row[name] = row[name] * 1000 / max(1, width)
    return step, rows


def flow_rates(url: SecretStr, source: str, target: str, since_ms: int) -> Row | None:
    """Return records and bytes per second and the mean latency of a flow since this time: the sum
    of its tasks. None if there is no sample."""
    if not there_is(url):
        return None
    samples = TABLES.tables["mirror_samples"].c
    by_task = (
        select(
            (cast(func.sum(samples.records), Float) * 1000 / func.sum(samples.span_ms)).label("r"),
            (cast(func.sum(samples.bytes), Float) * 1000 / func.sum(samples.span_ms)).label("b"),
            func.avg(samples.latency_ms).label("latency_ms"),
        )
        .where(
            samples.source == source,
            samples.target == target,
            samples.at_ms >= since_ms,
            samples.span_ms > 0,
        )
        .group_by(samples.process, samples.connector, samples.task)
        .subquery()
    ).c
    whole = select(
        func.sum(by_task.r).label("records"),
        func.sum(by_task.b).label("bytes"),
        func.avg(by_task.latency_ms).label("latency_ms"),
    )
    (found,) = read(url, whole)
    return None if found["records"] is None else found


def flow_events(
    url: SecretStr,
    source: str,
    target: str,
    start_ms: int,
    limit: int,
    partition: tuple[str, int] | None = None,
) -> list[Row]:
    """Return the flow's newest events, newest first; with `partition` only those of this one."""
    table = TABLES.tables["mirror_events"]
    where = [table.c.source == source, table.c.target == target, table.c.at_ms >= start_ms]
    if partition is not None:
        where += [table.c.topic == partition[0], table.c.partition == partition[1]]
    return _newest(url, select(table).where(*where), "mirror_events", limit)


def flow_losses(
    url: SecretStr, source: str, target: str, start_ms: int, topic: str | None = None
) -> list[Row]:
    """Return the flow's newest losses, newest first; with `topic` only those of this one."""
    table = TABLES.tables["mirror_events"]
    where = [table.c.source == source, table.c.target == target, table.c.at_ms >= start_ms]
    where.append(table.c.kind.in_([kind.value for kind in LossKind]))
    if topic is not None:
        where.append(table.c.topic == topic)
    return _newest(url, select(table).where(*where), "mirror_events", _MOST_LOSSES)


def partition_ranges(
    url: SecretStr, source: str, target: str, topic: str, partition: int, limit: int
) -> list[Row]:
    """Return the last copied ranges of a partition, newest first."""
    return _of_partition(url, "mirror_ranges", (source, target, topic, partition), 0, limit)


def partition_lags(
    url: SecretStr, source: str, target: str, topic: str, partition: int, start_ms: int, limit: int
) -> list[Row]:
    """Return the newest lag samples of a partition, newest first. While it is caught up, it has
    none."""
    return _of_partition(url, "mirror_lags", (source, target, topic, partition), start_ms, limit)


def _of_partition(
    url: SecretStr, name: str, of: tuple[str, str, str, int], start_ms: int, limit: int
) -> list[Row]:
    table = TABLES.tables[name]
    where = (
        table.c.source == of[0],
        table.c.target == of[1],
        table.c.topic == of[2],
        table.c.partition == of[3],
        table.c.at_ms >= start_ms,
    )
    return _newest(url, select(table).where(*where), name, limit)


def _newest(url: SecretStr, query: Select[Any], name: str, limit: int) -> list[Row]:
    table = TABLES.tables[name]
    newest = query.order_by(table.c.at_ms.desc(), table.c.id.desc()).limit(limit)
    return read(url, newest) if there_is(url) else []


def flow_jobs(url: SecretStr, source: str, target: str, limit: int) -> Sequence[Row]:
    """Return the last row of each of the newest jobs (backfills, archives, ...), newest first."""
    if not there_is(url):
        return []
    table = TABLES.tables["mirror_jobs"]
    last = (
        select(table.c.job, func.max(table.c.id).label("id"))
        .where(table.c.source == source, table.c.target == target)
        .group_by(table.c.job)
        .subquery()
    )
    newest = select(table).join(last, and_(table.c.id == last.c.id)).order_by(table.c.id.desc())
    return read(url, newest.limit(limit))
