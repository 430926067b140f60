"""A flow that names a standalone cluster: all of its work is done there, and it says so."""

from __future__ import annotations

import subprocess
import sys
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from deploy.brokers import KafkaCluster
from deploy.brokers.cache import cache_directory
from deploy.brokers.ports import LOOPBACK, PortLease
from deploy.demo.periodic_jobs import CHECKPOINTS, CONFIG_SYNC, engine_of
from deploy.spark_cluster import SparkCluster
from tests.support.flows.backfills import properties_file
from tests.support.flows.mirrored import (
    MirroredFlow,
    assert_equal_logs,
    running,
    stop_cleanly,
    topic_configs,
)
from tests.support.records.groups import commit, committed
from tests.support.records.producing import numbered, produce
from tests.support.served import health_of, metric
from tests.support.spark.flow import START_S
from tests.support.spark.session import QUICK_JVM, SMALL_EXECUTORS, bare_python, of_flow
from tests.support.waiting import wait_until

# Two sessions on a cluster.
pytestmark = pytest.mark.timeout(900)

EVERY = {
    "A->B.sync.topic.configs.enabled": "true",
    "A->B.sync.topic.configs.interval.seconds": "5",
    "A->B.emit.checkpoints.enabled": "true",
    "A->B.emit.checkpoints.interval.seconds": "5",
    "A->B.sync.group.offsets.enabled": "true",
    "A->B.sync.group.offsets.interval.seconds": "5",
}


def test_backfill_copy_sync_and_translation_go_on_there_though_a_worker_is_lost(
    source_cluster: KafkaCluster, target_cluster: KafkaCluster, logs: Path, tmp_path: Path
) -> None:
    """Executors have of ours only what is sent to them. Nothing but the master is named."""
    flow, log = MirroredFlow(source_cluster, target_cluster), logs / "mirror.log"
    topic = flow.topic("t", partitions=2, configs={"retention.ms": "123456789"})
    group = f"{flow.prefix}-group"

    def produced(start: int) -> None:
        for partition in range(2):
            records = numbered(200, start=start, partition=partition)
            produce(flow.source_servers, topic, records, batch_records=20)

    produced(0)
    lease = PortLease(cache_directory() / "ports")
    listener = f"http://{LOOPBACK}:{lease.port}"
    with (
        closing(lease),
        SparkCluster(2, path=[bare_python(tmp_path / "python")], logs=logs) as cluster,
    ):
        small = {**SMALL_EXECUTORS, **QUICK_JVM, "spark.cores.max": "2"}
        named = of_flow({**small, "spark.master": cluster.url})
        properties = flow.properties({**named, **EVERY, "metrics.listener": listener})
        file = properties_file(properties, tmp_path)
        backfill = Path(sys.executable).with_name("connect-mirror-backfill")
        done = subprocess.run(
            [backfill, file], capture_output=True, text=True, timeout=START_S, check=False
        )
        assert done.returncode == 0, done.stderr
        assert "400 records" in done.stdout

        with running(properties, tmp_path, log) as mirror:
            commit(flow.source_servers, group, {(topic, 0): 150})
            produced(200)
            flow.wait_records(topic, [400, 400], START_S)
            cluster.kill_worker(1)
            produced(400)
            flow.wait_records(topic, [600, 600], START_S)
            commit(flow.source_servers, group, {(topic, 0): 550})
            there = {(flow.remote(topic), 0): 550}
            wait_until(
                lambda: committed(flow.target_servers, group) == there, START_S, "the group's place"
            )
            copied = topic_configs(flow.target_servers, flow.remote(topic))
            assert copied["retention.ms"] == "123456789"
            for job in (CONFIG_SYNC, CHECKPOINTS):
                wait_until(partial(on_spark, listener, job), START_S, f"{job} on Spark")
            assert {
                partition["details"]["engine"]
                for connector in health_of(listener)["connectors"]
                for task in connector["tasks"]
                for partition in task["partitions"]
            } == {"spark"}
            stop_cleanly(mirror, log)
    assert_equal_logs(flow, topic)


def on_spark(listener: str, job: str) -> bool:
    """Whether health and metrics say that Spark computed the job's last round."""
    engines = {
        labels["engine"]
        for labels, _ in metric(listener, "kafka_connect_spark_job_metrics")
        if labels["job"].startswith(job) and "engine" in labels
    }
    return engine_of(listener, job) == "spark" and engines == {"spark"}
