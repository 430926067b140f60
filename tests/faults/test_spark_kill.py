"""A flow on Spark whose processes are killed: nothing is lost, order is kept, the map is exact."""

from __future__ import annotations

import random
import time
from pathlib import Path

import psutil
import pytest

from deploy.brokers import GuardedProcess, KafkaCluster
from deploy.spark_cluster import SparkCluster
from tests.faults.test_mirror_kill import (
    PROPERTIES,
    caught_up,
    check,
    make_topics,
    wait_copying,
    wait_rounds,
)
from tests.support.mirrored import MirroredFlow, running, stop_cleanly
from tests.support.spark import SMALL_EXECUTORS, bare_python, of_flow
from tests.support.steady import SteadyWriter
from tests.support.waiting import wait_until

# A Spark session starts for each life of a mirror.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

SPARK = {
    **PROPERTIES,
    "A->B.mirror.engine": "spark",
    "A->B.spark.master": "local[2]",
    "B.offset.flush.interval.ms": "700",
    "B.task.shutdown.graceful.timeout.ms": "20000",
}
WORKER_KILLS = 2
# On a busy machine a session alone takes more than half a minute.
WAIT_S = 240.0
STOP_S = 40.0


def spark_processes(mirror: int, sign: str) -> list[psutil.Process]:
    """Of a mirror's Spark: the JVM (`SparkSubmit`), or the Python processes (`pyspark.daemon`)."""
    found = []
    for process in psutil.Process(mirror).children(recursive=True):
        try:
            if any(sign in part for part in process.cmdline()):
                found.append(process)
        except psutil.NoSuchProcess:
            continue
    return found


def kill(process: psutil.Process) -> None:
    """-9, if it has not ended by itself meanwhile."""
    try:
        process.kill()
    except psutil.NoSuchProcess:
        return


def kill_spark(mirror: GuardedProcess, sign: str) -> None:
    """Its JVM, or its Python processes and their parent."""
    for process in wait_until(
        lambda: spark_processes(mirror.pid, sign), WAIT_S, f"a process of {sign}"
    ):
        kill(process)


def test_a_worker_killed_in_the_middle_loses_nothing_and_keeps_the_order(
    source_cluster: KafkaCluster, target_cluster: KafkaCluster, logs: Path, tmp_path: Path
) -> None:
    flow = MirroredFlow(source_cluster, target_cluster)
    log = logs / "mirror.log"
    topics = make_topics(flow)
    draw = random.Random(7)
    with SteadyWriter(flow.source_servers, *topics) as writer:
        wait_rounds(writer, 10)
        for _ in range(WORKER_KILLS):
            with running(flow.properties(SPARK), tmp_path, log) as mirror:
                wait_copying(flow, next(iter(topics)), WAIT_S)
                time.sleep(draw.uniform(0.0, 3.0))
                assert mirror.running(), log.read_text()
                mirror.kill()
    with running(flow.properties(SPARK), tmp_path, log) as mirror:
        caught_up(flow, topics, WAIT_S)
        stop_cleanly(mirror, log)
    check(flow, topics, WORKER_KILLS)


@pytest.mark.parametrize("sign", ["SparkSubmit", "pyspark.daemon"])
def test_spark_killed_under_the_worker_comes_back_and_goes_on(
    source_cluster: KafkaCluster,
    target_cluster: KafkaCluster,
    logs: Path,
    tmp_path: Path,
    sign: str,
) -> None:
    flow = MirroredFlow(source_cluster, target_cluster)
    log = logs / "mirror.log"
    topics = make_topics(flow)
    with running(flow.properties(SPARK), tmp_path, log) as mirror:
        with SteadyWriter(flow.source_servers, *topics) as writer:
            for _ in range(2):
                wait_copying(flow, next(iter(topics)), WAIT_S)
                kill_spark(mirror, sign)
                wait_rounds(writer, 30)
                wait_copying(flow, next(iter(topics)), WAIT_S)
        caught_up(flow, topics, WAIT_S)
        # What the gateway says of a lost process is in the log, with tracebacks.
        assert mirror.stop(STOP_S) == 0, log.read_text()
    check(flow, topics, 2 * len(topics))


def test_an_executors_machine_killed_in_the_middle_costs_repetitions_only(
    source_cluster: KafkaCluster, target_cluster: KafkaCluster, logs: Path, tmp_path: Path
) -> None:
    """On a standalone cluster, whose executors have of ours only what is sent to them."""
    flow = MirroredFlow(source_cluster, target_cluster)
    log = logs / "mirror.log"
    topics = make_topics(flow)
    with SparkCluster(2, path=[bare_python(tmp_path / "python")], logs=logs) as cluster:
        small = of_flow({"spark.master": cluster.url, "spark.cores.max": "2", **SMALL_EXECUTORS})
        properties = flow.properties({**SPARK, **small})
        with running(properties, tmp_path, log) as mirror:
            with SteadyWriter(flow.source_servers, *topics) as writer:
                wait_copying(flow, next(iter(topics)), WAIT_S)
                wait_until(lambda: len(cluster.executors()) == 2, WAIT_S, "two executors")
                cluster.kill_worker(1)
                wait_rounds(writer, 30)
                wait_copying(flow, next(iter(topics)), WAIT_S)
            caught_up(flow, topics, WAIT_S)
            stop_cleanly(mirror, log)
    check(flow, topics, 2)
