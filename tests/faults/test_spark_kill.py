"""A flow on Spark whose processes are killed: nothing is lost or copied again, order is kept, the
map is exact. At least once, as a lost shard is compared with the target before it is copied on."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

from deploy.brokers import KafkaCluster
from deploy.spark_cluster import SparkCluster
from tests.support.flows.killed_mirrors import (
    caught_up,
    check,
    make_topics,
    wait_copying,
    wait_rounds,
)
from tests.support.flows.mirrored import MirroredFlow, running, stop_cleanly
from tests.support.records.steady import SteadyWriter
from tests.support.spark.kills import SPARK, STOP_S, WAIT_S, kill_spark
from tests.support.spark.session import SMALL_EXECUTORS, bare_python, of_flow
from tests.support.waiting import wait_until

# A Spark session starts for each life of a mirror.
pytestmark = pytest.mark.timeout(1200)

WORKER_KILLS = 2


def doubled(flow: MirroredFlow, topics: dict[str, int], most_jumps: int) -> int:
    """Check all copies; returns the records copied twice but those of the compacted topic. A copy
    of a record that compaction has removed since is not recognised, and copied again."""
    check(flow, topics, most_jumps)
    kept = {name: partitions for name, partitions in topics.items() if "compacted" not in name}
    return check(flow, kept, most_jumps)


@pytest.mark.slow
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
    assert doubled(flow, topics, WORKER_KILLS) == 0


@pytest.mark.parametrize(
    ("sign", "kills"),
    [
        ("SparkSubmit", 1),
        pytest.param("SparkSubmit", 2, marks=pytest.mark.slow),
        pytest.param("pyspark.daemon", 2, marks=pytest.mark.slow),
    ],
)
def test_spark_killed_under_the_worker_comes_back_and_goes_on(
    source_cluster: KafkaCluster,
    target_cluster: KafkaCluster,
    logs: Path,
    tmp_path: Path,
    sign: str,
    kills: int,
) -> None:
    flow = MirroredFlow(source_cluster, target_cluster)
    log = logs / "mirror.log"
    topics = make_topics(flow)
    with running(flow.properties(SPARK), tmp_path, log) as mirror:
        with SteadyWriter(flow.source_servers, *topics) as writer:
            for _ in range(kills):
                wait_copying(flow, next(iter(topics)), WAIT_S)
                kill_spark(mirror, sign)
                wait_rounds(writer, 30)
                wait_copying(flow, next(iter(topics)), WAIT_S)
        caught_up(flow, topics, WAIT_S)
        # What the gateway says of a lost process is in the log, with tracebacks.
        assert mirror.stop(STOP_S) == 0, log.read_text()
    assert doubled(flow, topics, kills * len(topics)) == 0


@pytest.mark.slow
def test_an_executors_machine_killed_in_the_middle_doubles_nothing(
    source_cluster: KafkaCluster, target_cluster: KafkaCluster, logs: Path, tmp_path: Path
) -> None:
    """On a standalone cluster, whose executors have of ours only what is sent to them. Spark runs
    the task of a lost shard again, which copies nothing."""
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
    assert doubled(flow, topics, 2) == 0
