"""A flow on Spark that writes exactly once, killed in the middle: each record is there once."""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path

import psutil
import pytest

from deploy.brokers import KafkaCluster
from tests.faults.test_mirror_kill import caught_up, make_topics, wait_copying, wait_rounds
from tests.faults.test_spark_kill import SPARK, STOP_S, WAIT_S, kill, kill_spark, spark_processes
from tests.support.books import offset_map
from tests.support.mirrored import MirroredFlow, running
from tests.support.reading import contents, read_partition
from tests.support.steady import SteadyWriter

# A Spark session starts for each life of a mirror.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

ONCE = {**SPARK, "B.exactly.once.source.support": "enabled", "A->B.mirror.spark.batch.ms": "1000"}
MIRROR_KILLS = 2
SPARK_KILLS = 3


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
