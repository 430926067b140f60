"""A flow on Spark that writes exactly once, killed in the middle: each record is there once."""

from __future__ import annotations

import os
import random
import signal
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from deploy.brokers import KafkaCluster
from deploy.spark_cluster import SparkCluster
from tests.support.flows.killed_mirrors import caught_up, make_topics, wait_copying, wait_rounds
from tests.support.flows.mirrored import MirroredFlow, running
from tests.support.records.offset_records import offset_map
from tests.support.records.reading import contents, read_partition
from tests.support.records.steady import SteadyWriter
from tests.support.records.topics import end_offset
from tests.support.spark.kills import SPARK, STOP_S, WAIT_S, kill, kill_spark, spark_processes
from tests.support.spark.session import SMALL_EXECUTORS, bare_python, of_flow
from tests.support.waiting import wait_until

# A Spark session starts for each life of a mirror.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

ONCE = {**SPARK, "B.exactly.once.source.support": "enabled", "A->B.mirror.spark.batch.ms": "1000"}
MIRROR_KILLS = 2
SPARK_KILLS = 3
STILL_S = 3.0
FIRST_S = 500.0


def once(flow: MirroredFlow, topics: dict[str, int]) -> int:
    """Readers of committed records see each record once, in order, and where the map knows a
    record it is right. How many more were written, and aborted."""
    aborted = 0
    for topic, count in topics.items():
        for partition in range(count):
            name = f"{topic}-{partition}"
            before = read_partition(
                flow.source_servers, topic, partition, isolation="read_committed"
            )
            after = read_partition(
                flow.target_servers, flow.remote(topic), partition, isolation="read_committed"
            )
            everything = read_partition(flow.target_servers, flow.remote(topic), partition)
            aborted += len(everything) - len(after)
            if topic.endswith("compacted"):
                kept = {record.content() for record in before}
                after = [record for record in after if record.content() in kept]
            assert contents(after) == contents(before), name
            translate = offset_map(flow.source_servers, flow.map_topic, topic, partition)
            copies = {record.offset: record.content() for record in after}
            known = [
                (record, translate.downstream(record.offset))
                for record in before
                if any(s.source <= record.offset < s.source + s.length for s in translate.segments)
            ]
            assert known, name
            assert all(copies[there or 0] == record.content() for record, there in known), name
    return aborted


@pytest.mark.parametrize("sign", ["SparkSubmit", "pyspark.daemon"])
def test_spark_killed_under_the_worker_doubles_nothing(
    source_cluster: KafkaCluster,
    target_cluster: KafkaCluster,
    logs: Path,
    tmp_path: Path,
    sign: str,
) -> None:
    flow = MirroredFlow(source_cluster, target_cluster)
    log = logs / "mirror.log"
    topics = make_topics(flow)
    draw = random.Random(3)
    with running(flow.properties(ONCE), tmp_path, log) as mirror:
        with SteadyWriter(flow.source_servers, *topics) as writer:
            for _ in range(SPARK_KILLS):
                wait_copying(flow, next(iter(topics)), WAIT_S)
                time.sleep(draw.uniform(0.0, 1.0))
                kill_spark(mirror, sign)
                wait_rounds(writer, 30)
                wait_copying(flow, next(iter(topics)), WAIT_S)
        caught_up(flow, topics, WAIT_S)
        # What the gateway says of a lost process is in the log, with tracebacks.
        assert mirror.stop(STOP_S) == 0, log.read_text()
    print(f"{once(flow, topics)} records were aborted")


def test_a_mirror_killed_in_the_middle_doubles_nothing(
    source_cluster: KafkaCluster, target_cluster: KafkaCluster, logs: Path, tmp_path: Path
) -> None:
    """The Python processes of its Spark are stopped before, and wake up as those of nobody when
    the next mirror copies already."""
    flow = MirroredFlow(source_cluster, target_cluster)
    log = logs / "mirror.log"
    topics = make_topics(flow)
    draw = random.Random(5)
    orphans: list[psutil.Process] = []
    try:
        with SteadyWriter(flow.source_servers, *topics) as writer:
            wait_rounds(writer, 10)
            for _ in range(MIRROR_KILLS):
                with running(flow.properties(ONCE), tmp_path, log) as mirror:
                    wait_copying(flow, next(iter(topics)), WAIT_S)
                    time.sleep(draw.uniform(0.0, 2.0))
                    assert mirror.running(), log.read_text()
                    orphans += (stopped := spark_processes(mirror.pid, "pyspark.daemon"))
                    for process in stopped:
                        os.kill(process.pid, signal.SIGSTOP)
                    mirror.kill()
        with running(flow.properties(ONCE), tmp_path, log) as mirror:
            wait_copying(flow, next(iter(topics)), WAIT_S)
            for process in orphans:
                if process.is_running():
                    os.kill(process.pid, signal.SIGCONT)
            caught_up(flow, topics, WAIT_S)
            assert mirror.stop(STOP_S) == 0, log.read_text()
    finally:
        for process in orphans:
            kill(process)
    print(f"{once(flow, topics)} records were aborted")


