"""Prints how fast Spark audits, in this process and on clusters with one, two and four executors of
one core, beside reading alone, and the memory it takes, as a table for
docs/contributing/spark-figures.md. Not a test.

Run: python -m tests.benchmarks.parts.audit_cluster [MB] [executors ...], with 0 for no cluster
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import psutil
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from connect.clients.cluster.partition_reader import PartitionReader
from connectors.mirror.audit.auditor import Auditor, AuditSetup
from connectors.mirror.audit.plan import DEFAULT_RANGE_BYTES, PartitionFacts, plan_ranges
from connectors.mirror.copy.batches.choice import CopyOptions
from connectors.mirror.copy.range_copier import SourceRange, copy_ranges
from connectors.mirror.copy.settings import EngineSettings
from connectors.mirror.offsets.offset_map_pages import MapPage, Segment
from connectors.mirror.spark.audit import spark_engine
from connectors.spark.arrow import collect
from deploy.spark_cluster import SparkCluster
from tests.benchmarks.arena import open_arena
from tests.benchmarks.filling import fill
from tests.benchmarks.payloads import make_payload
from tests.support.copier.copying import wire
from tests.support.records.topics import create_topic, end_offset
from tests.support.spark.session import SMALL_EXECUTORS, session_on
from tests.support.waiting import wait_until

LZ4, ZSTD = 3, 4
BATCH_BYTES = 65_536
PARTITIONS = 4
PIECES = 32
"""Small flows are cut finer than usual, so that all executors have work."""
LOGS = Path("build/bench-audit")
WAIT_S = 120.0
_DROP_CACHES = Path("/proc/sys/vm/drop_caches")


def read(servers: str, topic: str, partition: int) -> int:
    """Bytes of a partition, read and nothing else."""
    size = 0
    with Auditor.link({"bootstrap.servers": servers}, {topic}) as linked:
        key = (topic, partition)
        end = linked.link.list_offsets([key], -1).result(30)[key]
        assert isinstance(end, int)
        reader = PartitionReader(linked.link, key, 0, end)
        for fetched in reader:
            size += len(fetched.records)
        reader.close()
    return size


def from_disk() -> int:
    """Bytes read since the machine began, beside what the page cache had."""
    counted = psutil.disk_io_counters()
    return 0 if counted is None else int(counted.read_bytes)


def forget_pages() -> bool:
    """Whether what follows is read from disk: for that, root has Linux drop its page cache."""
    if not os.access(_DROP_CACHES, os.W_OK):
        return False
    os.sync()
    _DROP_CACHES.write_text("1")
    return True


def read_alone(what: str, wanted: Sequence[tuple[str, str, int]], records: int) -> None:
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        pool.starmap(read, wanted[:1])  # what importing takes is not reading
        before, began = from_disk(), time.perf_counter()
        size = sum(pool.starmap(read, wanted, chunksize=1))
        took = time.perf_counter() - began
    print(
        f"| {what} | {records:,} | {size / 1e6:,.0f} | {(from_disk() - before) / 1e6:,.0f} "
        f"| {took:.1f} | {size / took / 1e6:,.0f} | |",
        flush=True,
    )


class Memory:
    """The largest Python process of Spark's, sampled."""

    def __init__(self) -> None:
        self.peak = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Memory:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(WAIT_S)

    def _watch(self) -> None:
        while not self._stop.wait(0.5):
            for process in psutil.Process().children(recursive=True):
                try:
                    if "pyspark.daemon" in process.cmdline():
                        self.peak = max(self.peak, process.memory_info().rss)
                except psutil.Error:
                    continue  # it has ended


def facts(source: str, topic: str, copy: str, sizes: Sequence[int]) -> list[PartitionFacts]:
    found = []
    for number in range(PARTITIONS):
        end = end_offset(source, topic, number)
        width = sizes[number] / end
        found.append(
            PartitionFacts((topic, number), (copy, number), 0, end, 0, end, end, offset_bytes=width)
        )
    return found


