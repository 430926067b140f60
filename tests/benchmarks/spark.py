"""What Spark jobs cost: translation, config sync, doing nothing, and the first of a session.

    python -m tests.benchmarks.spark [--parts first,small,idle,translation,configs]
                                     [--master local[2]]

Needs no brokers: tables are made in memory. Nothing else should run on the machine. Memory is
resident, of the driver's JVM and of this process, at its highest.
"""

from __future__ import annotations

import argparse
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import psutil
import pyarrow as pa
from pyspark.sql import SparkSession

from connect.clock import SYSTEM_CLOCK
from connectors.mirror.offsets.offset_map_pages import MapPage, Segment
from connectors.mirror.spark.settings_plans import config_changes
from connectors.mirror.spark.tables import (
    BREAKS,
    CONFIGS,
    GROUP_OFFSETS,
    PAGES,
    PROPERTIES,
    SYNCS,
    TOPICS,
    arrow_schema,
    arrow_table,
)
from connectors.mirror.spark.translate.map_breaks import map_breaks
from connectors.mirror.spark.translate.translate import translate
from connectors.spark import rdd
from connectors.spark.arrow import collect, map_batches
from connectors.spark.drivers.classic import ClassicDriver
from connectors.spark.drivers.jvm import SparkJvm
from connectors.spark.session import shared_session
from tests.support.spark.session import session_on
from tests.support.waiting import wait_until

FIRST, FIRST_ROUNDS = "first", 3
PARTS = (FIRST, "small", "idle", "translation", "configs")
GROUPS, PARTITIONS, SYNCS_TOTAL = 10_000, 100, 1_000_000
CONFIG_TOPICS, CONFIGS_EACH, CONFIGS_DIFFERENT = 5_000, 35, 50
SMALL_GROUPS, SMALL_RUNS, IDLE_MEASURED_S = 100, 20, 60.0
END = 1_000_000
"""Offsets of each partition."""


@dataclass
class Use:
    """Of this process and its JVM."""

    seconds: float = 0.0
    cpu_s: float = 0.0
    jvm_mib: float = 0.0
    python_mib: float = 0.0

    def __str__(self) -> str:
        return (
            f"{self.seconds:6.1f} s  {self.cpu_s:6.1f} CPU s  JVM {self.jvm_mib:5.0f} MiB  "
            f"Python {self.python_mib:5.0f} MiB"
        )


def _processes() -> tuple[psutil.Process, psutil.Process]:
    driver = shared_session()._driver
    assert isinstance(driver, ClassicDriver)
    jvm = driver.jvm
    assert isinstance(jvm, SparkJvm)
    assert jvm._process is not None
    return psutil.Process(), psutil.Process(jvm._process.pid)


def _cpu_s(processes: Sequence[psutil.Process]) -> float:
    return sum(sum(process.cpu_times()[:2]) for process in processes)


@contextmanager
def measured() -> Iterator[Use]:
    """Fills in the use when the block ends."""
    processes, use, done = _processes(), Use(), threading.Event()

    def watch() -> None:
        while not done.wait(0.1):
            python, jvm = (process.memory_info().rss / 2**20 for process in processes)
            use.python_mib, use.jvm_mib = max(use.python_mib, python), max(use.jvm_mib, jvm)

    watcher = threading.Thread(target=watch, daemon=True)
    began, cpu_s = SYSTEM_CLOCK.monotonic(), _cpu_s(processes)
    watcher.start()
    try:
        yield use
    finally:
        use.seconds = SYSTEM_CLOCK.monotonic() - began
        use.cpu_s = _cpu_s(processes) - cpu_s
        done.set()
        watcher.join()


def _columns(schema: pa.Schema, *columns: object) -> pa.Table:
    arrays = [pa.array(c, type=f.type) for c, f in zip(columns, schema, strict=True)]
    return pa.table(arrays, schema=schema)


def _syncs(total: int) -> pa.Table:
    each = total // PARTITIONS
    step = END // each
    upstream = [number * step for number in range(each)] * PARTITIONS
    partition = [p for p in range(PARTITIONS) for _ in range(each)]
    return _columns(
        arrow_schema(SYNCS), ["t"] * total, partition, upstream, upstream, list(range(total))
    )


def _pages(breaks: int) -> pa.Table:
    """A map that breaks as often as there are syncs: a marker after every so many records."""
    each = breaks // PARTITIONS
    step = END // each
    rows: list[tuple[str, int, int, bytes]] = []
    for partition in range(PARTITIONS):
        for first in range(0, each, 1024):
            numbers = range(first, min(each, first + 1024))
            page = MapPage(1, [Segment(n * step, n * (step - 1), step - 1) for n in numbers])
            rows.append(("t", partition, page.first_source, page.encode()))
    return arrow_table(PAGES, rows)


def _offsets(groups: int, partitions: int) -> pa.Table:
    total = groups * partitions
    return _columns(
        arrow_schema(GROUP_OFFSETS),
        [f"group-{number:05}" for number in range(groups) for _ in range(partitions)],
        ["t"] * total,
        list(range(partitions)) * groups,
        # Spread evenly, and never all groups at one offset.
        [(number * 7_919) % END for number in range(total)],
        [""] * total,
    )


