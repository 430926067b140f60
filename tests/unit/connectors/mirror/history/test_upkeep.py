"""Old rows of the history become few, and say the same."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest
from sqlalchemy import create_engine, func, insert, inspect, select
from sqlalchemy.engine import Engine

from connect.config.types import SecretStr
from connectors.mirror.history.queries import flow_series, partition_ranges
from connectors.mirror.history.tables import TABLES, create_tables, prepare
from connectors.mirror.history.upkeep import keep_small

MINUTE_MS, HOUR_MS = 60_000, 3_600_000
DAY_MS = 24 * HOUR_MS
NOW_MS = 1_700_000_000_000 // DAY_MS * DAY_MS
WEEK_MS = 7 * DAY_MS
OF = {"process": "h:1", "connector": "c", "task": 0, "source": "a", "target": "b"}


@pytest.fixture
def url(tmp_path: Path) -> SecretStr:
    return SecretStr(f"sqlite:///{tmp_path / 'h.db'}")


@pytest.fixture
def engine(url: SecretStr) -> Iterator[Engine]:
    opened = create_engine(url.reveal())
    prepare(opened)
    create_tables(opened)
    yield opened
    opened.dispose()


def put(engine: Engine, table: str, rows: list[dict[str, Any]]) -> None:
    with engine.begin() as connection:
        connection.execute(insert(TABLES.tables[table]), [OF | row for row in rows])


def count(engine: Engine, table: str) -> int:
    with engine.connect() as connection:
        return connection.execute(
            select(func.count()).select_from(TABLES.tables[table])
        ).scalar_one()


def sample(at_ms: int, **values: Any) -> dict[str, Any]:
    return {
        "at_ms": at_ms,
        "span_ms": 10_000,
        "partitions": 4,
        "stuck": 0,
        "lag_records": 5,
        "lag_ms": 100,
        "time_to_loss_ms": None,
        "records": 10,
        "bytes": 1_000,
        "latency_ms": 2.0,
        **values,
    }


def copied(at_ms: int, start: int, end: int) -> dict[str, Any]:
    return {
        "at_ms": at_ms,
        "topic": "t",
        "partition": 0,
        "target_topic": "a.t",
        "source_start": start,
        "source_end": end,
        "target_end": end,
        "records": end - start,
        "bytes": 10 * (end - start),
    }


def test_samples_become_minutes_and_hours_and_count_the_same(
    engine: Engine, url: SecretStr
) -> None:
    begin = NOW_MS - 4 * DAY_MS
    rows = [sample(at) for at in range(begin, NOW_MS, 10_000)]
    rows[0]["lag_ms"] = 77_000
    put(engine, "mirror_samples", rows)
    _, before = flow_series(url, "a", "b", begin, NOW_MS, 100)
    keep_small(engine, NOW_MS, WEEK_MS)
    # Two days of hours, 42 hours of five minutes, five of minutes, one as it was written.
    left = 48 + 42 * 12 + 5 * 60 + 360
    assert count(engine, "mirror_samples") == left
    _, after = flow_series(url, "a", "b", begin, NOW_MS, 100)
    assert after == before
    assert after[0]["lag_ms"] == 77_000
    keep_small(engine, NOW_MS, WEEK_MS)
    assert count(engine, "mirror_samples") == left


def test_ranges_that_join_become_one(engine: Engine, url: SecretStr) -> None:
    at = NOW_MS - 5 * HOUR_MS
    whole = [copied(at + n * 10_000, n * 100, n * 100 + 100) for n in range(360)]
    gap = [copied(at + HOUR_MS, 36_000, 36_100), copied(at + HOUR_MS + 1, 36_200, 36_300)]
    put(engine, "mirror_ranges", [*whole, *gap])
    keep_small(engine, NOW_MS, WEEK_MS)
    found = partition_ranges(url, "a", "b", "t", 0, 10)[::-1]
    assert [(row["source_start"], row["source_end"]) for row in found] == [
        (0, 36_000),
        (36_000, 36_100),
        (36_200, 36_300),
    ]
    assert (found[0]["records"], found[0]["bytes"], found[0]["target_end"]) == (
        36_000,
        360_000,
        36_000,
    )


def test_rows_of_partitions_become_ten_minutes_hours_and_days(engine: Engine) -> None:
    begin = NOW_MS - 4 * DAY_MS
    step = 5 * MINUTE_MS
    put(
        engine,
        "mirror_ranges",
        [copied(at, at - begin, at - begin + step) for at in range(begin, NOW_MS, step)],
    )
    left = 2 + 47 + 5 + 2  # days, hours, ten minutes, and the last ten as they were written
    for _ in range(2):
        keep_small(engine, NOW_MS, WEEK_MS)
        assert count(engine, "mirror_ranges") == left


def test_rows_beyond_the_retention_are_deleted(engine: Engine) -> None:
    put(engine, "mirror_samples", [sample(NOW_MS - 8 * DAY_MS), sample(NOW_MS - HOUR_MS)])
    keep_small(engine, NOW_MS, WEEK_MS)
    assert count(engine, "mirror_samples") == 1


def test_the_lag_of_a_flow_adds_up_its_tasks(engine: Engine, url: SecretStr) -> None:
    at = NOW_MS - MINUTE_MS
    put(
        engine,
        "mirror_samples",
        [
            sample(at, lag_records=5, lag_ms=100),
            {**sample(at + 1, lag_records=7, lag_ms=900), "task": 1},
        ],
    )
    step, (row,) = flow_series(url, "a", "b", at, at + 10_000, 1)
    assert step == 10_000
    assert (row["lag_records"], row["lag_ms"], row["records"]) == (12, 900, 2.0)


def test_processes_may_create_the_tables_at_the_same_time(tmp_path: Path) -> None:
    for number in range(10):
        opened = [create_engine(f"sqlite:///{tmp_path}/{number}.db") for _ in range(4)]
        at_once = Barrier(len(opened))

        def create(engine: Engine, at_once: Barrier = at_once) -> set[str]:
            prepare(engine)
            at_once.wait(10)
            create_tables(engine)
            names = set(inspect(engine).get_table_names())
            engine.dispose()
            return names

        with ThreadPoolExecutor(len(opened)) as threads:
            assert all(found == TABLES.tables.keys() for found in threads.map(create, opened))
