"""A mirror that writes exactly once, its tasks run by Java's worker and by ours: in turns, and in
one group whose workers are killed."""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from connect.clock import Deadline
from deploy.brokers import KafkaCluster, KafkaRuntime
from tests.support.flows.exactly_once_mirror import OnceMirror
from tests.support.records.producing import meanwhile, numbered, produce
from tests.support.records.reading import numbers, read_partition
from tests.support.records.topics import create_topic, unique
from tests.support.waiting import wait_until
from tests.support.workers.java_connect import JavaWorker, java_worker, worker_properties
from tests.support.workers.mixed_group import MixedGroup, mirror_config

TIMEOUT_S = 90.0
PARTITIONS = 2
ROUNDS = 2
NAME = "mirror"


def task_of(java: JavaWorker) -> dict[str, Any]:
    status: dict[str, Any] = java.get(f"/connectors/{NAME}/tasks/0/status")
    return status


@pytest.mark.slow
def test_each_record_is_there_once_whoever_copied_it(
    kafka: KafkaRuntime,
    source_cluster: KafkaCluster,
    target_cluster: KafkaCluster,
    tmp_path: Path,
    logs: Path,
) -> None:
    source, target = source_cluster.bootstrap_servers, target_cluster.bootstrap_servers
    topic = create_topic(source, "turns", partitions=PARTITIONS)
    copy = create_topic(target, name=f"A.{topic}", partitions=PARTITIONS)
    group = unique("turns")
    mirror = OnceMirror(source, target, group, [f"{topic}-{n}" for n in range(PARTITIONS)])
    extra = {
        "exactly.once.source.support": "enabled",
        "offset.storage.partitions": "1",
        "key.converter": "org.apache.kafka.connect.converters.ByteArrayConverter",
        "value.converter": "org.apache.kafka.connect.converters.ByteArrayConverter",
    }
    written = 0

    def write() -> None:
        nonlocal written
        for partition in range(PARTITIONS):
            produce(source, topic, numbered(300, start=written, partition=partition))
        written += 300

    def values(partition: int) -> list[int]:
        found = read_partition(target, copy, partition, isolation="read_committed")
        return numbers(found)

    def arrived(who: str) -> None:
        for partition in range(PARTITIONS):
            wait_until(
                partial(lambda n: values(n)[-1:] == [written - 1], partition), TIMEOUT_S, who
            )
            assert values(partition) == list(range(written)), who

    config = {
        **{key: value for key, value in mirror.config().items() if not key.startswith("task.")},
        "connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector",
        "topics": topic,
        "tasks.max": "1",
        "exactly.once.support": "required",
        "offsets.storage.topic": mirror.offsets_topic,
        "sync.topic.acls.enabled": "false",
        "sync.topic.configs.enabled": "false",
    }
    write()
    with java_worker(
        kafka, worker_properties(target, group, extra), tmp_path, logs / "java.log"
    ) as java:
        java.put_through("POST", "/connectors", {"name": NAME, "config": config})
        arrived("Java copied")
        worker = mirror.worker()
        try:
            for _ in range(ROUNDS):
                ours = mirror.run(worker)
                write()
                arrived("ours copied what came after Java's")
                wait_until(lambda: task_of(java)["state"] == "FAILED", TIMEOUT_S, "Java's task")
                assert re.search("InvalidProducerEpoch|ProducerFenced", task_of(java)["trace"])
                write()
                arrived("ours went on")
                java.put_through("POST", f"/connectors/{NAME}/tasks/0/restart")
                wait_until(
                    lambda: task_of(java)["state"] == "RUNNING", TIMEOUT_S, "Java's task again"
                )
                write()
                arrived("Java copied what came after ours")
                assert "Another producer has claimed" in ours.fails()
        finally:
            worker.stop(Deadline(5))


@pytest.mark.slow
def test_a_group_of_both_copies_each_record_once_whoever_is_killed(
    kafka: KafkaRuntime, target_cluster: KafkaCluster, tmp_path: Path, logs: Path
) -> None:
    servers = target_cluster.bootstrap_servers
    topic = create_topic(servers, "both", partitions=PARTITIONS)
    written = 0

    def write() -> None:
        nonlocal written
        for partition in range(PARTITIONS):
            produce(servers, topic, numbered(50, start=written, partition=partition))
        written += 50

    def values(partition: int) -> list[int]:
        copy = f"here.{topic}"
        found = read_partition(servers, copy, partition, isolation="read_committed")
        return numbers(found)

    config = {
        **mirror_config(servers, topic, PARTITIONS),
        "source.consumer.isolation.level": "read_committed",
        "exactly.once.support": "required",
    }
    properties = {"exactly.once.source.support": "enabled"}
    with MixedGroup(kafka, servers, tmp_path, logs, properties) as group:
        group.start("java")
        group.start("ours")
        group.create(NAME, config)
        group.until_shared(NAME, PARTITIONS)
        with meanwhile(write):
            for side in ("ours", "java"):
                group.kill(side)
                group.until_running(NAME, PARTITIONS)
                group.start(side)
                group.until_shared(NAME, PARTITIONS)
        for partition in range(PARTITIONS):
            wait_until(
                partial(lambda n: values(n)[-1:] == [written - 1], partition),
                TIMEOUT_S,
                "all records",
            )
            assert values(partition) == list(range(written))