def audit(
    session: SparkSession,
    what: str,
    setup: AuditSetup,
    partitions: Sequence[PartitionFacts],
) -> None:
    size = sum(int(each.source_end * each.offset_bytes) for each in partitions)
    ranges = [
        each
        for partition in partitions
        for each in plan_ranges(
            partition,
            [MapPage(1, [Segment(0, 0, partition.source_end)])],
            min(DEFAULT_RANGE_BYTES, size // PIECES),
        )
    ]
    with Memory() as memory:
        before, began = from_disk(), time.perf_counter()
        outcomes = list(spark_engine(session)(setup, ranges))
        took = time.perf_counter() - began
    results = [each.result for each in outcomes if each.result is not None]
    assert len(results) == len(ranges)
    records = sum(partition.source_end for partition in partitions)
    assert sum(each.equal for each in results) == records
    read_bytes = sum(each.bytes for each in results)
    print(
        f"| {what} | {records:,} in {len(ranges)} ranges | {read_bytes / 1e6:,.0f} "
        f"| {(from_disk() - before) / 1e6:,.0f} | {took:.1f} "
        f"| {read_bytes / took / 1e6:,.0f} | {memory.peak / 2**20:,.0f} |",
        flush=True,
    )


def main() -> None:
    megabytes = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000
    counts = [int(each) for each in sys.argv[2:] or (1, 2, 4) if int(each)]
    with open_arena(LOGS) as arena:
        source, target = arena.source, arena.target
        topic = create_topic(source, partitions=PARTITIONS)
        copy = create_topic(target, partitions=PARTITIONS)
        anew = create_topic(target, partitions=PARTITIONS)
        payload = make_payload("json", LZ4, BATCH_BYTES)
        before = fill(source, topic, PARTITIONS, payload, 100_000, 900)
        sizes = [read(source, topic, number) for number in range(PARTITIONS)]
        fill(source, topic, PARTITIONS, payload, int(before * megabytes * 1e6 / sum(sizes)), 900)
        sizes = [read(source, topic, number) for number in range(PARTITIONS)]
        ends = [end_offset(source, topic, number) for number in range(PARTITIONS)]
        for name, codec, part in ((copy, None, 1), (anew, ZSTD, 8)):
            copy_ranges(
                EngineSettings(wire(source), wire(target), options=CopyOptions(codec=codec)),
                [
                    SourceRange((topic, number), (name, number), 0, ends[number] // part)
                    for number in range(PARTITIONS)
                ],
                lambda _progress, _lines: None,
                stop=threading.Event(),
                stall_s=60.0,
            )
        both = [(source, topic, n) for n in range(PARTITIONS)]
        both += [(target, copy, n) for n in range(PARTITIONS)]
        print(
            "| | records | MB, both sides | of these from disk | seconds | MB/s "
            "| largest Python process, MiB |\n|---|---|---|---|---|---|---|"
        )
        read_alone("reading alone, 2 processes", both, sum(ends))
        setup = AuditSetup({"bootstrap.servers": source}, {"bootstrap.servers": target})
        whole = facts(source, topic, copy, sizes)
        again = [
            PartitionFacts(
                each.source, (anew, each.source[1]), 0, ends[each.source[1]] // 8, 0,
                ends[each.source[1]] // 8, ends[each.source[1]] // 8,
                offset_bytes=each.offset_bytes,
            )
            for each in whole
        ]  # fmt: skip
        with session_on({"spark.master": "local[2]"}) as session:
            warm_up(session, 2)
            audit(session, "`local[2]`, forwarded as bytes", setup, whole)
            read_alone("reading alone, once more", both, sum(ends))
            if forget_pages():
                read_alone("reading alone, from disk", both, sum(ends))
            if forget_pages():
                audit(session, "`local[2]`, forwarded as bytes, from disk", setup, whole)
            audit(session, "`local[2]`, an eighth of it, compressed anew", setup, again)
        if not counts:
            return
        with SparkCluster(max(counts), logs=LOGS) as cluster:
            for count in counts:
                on = {"spark.master": cluster.url, "spark.cores.max": str(count), **SMALL_EXECUTORS}
                with session_on(on) as session:
                    wait_until(lambda: len(cluster.executors()) == count, WAIT_S, "executors")  # noqa: B023
                    warm_up(session, count)
                    on_cluster = f"{count} executor{'s' if count > 1 else ''} of one core"
                    audit(session, f"{on_cluster}, forwarded as bytes", setup, whole)
                    audit(session, f"{on_cluster}, an eighth of it, compressed anew", setup, again)
                wait_until(lambda: not cluster.executors(), WAIT_S, "no executors")


def warm_up(session: SparkSession, tasks: int) -> None:
    """Python is there on every executor, and has our code."""

    def load(_: int) -> str:
        import connectors.mirror.spark.audit_executor as work

        time.sleep(2)
        return str(work.__name__)

    collect(session.range(0, tasks, numPartitions=tasks).select(F.udf(load)("id")))


if __name__ == "__main__":
    main()