def translation(session: SparkSession) -> None:
    syncs, pages = _syncs(SYNCS_TOTAL), _pages(SYNCS_TOTAL)
    offsets = _offsets(GROUPS, PARTITIONS)
    nothing = arrow_table(BREAKS, [])

    def by_syncs() -> int:
        frames = (session.createDataFrame(table) for table in (syncs, nothing, offsets))
        return int(collect(translate(session, *frames)).num_rows)

    def by_map() -> int:
        breaks = map_breaks(session.createDataFrame(pages))
        known = session.createDataFrame(arrow_table(SYNCS, []))
        found = translate(session, known, breaks, session.createDataFrame(offsets))
        return int(collect(found).num_rows)

    print(f"{GROUPS} groups x {PARTITIONS} partitions, {SYNCS_TOTAL} syncs or breaks:")
    _twice("by syncs", by_syncs)
    _twice(f"by the map ({pages.num_rows} pages)", by_map)


def configs(session: SparkSession) -> None:
    def rows(remote: str, different: int) -> list[tuple[object, ...]]:
        return [
            (f"{remote}t{topic}", f"config.{name}", str(name + (topic < different)), source, *flags)
            for topic in range(CONFIG_TOPICS)
            for name in range(CONFIGS_EACH)
            for source, flags in (("DYNAMIC_TOPIC_CONFIG", (False, False)),)
        ]

    source, target = rows("", CONFIGS_DIFFERENT), rows("A.", 0)
    topics = [(f"t{topic}", f"A.t{topic}") for topic in range(CONFIG_TOPICS)]
    properties = [(f"config.{name}", True, False) for name in range(CONFIGS_EACH)]

    def once() -> int:
        tables = ((CONFIGS, source), (CONFIGS, target), (TOPICS, topics), (PROPERTIES, properties))
        frames = (session.createDataFrame(arrow_table(schema, r)) for schema, r in tables)
        return int(collect(config_changes(*frames)).num_rows)

    print(f"Configs of {CONFIG_TOPICS} topics x {CONFIGS_EACH}, {CONFIGS_DIFFERENT} differ:")
    _twice("config sync", once)


def small(session: SparkSession) -> None:
    """A translation for few groups: what a round costs whose offsets have changed."""
    offsets, syncs = _offsets(SMALL_GROUPS, 1), _syncs(PARTITIONS)
    pages = arrow_table(PAGES, [("t", 0, 0, MapPage(1, [Segment(0, 0, END)]).encode())])
    print(f"{SMALL_GROUPS} groups:")
    for number in range(SMALL_RUNS):
        with measured() as use:
            breaks = map_breaks(session.createDataFrame(pages))
            known, committed = session.createDataFrame(syncs), session.createDataFrame(offsets)
            collect(translate(session, known, breaks, committed))
        if number in (0, SMALL_RUNS - 1):
            print(f"  run {number + 1}: {use}", flush=True)


def idle(session: SparkSession) -> None:
    """The session while nothing changes: then the jobs find out so, and compute nothing."""
    assert not session.sparkContext.statusTracker().getActiveStageIds()
    for number in range(2):
        with measured() as use:
            threading.Event().wait(IDLE_MEASURED_S)
        share = 100 * use.cpu_s / use.seconds
        print(f"  idle minute {number + 1}: {share:.2f} % of a core; {use}", flush=True)


def first(master: str) -> None:
    """The first job on an RDD, as copies are, and the first query; each in new sessions."""

    def query(session: SparkSession) -> object:
        return collect(map_batches(session.range(1), _same, "id bigint"))

    jobs: Mapping[str, Callable[[SparkSession], object]] = {
        "job on an RDD": lambda session: rdd.collect(
            session.sparkContext.parallelize([0], 1).map(str)
        ),
        "query": query,
    }
    print("The first of a session:")
    for number in range(FIRST_ROUNDS):
        for name, job in list(jobs.items())[:: -1 if number % 2 else 1]:
            with session_on({"spark.master": master}) as session:
                began = SYSTEM_CLOCK.monotonic()
                job(session)
                print(f"  {name}: {SYSTEM_CLOCK.monotonic() - began:.2f} s", flush=True)


def _same(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return batches


def _twice(name: str, step: Callable[[], int]) -> None:
    for which in ("first", "again"):
        with measured() as use:
            rows = step()
        print(f"  {name}, {which}: {use}  {rows} rows", flush=True)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.spark")
    parser.add_argument("--parts", default=",".join(PARTS), help="of %(default)s")
    parser.add_argument("--master", default="local[2]")
    arguments = parser.parse_args(argv)
    names = arguments.parts.split(",")
    if FIRST in names:
        first(arguments.master)
        names.remove(FIRST)
    if not names:
        return 0
    shared, began = shared_session(), SYSTEM_CLOCK.monotonic()
    lease = shared.acquire("benchmark", {"spark.master": arguments.master})
    session = wait_until(lambda: lease.session, 120.0, "Spark is ready")
    assert session is not None
    print(f"session ready in {SYSTEM_CLOCK.monotonic() - began:.1f} s")
    parts = {"small": small, "idle": idle, "translation": translation, "configs": configs}
    for name in names:
        parts[name](session)
    shared.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
