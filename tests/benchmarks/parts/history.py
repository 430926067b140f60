"""Prints how large the history of many busy partitions is after a week, how long its upkeep holds
the database, and how long the dashboard's questions about 24 hours take, by themselves and over
HTTP. No brokers.

    python -m tests.benchmarks.parts.history [partitions] [tasks] [url]

`url`: that of an empty database; `postgresql`: a PostgreSQL server that is started for this;
without one: an SQLite file.

The week is written as upkeep leaves it: rows by days, hours and ten minutes. The last hour is
written row by row, with the real upkeep at its real interval. Every partition moves and lags all
the time: no flow has more rows.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, create_engine, event, func, insert, select, update

from api.rest.server import RestServer
from connect.cache_directory import cache_directory
from connect.config.types import SecretStr
from connect.metrics.registry import MetricRegistry
from connectors.mirror.history import queries
from connectors.mirror.history.database import UPKEEP_EVERY_S
from connectors.mirror.history.recorder import SAMPLE_EVERY_S, rows_every_s
from connectors.mirror.history.tables import TABLES, create_tables, prepare
from connectors.mirror.history.upkeep import DAY_MS, HOUR_MS, MINUTE_MS, keep_small
from deploy.brokers.ports import PortLease
from tests.support.deployment.postgres import find_postgres, running_postgres
from tests.support.rest import call
from tests.support.ui.dashboard_group import DashboardHerder, Flow, partitions

PARTITIONS, TASKS = 10_000, 10
DAYS = 7
NOW_MS = 1_700_000_000_000 // DAY_MS * DAY_MS
FLOW = ("east", "west")
TOPIC_PARTITIONS = 100
AT_ONCE = 20_000
POINTS, REPEATS = 300, 5

Rows = Iterator[dict[str, Any]]


class Week:
    """Makes the rows of `mirror_ranges`, `mirror_lags` and `mirror_samples`."""

    def __init__(self, partitions: int, tasks: int) -> None:
        self.partitions, self.tasks = partitions, tasks

    def _task(self, task: int, at_ms: int) -> dict[str, Any]:
        return {
            "at_ms": at_ms,
            "process": f"mirror-{task % 4}.example.org:4711",
            "connector": "MirrorSourceConnector",
            "task": task,
            "source": FLOW[0],
            "target": FLOW[1],
        }

    def _partition(self, number: int, at_ms: int) -> dict[str, Any]:
        topic = f"orders.events.{number // TOPIC_PARTITIONS:03d}"
        return {
            **self._task(number % self.tasks, at_ms),
            "topic": topic,
            "partition": number % TOPIC_PARTITIONS,
            "target_topic": f"{FLOW[0]}.{topic}",
        }

    def ranges(self, at_ms: int, span_ms: int) -> Rows:
        """A row of each partition that moved for `span_ms` until now, a record a ms."""
        for number in range(self.partitions):
            yield {
                **self._partition(number, at_ms),
                "source_start": at_ms - span_ms,
                "source_end": at_ms,
                "target_end": at_ms,
                "records": span_ms,
                "bytes": 500 * span_ms,
            }

    def lags(self, at_ms: int) -> Rows:
        for number in range(self.partitions):
            yield {
                **self._partition(number, at_ms),
                "lag_records": 1_000 + number,
                "lag_ms": 1_500,
                "time_to_loss_ms": 86_400_000,
            }

    def samples(self, start_ms: int, end_ms: int, span_ms: int) -> Rows:
        for at_ms in range(start_ms, end_ms, span_ms):
            for task in range(self.tasks):
                yield {
                    **self._task(task, at_ms),
                    "span_ms": span_ms,
                    "partitions": self.partitions // self.tasks,
                    "stuck": 0,
                    "lag_records": 1_000_000,
                    "lag_ms": 1_500,
                    "time_to_loss_ms": 86_400_000,
                    "records": 10 * span_ms,
                    "bytes": 5_000 * span_ms,
                    "latency_ms": 12.5,
                }


def put(engine: Engine, table: str, rows: Iterable[Mapping[str, Any]]) -> None:
    batch: list[Mapping[str, Any]] = []
    with engine.begin() as connection:
        for row in rows:
            batch.append(row)
            if len(batch) == AT_ONCE:
                connection.execute(insert(TABLES.tables[table]), batch)
                batch = []
        if batch:
            connection.execute(insert(TABLES.tables[table]), batch)


def fill(engine: Engine, week: Week) -> None:
    """Write all but the last hour."""
    slots = [
        *((NOW_MS - day * DAY_MS, DAY_MS) for day in range(DAYS - 1, 1, -1)),
        *((NOW_MS - hour * HOUR_MS, HOUR_MS) for hour in range(48, 2, -1)),
        *((NOW_MS - HOUR_MS - n * 10 * MINUTE_MS, 10 * MINUTE_MS) for n in range(6, -1, -1)),
    ]
    for at_ms, span_ms in slots:
        # A row has the time of the last one that it was made of.
        put(engine, "mirror_ranges", week.ranges(at_ms - 1, span_ms))
        put(engine, "mirror_lags", week.lags(at_ms - 1))
    two_days, six_hours, hour = (NOW_MS - hours * HOUR_MS for hours in (48, 6, 1))
    for start, end, span_ms in (
        (NOW_MS - DAYS * DAY_MS, two_days, HOUR_MS),
        (two_days, six_hours, 5 * MINUTE_MS),
        (six_hours, hour, MINUTE_MS),
    ):
        put(engine, "mirror_samples", week.samples(start, end, span_ms))


class Transactions:
    """Measures how long each transaction of an engine holds the database."""

    def __init__(self, engine: Engine) -> None:
        self.longest_s = 0.0
        self._began = 0.0
        event.listen(engine, "begin", self._begin)
        event.listen(engine, "commit", self._end)

    def _begin(self, _connection: object) -> None:
        self._began = time.perf_counter()

    def _end(self, _connection: object) -> None:
        self.longest_s = max(self.longest_s, time.perf_counter() - self._began)


def run_last_hour(engine: Engine, week: Week, upkeep_engine: Engine) -> list[float]:
    """Write the last hour as the mirror does. Returns the seconds of each upkeep."""
    step_ms = round(rows_every_s(week.partitions // week.tasks, week.tasks) * 1000)
    sample_ms = round(SAMPLE_EVERY_S * 1000)
    took: list[float] = []
    clean_at = NOW_MS - HOUR_MS
    for at_ms in range(NOW_MS - HOUR_MS, NOW_MS, step_ms):
        put(engine, "mirror_ranges", week.ranges(at_ms, step_ms))
        put(engine, "mirror_lags", week.lags(at_ms))
        put(engine, "mirror_samples", week.samples(at_ms, at_ms + step_ms, sample_ms))
        if at_ms >= clean_at:
            clean_at += round(UPKEEP_EVERY_S * 1000)
            began = time.perf_counter()
            keep_small(upkeep_engine, at_ms, DAYS * DAY_MS)
            took.append(time.perf_counter() - began)
    return took


def questions(url: SecretStr) -> dict[str, Callable[[], Any]]:
    """What the pages of the dashboard ask the history."""
    since = NOW_MS - DAY_MS
    topic = "orders.events.042"
    return {
        "series of 24 hours": lambda: queries.flow_series(url, *FLOW, since, NOW_MS, POINTS),
        "rates": lambda: queries.flow_rates(url, *FLOW, NOW_MS - 5 * MINUTE_MS),
        "events": lambda: queries.flow_events(url, *FLOW, since, 200),
        "ranges of a partition": lambda: queries.partition_ranges(url, *FLOW, topic, 42, 20),
        "lags of a partition": lambda: queries.partition_lags(url, *FLOW, topic, 42, since, 500),
        "jobs": lambda: queries.flow_jobs(url, *FLOW, 20),
    }


def move_samples(engine: Engine) -> None:
    """Let the samples end now, because a server asks for the last 24 hours of its own clock."""
    table = TABLES.tables["mirror_samples"]
    later_ms = time.time_ns() // 1_000_000 - NOW_MS
    with engine.begin() as connection:
        connection.execute(update(table).values(at_ms=table.c.at_ms + later_ms))


@contextmanager
def database(url: str | None) -> Iterator[SecretStr]:
    """Give the URL of the database to use."""
    if url is None:
        with tempfile.TemporaryDirectory() as directory:
            yield SecretStr(f"sqlite:///{directory}/history.db")
    elif url != "postgresql":
        yield SecretStr(url)
    else:
        programs = find_postgres()
        if programs is None:
            raise SystemExit("PostgreSQL is not installed here")
        with (
            closing(PortLease(cache_directory() / "ports")) as lease,
            running_postgres(programs, lease.port) as started,
        ):
            yield started


def size_of(engine: Engine) -> int:
    """Return the bytes of the database."""
    if engine.dialect.name == "postgresql":
        with engine.connect() as connection:
            size = select(func.pg_database_size(func.current_database()))
            return int(connection.execute(size).scalar_one())
    path = Path(str(engine.url.database))
    return sum(each.stat().st_size for each in path.parent.glob(f"{path.name}*"))


@contextmanager
def served(history: SecretStr) -> Iterator[str]:
    """Serve the flow and this history over HTTP, as a worker does. The URL of the flow."""
    herder = DashboardHerder()
    Flow(*FLOW, partitions({"orders": 10})).add_to(herder, None)
    for config in herder.configs.values():
        config["mirror.history.url"] = history.reveal()
    server = RestServer({"listeners": "http://127.0.0.1:0"}, MetricRegistry(), {})
    server.bind()
    server.start()
    try:
        server.herder_started(herder)
        server.worker_ready()
        yield f"{server.advertised_url}mirrors/{'-%3E'.join(FLOW)}"
    finally:
        server.stop()


def page_of_a_day(url: str) -> None:
    """Ask for the charts of 24 hours. Raises an error if they are empty."""
    base, path = url.split("/mirrors", 1)
    answer = call(base, "GET", f"/mirrors{path}/series?hours=24&points={POINTS}")
    assert len(answer.json()["points"]) >= POINTS // 2


def least_s(ask: Callable[[], Any]) -> float:
    times = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        ask()
        times.append(time.perf_counter() - began)
    return min(times)


def measure(week: Week, url: SecretStr) -> None:
    engine, upkeep_engine = create_engine(url.reveal()), create_engine(url.reveal())
    for each in (engine, upkeep_engine):
        prepare(each)
    create_tables(engine)
    fill(engine, week)
    transactions = Transactions(upkeep_engine)
    upkeep = run_last_hour(engine, week, upkeep_engine)
    print(
        f"{week.partitions} partitions of {week.tasks} tasks, {DAYS} days in "
        f"{engine.dialect.name}: {size_of(engine) / 1e6:.0f} MB"
    )
    with engine.connect() as connection:
        for name in ("mirror_ranges", "mirror_lags", "mirror_samples"):
            rows = connection.execute(select(func.count()).select_from(TABLES.tables[name]))
            print(f"  {name}: {rows.scalar_one()} rows")
    print(f"upkeep: {sum(upkeep):.1f} s in an hour, {transactions.longest_s:.1f} s at a time")
    for name, ask in questions(url).items():
        print(f"{name}: {least_s(ask) * 1000:.0f} ms")
    move_samples(engine)
    with served(url) as flow:
        took_s = least_s(lambda: page_of_a_day(flow))
        print(f"series of 24 hours over HTTP: {took_s * 1000:.0f} ms")
    engine.dispose()
    upkeep_engine.dispose()


def main() -> None:
    sizes = [int(each) for each in sys.argv[1:3]]
    week = Week(*[*sizes, *(PARTITIONS, TASKS)[len(sizes) :]])
    with database(sys.argv[3] if len(sys.argv) > 3 else None) as url:
        measure(week, url)


if __name__ == "__main__":
    main()
