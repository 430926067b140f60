"""The history in PostgreSQL: rows are merged there, and the dashboard's questions answered."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import Any

from sqlalchemy import URL, create_engine, func, insert, select, text

from connect.config.types import SecretStr
from connectors.mirror.history import queries
from connectors.mirror.history.database import open_history
from connectors.mirror.history.row_ids import newest_id, rows_between
from connectors.mirror.history.rows import EventRow, FlowTask, JobRow
from connectors.mirror.history.tables import TABLES, create_tables
from connectors.mirror.history.upkeep import keep_small
from tests.support.waiting import wait_until

HOUR_MS = 3_600_000
NOW_MS = 1_700_000_000_000 // HOUR_MS * HOUR_MS
OF = {"process": "h:1", "connector": "c", "task": 0, "source": "a", "target": "b"}


def samples() -> list[dict[str, Any]]:
    return [
        OF
        | {
            "at_ms": at,
            "span_ms": 10_000,
            "partitions": 4,
            "stuck": 0,
            "lag_records": 5,
            "lag_ms": 100,
            "time_to_loss_ms": None,
            "records": 10,
            "bytes": 1_000,
            "latency_ms": 2.0,
        }
        for at in range(NOW_MS - 4 * HOUR_MS, NOW_MS, 10_000)
    ]


def ranges() -> list[dict[str, Any]]:
    at = NOW_MS - 3 * HOUR_MS
    return [
        OF
        | {
            "at_ms": at + n * 10_000,
            "topic": "t",
            "partition": 0,
            "target_topic": "a.t",
            "source_start": 100 * n,
            "source_end": 100 * n + 100,
            "target_end": 100 * n + 100,
            "records": 100,
            "bytes": 1_000,
        }
        for n in range(360)
    ]


def test_rows_are_merged_and_read(postgresql: SecretStr) -> None:
    engine = create_engine(postgresql.reveal())
    try:
        create_tables(engine)
        with engine.begin() as connection:
            connection.execute(insert(TABLES.tables["mirror_samples"]), samples())
            connection.execute(insert(TABLES.tables["mirror_ranges"]), ranges())
        begin = NOW_MS - 4 * HOUR_MS
        _, before = queries.flow_series(postgresql, "a", "b", begin, NOW_MS, 16)
        keep_small(engine, NOW_MS, 7 * 24 * HOUR_MS)
        _, after = queries.flow_series(postgresql, "a", "b", begin, NOW_MS, 16)
        with engine.connect() as connection:
            table = TABLES.tables["mirror_samples"]
            left = connection.execute(select(func.count()).select_from(table)).scalar_one()
    finally:
        engine.dispose()
    assert after == before
    assert len(after) == 16
    assert left == 3 * 60 + 360
    (whole,) = queries.partition_ranges(postgresql, "a", "b", "t", 0, 10)
    assert (whole["source_start"], whole["source_end"], whole["records"]) == (0, 36_000, 36_000)
    rates = queries.flow_rates(postgresql, "a", "b", NOW_MS - 60_000)
    assert rates is not None
    assert (rates["records"], rates["bytes"]) == (1.0, 100.0)


def test_events_and_jobs_are_written_and_read(postgresql: SecretStr) -> None:
    written = open_history(postgresql, 7)
    assert written is not None
    flow = FlowTask("backfill", 0, "c", "d")
    for state, done in (("running", 1), ("done", 2)):
        written.add(
            flow,
            JobRow(
                job="one",
                kind="backfill",
                state=state,
                began_ms=NOW_MS,
                parts=2,
                done=done,
                records=9,
                bytes=90,
                rate=1.5,
                text="",
            ),
        )
    written.add(flow, EventRow("retention", "t", 3, "c.t", "", "source", 1, 2, 2, 3, "lost"))
    written.close()
    (job,) = queries.flow_jobs(postgresql, "c", "d", 10)
    assert (job["state"], job["done"]) == ("done", 2)
    (event,) = queries.flow_events(postgresql, "c", "d", 0, 10, ("t", 3))
    assert event["text"] == "lost"


def test_processes_that_start_at_the_same_time_create_the_tables_once(
    postgresql: SecretStr,
) -> None:
    together = Barrier(4)

    def create(url: URL) -> None:
        engine = create_engine(url)
        try:
            together.wait(10)
            create_tables(engine)
        finally:
            engine.dispose()

    server = create_engine(postgresql.reveal(), isolation_level="AUTOCOMMIT")
    try:
        for name in ("first", "second", "third"):
            with server.connect() as connection:
                connection.execute(text(f"CREATE DATABASE {name}"))
            with ThreadPoolExecutor(4) as threads:
                made = [threads.submit(create, server.url.set(database=name)) for _ in range(4)]
            for each in made:
                each.result()
    finally:
        server.dispose()


def test_a_reader_that_follows_row_ids_misses_no_row_that_is_being_written(
    postgresql: SecretStr,
) -> None:
    """The row with the lower id is written by a transaction that ends later."""
    table = TABLES.tables["mirror_events"]
    row = OF | {"topic": "t", "partition": 0, "target_topic": "a.t", "kind": "k", "action": "a"}
    row |= {"at_ms": NOW_MS, "records": 1, "text": "", "source": "followed"}
    waiting = text("SELECT count(*) FROM pg_locks WHERE NOT granted")
    engine = create_engine(postgresql.reveal())
    try:
        create_tables(engine)
        with ThreadPoolExecutor(1) as thread, engine.connect() as slow:
            slow.execute(insert(table), [row])
            with engine.begin() as quick:
                quick.execute(insert(table), [row])
            newest = thread.submit(newest_id, postgresql, "mirror_events")
            with engine.connect() as looking:
                wait_until(lambda: looking.execute(waiting).scalar(), 10, "the reader waits")
            slow.commit()
            end = newest.result(10) + 1
    finally:
        engine.dispose()
    found = list(rows_between(postgresql, "mirror_events", "followed", "b", 0, end))
    assert len(found) == 2
