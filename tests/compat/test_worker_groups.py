"""Our members and Java's workers in one Connect group, either of them leading."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from connect.clients.librdkafka.topic_log import TopicSpec
from connect.clock import Deadline
from connect.protocol.membership import ConnectorTask
from connect.runtime.distributed.assignment import ConfigView
from connect.storage.instance_id import InstanceId, State
from connect.storage.kafka_config_store import KafkaConfigStore
from connect.storage.status_records import InstanceStatus
from connect.storage.status_store import KafkaStatusStore
from deploy.brokers import KafkaCluster, KafkaRuntime
from tests.support.records.topics import create_topic, unique
from tests.support.waiting import wait_until
from tests.support.workers.java_connect import JavaWorker, java_worker, worker_properties
from tests.support.workers.members import QUICK, TestMember

CONNECTOR = "numbers"
TASKS = 3
MOVE_S = 60.0


class Ours:
    """Our member, which says of what it is assigned that it runs."""

    def __init__(self, member: TestMember, statuses: KafkaStatusStore) -> None:
        self.member = member
        self._statuses = statuses
        self._said: dict[ConnectorTask, int] = {}

    def running(self) -> set[ConnectorTask]:
        assignment = self.member.assignment
        running = set() if assignment is None or assignment.revoked else set(assignment.assigned)
        generation = self.member.member.generation
        for connector, task in running - self._said.keys():
            status = InstanceStatus(State.RUNNING, f"{self.member.name}:8083", generation)
            self._statuses.put(InstanceId(connector, task), status)
        self._said = dict.fromkeys(running, generation)
        return running

    def until(self, condition: Callable[[], object], what: str) -> None:
        self.member.until(condition, what, MOVE_S)


class WorkerGroup:
    """A group of Java workers and test members, with one connector of three tasks."""

    def __init__(
        self, kafka: KafkaRuntime, servers: str, directory: Path, logs: Path, protocol: str
    ) -> None:
        self.name = unique("connect-group")
        self._kafka = kafka
        self._servers = servers
        self._directory = directory
        self._logs = logs
        self.protocol = protocol
        self._java = 0

    @contextmanager
    def java(self) -> Iterator[JavaWorker]:
        self._java += 1
        properties = worker_properties(
            self._servers,
            self.name,
            {
                "connect.protocol": self.protocol,
                "session.timeout.ms": str(QUICK.session_ms),
                "heartbeat.interval.ms": str(QUICK.heartbeat_ms),
            },
        )
        log = self._logs / f"java-{self._java}.log"
        with java_worker(self._kafka, properties, self._directory, log) as worker:
            yield worker

    @contextmanager
    def ours(self) -> Iterator[Ours]:
        configs = KafkaConfigStore(
            TopicSpec(f"{self.name}-configs", 1, 1), {"bootstrap.servers": self._servers}
        )
        statuses = KafkaStatusStore(
            TopicSpec(f"{self.name}-status", 5, 1), {"bootstrap.servers": self._servers}
        )
        configs.start(Deadline(30))
        statuses.start(Deadline(30))

        def config() -> ConfigView:
            configs.refresh(Deadline(20))
            state = configs.snapshot()
            return ConfigView(
                state.offset, {name: len(state.tasks(name)) for name in state.connectors()}
            )

        member = TestMember(
            self._servers,
            self.name,
            unique("ours"),
            config,
            connect_protocol=self.protocol,
        )
        try:
            yield Ours(member.start(), statuses)
        finally:
            member.stop()
            statuses.stop(Deadline(10))
            configs.stop(Deadline(10))

    def create(self, java: JavaWorker) -> None:
        topic = create_topic(self._servers, partitions=TASKS)
        config: Mapping[str, str] = {
            "connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector",
            "tasks.max": str(TASKS),
            "topics": topic,
            "source.cluster.alias": "here",
            "target.cluster.alias": "there",
            "source.cluster.bootstrap.servers": self._servers,
            "target.cluster.bootstrap.servers": self._servers,
            "replication.factor": "1",
            "emit.offset-syncs.enabled": "false",
            "sync.topic.acls.enabled": "false",
            "sync.topic.configs.enabled": "false",
        }
        java.put_through("PUT", f"/connectors/{CONNECTOR}/config", config)
        wait_until(lambda: len(runs(java)) == TASKS + 1, MOVE_S, "Java runs the connector")


def runs(java: JavaWorker) -> set[ConnectorTask]:
    """What runs on this worker, as it says itself."""
    found, status = java.call("GET", f"/connectors/{CONNECTOR}/status")
    if found != 200:
        return set()
    worker = java.url.removeprefix("http://")
    running = {
        (CONNECTOR, int(task["id"]))
        for task in status["tasks"]
        if task["state"] == "RUNNING" and task["worker_id"] == worker
    }
    connector = status["connector"]
    if connector["state"] == "RUNNING" and connector["worker_id"] == worker:
        running.add((CONNECTOR, -1))
    return running


EVERYTHING = {(CONNECTOR, task) for task in range(-1, TASKS)}


def shared(java: JavaWorker, ours: Ours) -> bool:
    """Whether everything runs, nothing on both, and nobody has two tasks more than the other."""
    here, there = ours.running(), runs(java)
    tasks = sum(task >= 0 for _, task in there)
    return here | there == EVERYTHING and not here & there and tasks in (1, 2)


@pytest.fixture(params=["sessioned", pytest.param("eager", marks=pytest.mark.slow)])
def group(
    request: pytest.FixtureRequest,
    kafka: KafkaRuntime,
    source_cluster: KafkaCluster,
    logs: Path,
    tmp_path: Path,
) -> WorkerGroup:
    return WorkerGroup(kafka, source_cluster.bootstrap_servers, tmp_path, logs, request.param)


def test_both_lead_and_follow(group: WorkerGroup) -> None:
    elected = {"sessioned": "sessioned", "eager": "default"}[group.protocol]
    with group.java() as java:
        group.create(java)
        with group.ours() as ours:
            ours.until(lambda: shared(java, ours), "a share from Java's leader")
            member = ours.member
            assert member.protocol == elected
            assert member.assignment is not None
            assert member.assignment.leader_url == f"{java.url}/"
            assert not any(event.startswith("lead") for event in member.events)
        wait_until(lambda: runs(java) == EVERYTHING, MOVE_S, "Java takes back what we ran")

    with group.ours() as ours:
        ours.until(lambda: ours.running() == EVERYTHING, "all the work for us alone")
        with group.java() as java:
            ours.until(lambda: shared(java, ours), "a share of Java's, by our leader")
            member = ours.member
            assert member.protocol == elected
            assert member.assignment is not None
            assert member.assignment.leader_url == member.url
            assert "lead 2" in member.events
            member.stop()
            wait_until(lambda: runs(java) == EVERYTHING, MOVE_S, "Java to lead, and run all")