def wait_still(flow: MirroredFlow, topics: dict[str, int]) -> None:
    """Until a partition is not copied any more, though it is written: its shard was stopped."""
    ends: dict[tuple[str, int], tuple[int, float]] = {}

    def still() -> bool:
        now = time.monotonic()
        for topic, count in topics.items():
            for partition in range(count):
                end = end_offset(flow.target_servers, flow.remote(topic), partition)
                if ends.get((topic, partition), (-1, now))[0] != end:
                    ends[topic, partition] = end, now
        return any(now - since > STILL_S for _, since in ends.values())

    wait_until(still, WAIT_S, "a shard that was stopped")


def signal_all(numbers: list[int], sign: signal.Signals) -> None:
    """To those that have not ended by themselves meanwhile."""
    for number in numbers:
        with suppress(ProcessLookupError):
            os.kill(number, sign)


def test_executors_and_workers_killed_on_a_cluster_double_nothing(
    source_cluster: KafkaCluster, target_cluster: KafkaCluster, logs: Path, tmp_path: Path
) -> None:
    """An executor is killed in the middle of a shard, whose Python process wakes up when Spark has
    run the shard again and others copy its partitions; then an executor with all it had; then a
    worker with its executor."""
    flow = MirroredFlow(source_cluster, target_cluster)
    log = logs / "mirror.log"
    topics = make_topics(flow)
    plain = next(iter(topics))
    draw = random.Random(11)
    with SparkCluster(2, path=[bare_python(tmp_path / "python")], logs=logs) as cluster:
        small = of_flow({"spark.master": cluster.url, "spark.cores.max": "2", **SMALL_EXECUTORS})

        def one_that_copies() -> int:
            """A worker whose executor has Python: where there is little to copy, one is enough."""
            wait_until(lambda: all(map(cluster.executors, cluster.workers)), WAIT_S, "executors")
            wait_copying(flow, plain, WAIT_S)
            return next(number for number in cluster.workers if cluster.pythons(number))

        def runs_again() -> int:
            return log.read_text().count("Spark ran its task again")

        with running(flow.properties({**ONCE, **small}), tmp_path, log) as mirror:
            with SteadyWriter(flow.source_servers, *topics) as writer:
                # On a busy machine the cluster's first copy alone takes minutes.
                wait_copying(flow, plain, FIRST_S)
                worker = one_that_copies()
                stopped = cluster.pythons(worker)
                signal_all(stopped, signal.SIGSTOP)
                try:
                    wait_still(flow, topics)
                    signal_all(cluster.executors(worker), signal.SIGKILL)
                    wait_until(runs_again, WAIT_S, "a shard that Spark runs again")
                    wait_copying(flow, plain, WAIT_S)
                finally:
                    signal_all(stopped, signal.SIGCONT)
                wait_rounds(writer, 30)

                worker = one_that_copies()
                time.sleep(draw.uniform(0.0, 1.0))
                signal_all([*cluster.executors(worker), *cluster.pythons(worker)], signal.SIGKILL)
                wait_rounds(writer, 30)

                worker = one_that_copies()
                time.sleep(draw.uniform(0.0, 1.0))
                cluster.kill_worker(worker)
                wait_rounds(writer, 30)
                wait_copying(flow, plain, WAIT_S)
                cluster.add_worker()
                one_that_copies()
            caught_up(flow, topics, WAIT_S)
            assert mirror.stop(STOP_S) == 0, log.read_text()
        print(f"Spark ran {runs_again()} shards again")
    print(f"{once(flow, topics)} records were aborted")
