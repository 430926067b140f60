"""Clusters of old Kafka versions, with ZooKeeper where they need it, end with their owner."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from deploy.brokers import OLD_VERSIONS, KafkaCluster, kafka_runtime
from deploy.brokers.versions import has_kraft
from tests.support.records.producing import numbered, produce
from tests.support.records.reading import read_partition
from tests.support.records.topics import create_topic
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.parametrize("version", OLD_VERSIONS)]


def test_data_and_ports_survive_a_kill_and_a_stop(version: str, logs: Path) -> None:
    kafka = kafka_runtime(version=version)
    with KafkaCluster(kafka=kafka, name=f"kafka-{version}", logs=logs) as cluster:
        servers = cluster.bootstrap_servers
        topic = create_topic(servers)
        produce(servers, topic, numbered(100), compression="lz4")
        before = read_partition(servers, topic)
        cluster.node(1).kill()
        cluster.node(1).start()
        assert read_partition(servers, topic) == before
        cluster.stop()
        cluster.restart()
        assert cluster.bootstrap_servers == servers
        assert read_partition(servers, topic) == before
    written = f"Kafka version: {version}"
    assert written in (logs / f"kafka-{version}-1.log").read_text()


def test_three_brokers_form_a_cluster(version: str, logs: Path) -> None:
    with KafkaCluster(3, kafka=kafka_runtime(version=version), logs=logs) as cluster:
        servers = cluster.bootstrap_servers
        topic = create_topic(servers, replication=3, configs={"min.insync.replicas": "2"})
        produce(servers, topic, numbered(10))
        assert len(read_partition(servers, topic)) == 10


OWNER = """
import sys, threading
from pathlib import Path
from deploy.brokers import KafkaCluster, kafka_runtime
cluster = KafkaCluster(kafka=kafka_runtime(version=sys.argv[1]), logs=Path(sys.argv[2])).start()
print(cluster.node(1).directory.parent, flush=True)
threading.Event().wait(120)
"""


def test_nothing_outlives_an_owner_that_is_killed(version: str, logs: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", OWNER, version, str(logs)], stdout=subprocess.PIPE, text=True
    ) as owner:
        assert owner.stdout is not None
        directory = Path(owner.stdout.readline().strip())
        children = [
            each for each in psutil.Process(owner.pid).children(recursive=True) if _is_java(each)
        ]
        assert len(children) == (1 if has_kraft(version) else 2)
        os.kill(owner.pid, signal.SIGKILL)
    wait_until(
        lambda: not any(_running(each) for each in children), 10, "end of broker and ZooKeeper"
    )
    wait_until(lambda: not directory.exists(), 10, "removal of the orphaned data")


def _is_java(process: psutil.Process) -> bool:
    return process.name() == "java"


def _running(process: psutil.Process) -> bool:
    return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
