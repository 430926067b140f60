"""Exactly-once beside Java's: one connector's task, run by either worker in turn."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from connect.clock import Deadline
from connect.config.worker import WorkerConfig
from connect.metrics.registry import MetricRegistry
from connect.runtime.offset_management import ConnectorOffsets
from connect.runtime.offset_stores import task_transactional_id
from connect.runtime.plugins.registry import PluginRegistry
from connect.runtime.rest_entities import OffsetEntry
from connect.runtime.source.exactly_once_task import ExactlyOncePlan
from connect.runtime.states import InstanceId, State
from connect.runtime.worker import Worker
from connectors.mirror.heartbeat import MirrorHeartbeatTask
from connectors.mirror.plugins import register
from deploy.brokers import KafkaCluster, KafkaRuntime
from tests.support.records.reading import ReadRecord, read_partition
from tests.support.records.topics import has_topic, unique
from tests.support.waiting import wait_until
from tests.support.workers.java_connect import JavaWorker, java_worker, worker_properties

TIMEOUT_S = 60.0
TASK = InstanceId("beat", 0)
GROUP = unique("once")
OFFSETS = f"{GROUP}-own-offsets"
KEY = b'["beat",{"sourceClusterAlias":"A","targetClusterAlias":"B"}]'
EXACTLY_ONCE = {
    "exactly.once.source.support": "enabled",
    "offset.storage.partitions": "1",
    "offset.flush.interval.ms": "500",
}


@pytest.fixture
def java(
    kafka: KafkaRuntime, target_cluster: KafkaCluster, tmp_path: Path, logs: Path
) -> Iterator[JavaWorker]:
    properties = worker_properties(target_cluster.bootstrap_servers, GROUP, EXACTLY_ONCE)
    with java_worker(kafka, properties, tmp_path, logs / "java.log") as worker:
        yield worker


@pytest.fixture
def ours(target_cluster: KafkaCluster) -> Iterator[Worker]:
    """A worker with the configuration of Java's, outside its group."""
    plugins = PluginRegistry(discover=False)
    register(plugins)
    properties = worker_properties(target_cluster.bootstrap_servers, GROUP, EXACTLY_ONCE)
    config = WorkerConfig.from_properties(properties)
    worker = Worker(config, plugins, MetricRegistry(), worker_id="ours", exactly_once=True)
    worker.start(Deadline(TIMEOUT_S))
    yield worker
    worker.stop(Deadline(10))


def connector(servers: str) -> dict[str, str]:
    return {
        "name": TASK.connector,
        "connector.class": "org.apache.kafka.connect.mirror.MirrorHeartbeatConnector",
        "source.cluster.alias": "A",
        "target.cluster.alias": "B",
        "source.cluster.bootstrap.servers": servers,
        "target.cluster.bootstrap.servers": servers,
        "heartbeats.topic.replication.factor": "1",
        "emit.heartbeats.interval.seconds": "1",
        "offsets.storage.topic": OFFSETS,
    }


def stored(servers: str) -> list[ReadRecord]:
    return read_partition(servers, OFFSETS, isolation="read_committed")


def task_of(java: JavaWorker) -> dict[str, Any]:
    status: dict[str, Any] = java.get(f"/connectors/{TASK.connector}/tasks/0/status")
    return status


def test_either_worker_takes_a_task_over_from_the_other(
    java: JavaWorker, ours: Worker, target_cluster: KafkaCluster
) -> None:
    servers = target_cluster.bootstrap_servers
    config = connector(servers)
    java.put_through("POST", "/connectors", {"name": TASK.connector, "config": config})
    by_java = wait_until(lambda: _stored_now(servers), TIMEOUT_S, "an offset that Java stored")
    assert by_java[-1].key == KEY

    # What Java stored is what ours reads, and as Java's REST shows it.
    shown = java.get(f"/connectors/{TASK.connector}/offsets")["offsets"]
    found = ConnectorOffsets(ours).read(TASK.connector, config, Deadline(TIMEOUT_S))
    assert found == [OffsetEntry(entry["partition"], entry["offset"]) for entry in shown]

    # Ours claims the transactional id: Java's task is fenced out, and says so.
    plan = ExactlyOncePlan(task_transactional_id(GROUP, TASK), lambda: None, lambda: None)
    task_config = {**config, "source.cluster.alias": "A", "target.cluster.alias": "B"}
    host = ours.make_task(
        TASK, MirrorHeartbeatTask, config, task_config, paused=False, exactly_once=plan
    )
    host.start()
    wait_until(lambda: task_of(java)["state"] == "FAILED", TIMEOUT_S, "failure of Java's task")
    # Which of the two it is depends on what it was doing: producing, or ending a transaction.
    assert re.search("InvalidProducerEpoch|ProducerFenced", task_of(java)["trace"])
    before = len(stored(servers))
    records = wait_until(lambda: stored(servers)[before:], TIMEOUT_S, "an offset that ours stored")
    assert {(record.key, record.value) for record in records} == {(KEY, by_java[-1].value)}

    # And back: Java's task, started anew, fences ours out.
    java.put_through("POST", f"/connectors/{TASK.connector}/tasks/0/restart")
    trace = wait_until(lambda: _failure(ours), TIMEOUT_S, "failure of our task")
    assert "Another producer has claimed" in str(trace)
    assert not host.alive
    # Java claims the id, which fences ours, before it writes that its task runs.
    wait_until(lambda: task_of(java)["state"] == "RUNNING", TIMEOUT_S, "Java's task RUNNING")
    assert host.join(Deadline(5))


def _failure(worker: Worker) -> str | None:
    status = worker.statuses.get(TASK)
    return status.trace if status is not None and status.state is State.FAILED else None


def _stored_now(servers: str) -> list[ReadRecord]:
    return stored(servers) if has_topic(servers, OFFSETS) else []
