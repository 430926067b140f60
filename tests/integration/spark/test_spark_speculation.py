"""Spark may run a slow shard a second time while the first run goes on: that copies nothing."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from deploy.brokers import KafkaCluster
from deploy.spark_cluster import SparkCluster
from tests.support.flows.mirrored import MirroredFlow, running, stop_cleanly
from tests.support.records.producing import numbered, produce
from tests.support.records.reading import contents, read_partition
from tests.support.spark.flow import ONCE, SPARK, committed
from tests.support.spark.session import QUICK_JVM, SMALL_EXECUTORS, of_flow

# Eight JVMs start for it.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

SLOW, QUICK, ROUNDS = 12_000, 500, 5
"""Records of 1000 bytes: a shard of its own, copied for all of its time at this rate."""
RATE = "1MB"
EAGER = {
    **SMALL_EXECUTORS,
    **QUICK_JVM,
    "spark.speculation": "true",
    "spark.speculation.interval": "50ms",
    "spark.speculation.quantile": "0.5",
    "spark.speculation.multiplier": "1.1",
    "spark.speculation.minTaskRuntime": "50ms",
    # The only rule for jobs of one task.
    "spark.speculation.task.duration.threshold": "500ms",
    "spark.pyspark.python": sys.executable,
    "spark.eventLog.enabled": "true",
    "spark.eventLog.compress": "false",
    "spark.eventLog.rolling.enabled": "false",
}


@pytest.mark.parametrize("once", [{}, ONCE], ids=["at-least-once", "exactly-once"])
def test_what_spark_runs_twice_at_a_time_is_copied_once(
    source_cluster: KafkaCluster,
    target_cluster: KafkaCluster,
    logs: Path,
    tmp_path: Path,
    once: dict[str, str],
) -> None:
    flow, log = MirroredFlow(source_cluster, target_cluster), logs / "mirror.log"
    events = tmp_path / "events"
    events.mkdir()
    slow, quick = flow.topic("slow"), flow.topic("quick")
    produce(flow.source_servers, slow, numbered(SLOW, size=1000), batch_records=20)
    # Spark runs no task twice on one host.
    with SparkCluster(2, logs=logs, hosts=True) as cluster:
        properties = {
            **SPARK,
            **once,
            "A->B.mirror.engine": "auto",
            "A->B.spark.master": cluster.url,
            "A->B.mirror.rate.topics": f"{slow}={RATE}/s",
            "A->B.spark.eventLog.dir": events.as_uri(),
            **of_flow(EAGER),
        }
        with running(flow.properties(properties), tmp_path, log) as mirror:
            for number in range(1, ROUNDS + 1):
                produce(flow.source_servers, quick, numbered(QUICK, start=(number - 1) * QUICK))
                committed(flow, quick, {0: number * QUICK})
            committed(flow, slow, {0: SLOW})
            stop_cleanly(mirror, log)
    assert speculative_tasks(events) > 0
    for topic in (slow, quick):
        before = read_partition(flow.source_servers, topic, 0)
        after = read_partition(
            flow.target_servers, flow.remote(topic), 0, isolation="read_committed"
        )
        copied = contents(after)
        if not once and "Spark ran its task again" in log.read_text():
            # On a very busy machine a first run may take longer than the second waits for it.
            copied = list(dict.fromkeys(copied))
        assert copied == contents(before)


def speculative_tasks(events: Path) -> int:
    """How many Spark began, by its event log."""
    lines = [line for path in events.iterdir() for line in path.read_text().splitlines()]
    found = [json.loads(line) for line in lines if '"SparkListenerTaskStart"' in line]
    return sum(each["Task Info"]["Speculative"] for each in found)
