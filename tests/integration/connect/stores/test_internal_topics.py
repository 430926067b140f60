"""Workers of a group whose internal topics cannot be created or used."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka.admin import NewTopic

from deploy.brokers import KafkaCluster, KafkaRuntime
from tests.support.records.topics import admin, create_topic, unique
from tests.support.rest import call
from tests.support.waiting import wait_until
from tests.support.workers.distributed import GroupWorker
from tests.support.workers.java_connect import worker_properties

WAIT_S = 60.0


@pytest.mark.parametrize("kind", ["offset", "status", "config"])
def test_health_names_the_topic_that_a_starting_worker_waits_for(
    target_cluster: KafkaCluster, logs: Path, tmp_path: Path, kind: str
) -> None:
    """The cluster has one broker, so a topic of three replicas has to wait for others."""
    properties = {
        **worker_properties(target_cluster.bootstrap_servers, unique("group")),
        f"{kind}.storage.replication.factor": "3",
    }
    worker = GroupWorker(1, properties, tmp_path, logs)
    try:
        worker.start()

        def told() -> bool:
            try:
                answer = call(worker.url, "GET", "/health")
            except OSError:
                return False  # It does not listen yet.
            assert answer.status == 503
            return f"creating or reading the {kind} storage topic" in answer.json()["message"]

        wait_until(told, WAIT_S, "the step in /health")
    finally:
        worker.close()


@pytest.mark.parametrize(
    ("kind", "configs"),
    [
        ("config", {"cleanup.policy": "delete"}),
        ("offset", {"cleanup.policy": "compact,delete"}),
        ("status", {}),  # the brokers' default
    ],
    ids=["config-delete", "offset-both", "status-default"],
)
def test_a_topic_that_is_not_compacted_ends_the_worker_and_is_named(
    target_cluster: KafkaCluster, logs: Path, tmp_path: Path, kind: str, configs: dict[str, str]
) -> None:
    properties = worker_properties(target_cluster.bootstrap_servers, unique("group"))
    topic = properties[f"{kind}.storage.topic"]
    new = NewTopic(topic, 1, 1, config=configs)
    admin(target_cluster.bootstrap_servers).create_topics([new])[topic].result(30)
    worker = GroupWorker(1, properties, tmp_path, logs)
    try:
        assert worker.start().process.wait(WAIT_S) == 78
    finally:
        worker.close()
    output = (logs / "worker-1.log").read_text()
    assert topic in output
    assert "cleanup.policy" in output
    assert "Traceback" not in output


@pytest.mark.slow
def test_topics_that_the_brokers_compact_by_default_will_do(
    kafka: KafkaRuntime, logs: Path, tmp_path: Path
) -> None:
    compacting = {"log.cleanup.policy": "compact"}
    with KafkaCluster(name="compacting", properties=compacting, kafka=kafka, logs=logs) as cluster:
        properties = worker_properties(cluster.bootstrap_servers, unique("group"))
        for kind in ("config", "offset", "status"):
            create_topic(cluster.bootstrap_servers, name=properties[f"{kind}.storage.topic"])
        worker = GroupWorker(1, properties, tmp_path, logs)
        try:
            worker.start().await_ready()
            worker.stop()
        finally:
            worker.close()
