"""Workers of a group that write exactly once, killed while they do."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AclOperation, ResourceType

from deploy.brokers import KafkaCluster
from tests.support.records.reading import read_partition
from tests.support.records.topics import create_topic, unique
from tests.support.security.denying import denied
from tests.support.waiting import wait_until
from tests.support.workers.distributed import Group, file_source, worker_group
from tests.support.workers.java_connect import worker_properties
from tests.support.workers.ledgers import PLUGINS, staged
from tests.support.workers.workers import is_healthy

READY_S = 120.0
STRING = "org.apache.kafka.connect.storage.StringConverter"


@pytest.fixture
def group(target_cluster: KafkaCluster, logs: Path, tmp_path: Path) -> Iterator[Group]:
    properties = {
        **worker_properties(target_cluster.bootstrap_servers, unique("once")),
        "key.converter": STRING,
        "value.converter": STRING,
        "exactly.once.source.support": "enabled",
        "session.timeout.ms": "6000",
        "heartbeat.interval.ms": "500",
    }
    with worker_group(2, properties, tmp_path, logs) as found:
        yield found


def owner(group: Group, name: str) -> int:
    """The number of the worker that runs the task."""
    worker_id = group.status(name)["tasks"][0]["worker_id"]
    return next(worker.number for worker in group.workers if worker.worker_id == worker_id)


def test_each_line_is_there_once_after_both_workers_were_killed(
    group: Group, target_cluster: KafkaCluster, tmp_path: Path
) -> None:
    servers = target_cluster.bootstrap_servers
    topic, file = create_topic(servers, "once"), tmp_path / "lines.txt"
    name = unique("lines")
    written = 0

    def write(count: int) -> None:
        nonlocal written
        with file.open("a") as lines:
            lines.write("".join(f"{n}\n" for n in range(written, written + count)))
        written += count

    def values() -> list[bytes | None]:
        return [r.value for r in read_partition(servers, topic, isolation="read_committed")]

    write(5_000)
    config = {**file_source(topic, file), "batch.size": "50", "exactly.once.support": "required"}
    group.create(name, config)
    group.until_running(name, tasks=1)
    for _ in group.workers:
        group.until(lambda: len(values()) > written - 4_000, "some of the lines")
        killed = group.workers[owner(group, name) - 1]
        write(2_000)
        killed.kill()
        group.until_running(name, tasks=1)
        killed.start().await_ready()
        group.until_running(name, tasks=1)
    group.until(lambda: len(values()) >= written, "all lines")
    assert values() == [str(n).encode() for n in range(written)]


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.parametrize("support", ["enabled", "disabled"])
def test_a_worker_starts_though_a_dead_tasks_transaction_is_open(
    target_cluster: KafkaCluster, logs: Path, tmp_path: Path, support: str
) -> None:
    """Offsets are in it, and nobody claims its id: the brokers abort it after a minute."""
    servers, name = target_cluster.bootstrap_servers, unique("once")
    offsets = create_topic(servers, name=f"{name}-offsets", configs={"cleanup.policy": "compact"})
    dead = Producer({"bootstrap.servers": servers, "transactional.id": unique("dead")})
    dead.init_transactions(READY_S)
    dead.begin_transaction()
    dead.produce(offsets, key=b'["dead",{"a":1}]', value=b'{"offset":1}')
    assert dead.flush(READY_S) == 0
    properties = {**worker_properties(servers, name), "exactly.once.source.support": support}
    with worker_group(1, properties, tmp_path, logs, start=False) as group:
        worker = group.workers[0].start()

        def ready() -> bool:
            assert worker.running, "it has ended"
            return is_healthy(worker.url)

        wait_until(ready, READY_S, "the worker")


def test_a_connector_that_gets_other_tasks_fences_out_those_before(
    group: Group, target_cluster: KafkaCluster, tmp_path: Path
) -> None:
    servers = target_cluster.bootstrap_servers
    topic, file = create_topic(servers, "once"), tmp_path / "lines.txt"
    file.write_text("one\n")
    name = unique("lines")

    def has_task_with(size: str) -> bool:
        tasks = group.call("GET", f"/connectors/{name}/tasks").json()
        return [task["config"].get("batch.size") for task in tasks] == [size]

    group.create(name, file_source(topic, file))
    group.until_running(name, tasks=1)
    for size in ("10", "20"):
        changed = {**file_source(topic, file), "batch.size": size}
        group.accepted("PUT", f"/connectors/{name}/config", changed)
        group.until(partial(has_task_with, size), "the task's new config")
        group.until_running(name, tasks=1)
    group.accepted("PUT", f"/connectors/{name}/stop")
    group.accepted("DELETE", f"/connectors/{name}/offsets")
    group.accepted("PUT", f"/connectors/{name}/resume")
    group.until_running(name, tasks=1)
    group.until(
        lambda: (
            [r.value for r in read_partition(servers, topic, isolation="read_committed")]
            == [b"one", b"one"]
        ),
        "the line again, as its offset was reset",
    )


def failures(group: Group, name: str) -> list[str]:
    """The traces of failed tasks."""
    return [task["trace"] for task in group.status(name)["tasks"] if task["state"] == "FAILED"]


def test_tasks_that_may_not_be_fenced_out_fail_on_every_worker(
    permitting_cluster: KafkaCluster, logs: Path, tmp_path: Path
) -> None:
    servers, name = permitting_cluster.bootstrap_servers, unique("staged")
    properties = {
        **worker_properties(servers, unique("once")),
        "exactly.once.source.support": "enabled",
        "plugin.path": str(PLUGINS),
    }
    denied_id = f"{properties['group.id']}-{name}-0"

    with worker_group(2, properties, tmp_path, logs) as group:
        group.create(name, staged(2))
        status = group.until_running(name, tasks=2)
        assert len({task["worker_id"] for task in status["tasks"]}) == 2
        with denied(servers, denied_id, AclOperation.ALL, ResourceType.TRANSACTIONAL_ID):
            group.accepted("PUT", f"/connectors/{name}/config", staged(2, mark="2"))
            group.until(lambda: len(failures(group, name)) == 2, "two failed tasks")
            for trace in failures(group, name):
                assert "Failed to perform zombie fencing" in trace
                assert "TRANSACTIONAL_ID_AUTHORIZATION_FAILED" in trace
        group.accepted("POST", f"/connectors/{name}/restart?includeTasks=true&onlyFailed=true")
        group.until_running(name, tasks=2)
