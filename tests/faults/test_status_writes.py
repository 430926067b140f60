"""Statuses whose broker dies are written later, as long as they are still true."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from connect.clients.librdkafka.topic_log import TopicSpec
from connect.clock import Deadline
from connect.storage.instance_id import InstanceId, State
from connect.storage.status_records import InstanceStatus, status_key
from connect.storage.status_store import KafkaStatusStore
from deploy.brokers import KafkaCluster, KafkaRuntime
from tests.support.records.reading import read_partition
from tests.support.records.topics import unique
from tests.support.waiting import wait_until

FIRST, SECOND, THIRD = (InstanceId("c", task) for task in range(3))


@pytest.fixture
def cluster(kafka: KafkaRuntime, logs: Path) -> Iterator[KafkaCluster]:
    with KafkaCluster(name="mortal", kafka=kafka, logs=logs) as running:
        yield running


def status(state: State, generation: int) -> InstanceStatus:
    return InstanceStatus(state, "w:8083", generation)


def written(cluster: KafkaCluster, topic: str, instance: InstanceId) -> list[tuple[str, int]]:
    """(state, generation) of an instance's records, one after the other."""
    found = []
    for partition in range(5):
        for record in read_partition(cluster.bootstrap_servers, topic, partition):
            if record.key == status_key(instance) and record.value is not None:
                value = json.loads(record.value)
                found.append((value["state"], value["generation"]))
    return found


def pause(cluster: KafkaCluster) -> None:
    """Pause the only broker, and wait until it really stands still."""
    cluster.node(1).pause()
    command = ["ps", "-o", "state=", "-p", str(cluster.node(1).pid)]

    def stands_still() -> bool:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)
        return answer.stdout.startswith("T")

    wait_until(stands_still, 10, "the broker to stand still")


def lose_what_is_on_its_way(cluster: KafkaCluster, store: KafkaStatusStore) -> None:
    """Nothing was answered, and the connections end: every request under way has failed."""
    assert not store.flush(Deadline(1.0))
    cluster.node(1).kill()
    assert not store.flush(Deadline(1.0))


def test_only_what_is_still_true_is_written_again(cluster: KafkaCluster) -> None:
    topic = unique("statuses")
    store = KafkaStatusStore(
        TopicSpec(topic, 5, 1), {"bootstrap.servers": cluster.bootstrap_servers}
    )
    store.start(Deadline(30))
    try:
        store.put(FIRST, status(State.RUNNING, 1))
        store.put(SECOND, status(State.RUNNING, 1))
        store.refresh(Deadline(20))
        pause(cluster)
        store.put(FIRST, status(State.PAUSED, 1))
        store.put(FIRST, status(State.FAILED, 2))
        store.put_safe(SECOND, status(State.UNASSIGNED, 1))
        store.put(THIRD, status(State.RUNNING, 2))
        lose_what_is_on_its_way(cluster, store)
        cluster.restart()
        assert store.flush(Deadline(60))
        store.refresh(Deadline(20))
        assert store.get(FIRST) == status(State.FAILED, 2)
        assert store.get(THIRD) == status(State.RUNNING, 2)
    finally:
        store.stop(Deadline(10))
    assert written(cluster, topic, FIRST) == [("RUNNING", 1), ("FAILED", 2)]
    assert written(cluster, topic, SECOND) == [("RUNNING", 1)], "generation 1 is over"


def test_the_barrier_holds_again_after_the_leader_came_back(cluster: KafkaCluster) -> None:
    """Whoever asks for the end of the log asks a leader of another epoch then."""
    store = KafkaStatusStore(
        TopicSpec(unique("statuses"), 5, 1), {"bootstrap.servers": cluster.bootstrap_servers}
    )
    store.start(Deadline(30))
    try:
        store.refresh(Deadline(20))
        cluster.stop()
        cluster.restart()
        store.put(FIRST, status(State.RUNNING, 1))
        store.refresh(Deadline(20))
        assert store.get(FIRST) == status(State.RUNNING, 1)
    finally:
        store.stop(Deadline(10))
