"""Executors of a cluster come while there is lag, and go when it is gone."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from deploy.brokers import KafkaCluster
from deploy.spark_cluster import SparkCluster
from tests.support.flows.mirrored import MirroredFlow, assert_equal_logs, running, stop_cleanly
from tests.support.records.producing import numbered, produce
from tests.support.records.topics import end_offset
from tests.support.spark.flow import SPARK, START_S
from tests.support.spark.session import QUICK_JVM, SMALL_EXECUTORS, of_flow
from tests.support.waiting import wait_until

# A cluster with up to three executors.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]

MOST, PARTITIONS, RECORDS = 3, 6, 150_000
RATE = "1500kB"
"""The records of 1000 bytes are copied for ten minutes, if nobody changes the limit."""
GROWING = {
    **SMALL_EXECUTORS,
    **QUICK_JVM,
    "spark.pyspark.python": sys.executable,
    "spark.dynamicAllocation.enabled": "true",
    "spark.dynamicAllocation.minExecutors": "1",
    "spark.dynamicAllocation.maxExecutors": str(MOST),
    "spark.dynamicAllocation.executorIdleTimeout": "10s",
}


def test_executors_grow_under_lag_and_go_when_it_is_gone(
    source_cluster: KafkaCluster, target_cluster: KafkaCluster, logs: Path, tmp_path: Path
) -> None:
    flow, log = MirroredFlow(source_cluster, target_cluster), logs / "mirror.log"
    topic = flow.topic("t", partitions=PARTITIONS)
    for partition in range(PARTITIONS):
        records = numbered(RECORDS // PARTITIONS, partition=partition, size=1000)
        produce(flow.source_servers, topic, records, batch_records=20)
    with SparkCluster(1, cores=MOST, memory="2g", logs=logs) as cluster:
        properties = {**SPARK, **of_flow({**GROWING, "spark.master": cluster.url})}
        slow = flow.properties({**properties, "A->B.mirror.rate.bytes": RATE})
        with running(slow, tmp_path, log) as mirror:
            wait_until(lambda: len(cluster.executors()) == 1, START_S, "the first executor")
            wait_until(lambda: len(cluster.executors()) == MOST, START_S, "all executors")
            copied = end_offset(flow.target_servers, flow.wait_created(topic))
            assert copied < RECORDS // PARTITIONS, "the lag was gone too soon for the test"
            # The mirror looks at its file every second.
            file = tmp_path / "mm2.properties"
            file.write_text(file.read_text().replace(RATE, "1GB"))
            flow.wait_records(topic, [RECORDS // PARTITIONS] * PARTITIONS, START_S)
            wait_until(lambda: len(cluster.executors()) == 1, START_S, "idle executors go")
            stop_cleanly(mirror, log)
    assert_equal_logs(flow, topic)
