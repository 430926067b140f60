"""Java's workers and our stores share the config, status and offset topics, both ways."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from connect.clients.librdkafka.topic_log import TopicSpec
from connect.clock import SYSTEM_CLOCK, Deadline
from connect.storage import config_records as records
from connect.storage.config_records import (
    ConfigRecord,
    ConnectorConfigRecord,
    LoggerLevel,
    RestartRequest,
    SessionKey,
    TargetStateRecord,
    TaskCommitRecord,
    TaskConfigRecord,
    TaskCountRecord,
    decode_record,
)
from connect.storage.config_state import ClusterConfigState
from connect.storage.instance_id import InstanceId, State, TargetState
from connect.storage.kafka_config_store import KafkaConfigStore
from connect.storage.offset_admin import read_offsets, write_offsets
from connect.storage.offset_store import KafkaOffsetStore
from connect.storage.status_records import (
    InstanceStatus,
    StatusTable,
    TopicStatus,
    encode_status,
    status_key,
)
from connect.storage.status_store import KafkaStatusStore
from deploy.brokers import KafkaCluster, KafkaRuntime
from tests.support.records.reading import ReadRecord, read_partition
from tests.support.records.topics import unique
from tests.support.waiting import wait_until
from tests.support.workers.java_connect import JavaWorker, java_worker, worker_properties

NAME = "heart-beat-1"
TASK = InstanceId(NAME, 0)
APPEAR_S = 60.0
LOGGER = "org.example.some"
TASK_CLASS = "org.apache.kafka.connect.mirror.MirrorHeartbeatTask"


class Heard:
    """A listener that keeps restarts and levels, and nothing else."""

    def __init__(self) -> None:
        self.restarts: list[RestartRequest] = []
        self.levels: list[tuple[str, str]] = []

    def on_connector_config_update(self, connector: str) -> None: ...
    def on_connector_config_remove(self, connector: str) -> None: ...
    def on_task_config_update(self, tasks: Sequence[InstanceId]) -> None: ...
    def on_connector_target_state_change(self, connector: str) -> None: ...
    def on_session_key_update(self, key: SessionKey) -> None: ...
    def on_restart_request(self, request: RestartRequest) -> None:
        self.restarts.append(request)

    def on_logger_level(self, namespace: str, level: str) -> None:
        self.levels.append((namespace, level))


class Stores:
    """Our stores on the topics of a worker group."""

    def __init__(self, servers: str, group: str, *, read_committed: bool) -> None:
        client = {"bootstrap.servers": servers}
        self.servers, self.status_topic = servers, f"{group}-status"
        self.heard = Heard()
        self.configs = KafkaConfigStore(
            TopicSpec(f"{group}-configs", 1, 1), client, read_committed=read_committed
        )
        self.configs.set_listener(self.heard)
        self.statuses = KafkaStatusStore(TopicSpec(self.status_topic, 5, 1), client)
        self.offsets = KafkaOffsetStore(
            TopicSpec(f"{group}-offsets", 25, 1), client, read_committed=read_committed
        )

    def state(self) -> ClusterConfigState:
        self.configs.refresh(Deadline(20))
        return self.configs.snapshot()

    def status(self, instance: InstanceId) -> InstanceStatus | None:
        self.statuses.refresh(Deadline(20))
        return self.statuses.get(instance)

    def has_state(self, instance: InstanceId, state: State) -> bool:
        found = self.status(instance)
        return found is not None and found.state is state


@contextmanager
def opened_stores(servers: str, group: str, *, read_committed: bool = False) -> Iterator[Stores]:
    stores = Stores(servers, group, read_committed=read_committed)
    with ExitStack() as stack:
        for store in (stores.configs, stores.statuses, stores.offsets):
            stack.callback(store.stop, Deadline(10))
            store.start(Deadline(30))
        yield stores


@pytest.fixture
def group() -> str:
    return unique("connect")


def heartbeats(servers: str, name: str = NAME) -> dict[str, str]:
    return {
        "name": name,
        "connector.class": "org.apache.kafka.connect.mirror.MirrorHeartbeatConnector",
        "tasks.max": "1",
        "source.cluster.alias": "source",
        "target.cluster.alias": "target",
        "source.cluster.bootstrap.servers": servers,
        "target.cluster.bootstrap.servers": servers,
        "heartbeats.topic.replication.factor": "1",
        "emit.heartbeats.interval.seconds": "1",
    }


def encoded(record: ConfigRecord) -> tuple[bytes, bytes | None] | None:
    """What our store would write to say the same."""
    match record:
        case ConnectorConfigRecord(name, config):
            value = None if config is None else records.encode_config(config)
            return records.connector_key(name), value
        case TaskConfigRecord(task, config):
            return records.task_key(task), records.encode_config(config)
        case TaskCommitRecord(name, int(tasks)):
            return records.commit_key(name), records.encode_task_commit(tasks)
        case TargetStateRecord(name, state):
            value = None if state is None else records.encode_target_state(state)
            return records.target_state_key(name), value
        case TaskCountRecord(name, tasks):
            return records.task_count_key(name), records.encode_task_count(tasks)
        case SessionKey():
            return records.session_key_key(), records.encode_session_key(record)
        case RestartRequest(name):
            return records.restart_key(name), records.encode_restart_request(record)
        case LoggerLevel(namespace, level):
            return records.logger_key(namespace), records.encode_logger_level(level)
    return None


def assert_config_records_are_ours(servers: str, topic: str) -> None:
    """Everything in the topic is what we would have written, and every kind is there."""
    written = read_partition(servers, topic)
    kinds = set()
    for record in written:
        decoded = decode_record(record.key, record.value)
        assert encoded(decoded) == (record.key, record.value)
        kinds.add(type(decoded))
    assert kinds == {
        ConnectorConfigRecord,
        TaskConfigRecord,
        TaskCommitRecord,
        TargetStateRecord,
        TaskCountRecord,
        SessionKey,
        RestartRequest,
        LoggerLevel,
    }


def assert_statuses_are_ours(written: Sequence[ReadRecord]) -> None:
    for record in written:
        if record.key is None or record.key.startswith(b"status-topic-") or record.value is None:
            continue
        table = StatusTable()
        table.apply(record.key, record.value)
        known = {each: table.get(each) for each in (*map(InstanceId, table.connectors()), TASK)}
        ((instance, status),) = [(each, found) for each, found in known.items() if found]
        assert (status_key(instance), encode_status(status)) == (record.key, record.value)


def shown_status(stores: Stores, instance: InstanceId) -> dict[str, Any]:
    """Our view of an instance in the form of the REST answer."""
    status = stores.status(instance)
    assert status is not None
    shown = {"state": status.state.value, "worker_id": status.worker_id, "version": status.version}
    return {"id": instance.task, **shown} if instance.is_task else shown


def test_our_stores_read_all_that_a_java_worker_writes(
    kafka: KafkaRuntime, target_cluster: KafkaCluster, group: str, logs: Path, tmp_path: Path
) -> None:
    servers = target_cluster.bootstrap_servers
    config = heartbeats(servers)
    # With exactly-once support there are transactions and fencing records, too.
    extra = {"exactly.once.source.support": "enabled", "offset.storage.partitions": "25"}
    properties = worker_properties(servers, group, extra)
    with (
        java_worker(kafka, properties, tmp_path, logs / "java.log") as java,
        opened_stores(servers, group, read_committed=True) as stores,
    ):
        java.put_through("POST", "/connectors", {"name": NAME, "config": config})
        wait_until(lambda: stores.has_state(TASK, State.RUNNING), APPEAR_S, "a running task")
        state = stores.state()
        assert state.connectors() == [NAME]
        assert state.connector_config(NAME) == java.get(f"/connectors/{NAME}/config") == config
        assert [
            {"id": {"connector": NAME, "task": 0}, "config": state.task_config(TASK)}
        ] == java.get(f"/connectors/{NAME}/tasks")
        assert state.task_count_record(NAME) == 1
        assert not state.pending_fencing(NAME)
        assert state.session_key is not None
        assert (len(state.session_key.key), state.session_key.algorithm) == (32, "HmacSHA256")
        shown = java.get(f"/connectors/{NAME}/status")
        assert shown["connector"] == shown_status(stores, InstanceId(NAME))
        assert shown["tasks"] == [shown_status(stores, TASK)]
        assert_topics_and_offsets_agree(java, stores)
        walk_through_states(java, stores)
    assert_config_records_are_ours(servers, f"{group}-configs")
    for partition in range(5):
        assert_statuses_are_ours(read_partition(servers, f"{group}-status", partition))


def assert_topics_and_offsets_agree(java: JavaWorker, stores: Stores) -> None:
    """Heartbeats are one topic, with one source partition."""
    wait_until(lambda: stores.statuses.get_topics(NAME), APPEAR_S, "the topic in use")
    assert java.get(f"/connectors/{NAME}/topics") == {
        NAME: {"topics": [status.topic for status in stores.statuses.get_topics(NAME)]}
    }
    wait_until(lambda: read_offsets(stores.offsets, NAME, Deadline(20)), APPEAR_S, "an offset")
    (found,) = read_offsets(stores.offsets, NAME, Deadline(20))
    (expected,) = java.get(f"/connectors/{NAME}/offsets")["offsets"]
    assert found[0] == expected["partition"]


def walk_through_states(java: JavaWorker, stores: Stores) -> None:
    """Restart, log, pause, resume, stop and delete by REST; our stores follow."""
    java.put_through("POST", f"/connectors/{NAME}/restart?includeTasks=true&onlyFailed=false")
    java.put_through("PUT", f"/admin/loggers/{LOGGER}?scope=cluster", {"level": "DEBUG"})
    stores.state()
    restart = RestartRequest(NAME, only_failed=False, include_tasks=True)
    assert (stores.heard.restarts, stores.heard.levels) == ([restart], [(LOGGER, "DEBUG")])
    java.put_through("PUT", f"/connectors/{NAME}/pause")
    wait_until(lambda: stores.has_state(TASK, State.PAUSED), APPEAR_S, "a paused task")
    assert stores.state().target_state(NAME) is TargetState.PAUSED
    java.put_through("PUT", f"/connectors/{NAME}/resume")
    wait_until(lambda: stores.has_state(TASK, State.RUNNING), APPEAR_S, "a running task")
    assert stores.state().target_state(NAME) is TargetState.STARTED
    java.put_through("PUT", f"/connectors/{NAME}/stop")
    connector = InstanceId(NAME)
    wait_until(lambda: stores.has_state(connector, State.STOPPED), APPEAR_S, "a stopped connector")
    stopped = stores.state()
    assert stopped.target_state(NAME) is TargetState.STOPPED
    assert (stopped.tasks(NAME), stopped.task_count(NAME)) == ([], 0)
    java.put_through("DELETE", f"/connectors/{NAME}")
    assert stores.state().connectors() == []
    assert stores.state().target_state(NAME) is None
    wait_until(lambda: stores.status(connector) is None, APPEAR_S, "no status")
    assert stores.statuses.get_all(NAME) == {}


def test_a_java_worker_reads_all_that_our_stores_write(
    kafka: KafkaRuntime, target_cluster: KafkaCluster, group: str, logs: Path, tmp_path: Path
) -> None:
    servers = target_cluster.bootstrap_servers
    running, paused, stopped, gone = (f"{state}-1" for state in ("run", "pause", "stop", "gone"))
    key = SessionKey(bytes(range(32)), "HmacSHA256", SYSTEM_CLOCK.now_ms())
    with opened_stores(servers, group) as stores:
        write_before(stores, servers, (running, paused, stopped, gone), key)
        with java_worker(
            kafka, worker_properties(servers, group), tmp_path, logs / "java.log"
        ) as java:
            assert sorted(java.get("/connectors")) == [paused, running, stopped]
            assert_shown(java, running, heartbeats(servers, running), "RUNNING", tasks=1)
            assert_shown(java, paused, heartbeats(servers, paused), "PAUSED", tasks=1)
            assert_shown(java, stopped, heartbeats(servers, stopped), "STOPPED", tasks=0)
            assert java.get(f"/connectors/{stopped}/topics") == {stopped: {"topics": ["t"]}}
            assert java.get(f"/connectors/{stopped}/offsets") == {
                "offsets": [{"partition": {"p": "x"}, "offset": {"o": 7}}]
            }
            assert stores.state().session_key == key, "a key in Java's form is not replaced"
            change_while_java_runs(java, stores, running, paused)


def write_before(
    stores: Stores, servers: str, names: tuple[str, str, str, str], key: SessionKey
) -> None:
    """Three connectors and a deleted one, with statuses of a worker that is gone."""
    running, paused, stopped, gone = names
    stores.configs.put_session_key(key)
    initial = {paused: TargetState.PAUSED, stopped: TargetState.STOPPED}
    for name in names:
        config = heartbeats(servers, name)
        stores.configs.put_connector_config(name, config, initial.get(name))
        tasks = [] if name == stopped else [{**config, "task.class": TASK_CLASS}]
        stores.configs.put_task_configs(name, tasks)
        stores.configs.put_task_count_record(name, len(tasks))
        left = InstanceStatus(State.UNASSIGNED, "gone:8083", 1)
        stores.statuses.put(InstanceId(name), left)
    stores.configs.remove_connector_config(gone)
    stores.statuses.put_topic(TopicStatus("t", stopped, 0, 1))
    write_offsets(stores.offsets, stopped, [({"p": "x"}, {"o": 7})], Deadline(20))
    stores.statuses.refresh(Deadline(20))
    assert running in stores.state().connectors()


def assert_shown(
    java: JavaWorker, name: str, config: Mapping[str, str], state: str, *, tasks: int
) -> None:
    assert java.get(f"/connectors/{name}/config") == config

    def settled() -> bool:
        shown = java.get(f"/connectors/{name}/status")
        states = [shown["connector"]["state"], *(task["state"] for task in shown["tasks"])]
        return bool(states == [state] * (1 + tasks))

    wait_until(settled, APPEAR_S, f"{name} with {tasks} tasks to be {state}")
    assert len(java.get(f"/connectors/{name}/tasks")) == tasks


def past_states(stores: Stores, name: str) -> set[State]:
    """All states that the status topic has of a connector's first task."""
    key = status_key(InstanceId(name, 0))
    return {
        State(json.loads(record.value)["state"])
        for partition in range(5)
        for record in read_partition(stores.servers, stores.status_topic, partition)
        if record.key == key and record.value is not None
    }


def change_while_java_runs(java: JavaWorker, stores: Stores, running: str, paused: str) -> None:
    """Target states, levels, restarts, configs and deletions of ours take effect in Java."""
    config = stores.state().connector_config(running)
    assert config is not None
    stores.configs.put_target_state(paused, TargetState.STARTED)
    stores.configs.put_target_state(running, TargetState.PAUSED)
    assert_shown(java, running, config, "PAUSED", tasks=1)
    stores.configs.put_target_state(running, TargetState.STARTED)
    assert_shown(java, running, config, "RUNNING", tasks=1)
    stores.configs.put_logger_level(LOGGER, "TRACE")
    wait_until(
        lambda: java.call("GET", f"/admin/loggers/{LOGGER}")[1].get("level") == "TRACE",
        APPEAR_S,
        "the level of the logger",
    )
    stores.configs.put_restart_request(
        RestartRequest(running, only_failed=False, include_tasks=True)
    )
    wait_until(lambda: State.RESTARTING in past_states(stores, running), APPEAR_S, "a restart")
    changed = {**config, "emit.heartbeats.interval.seconds": "2"}
    stores.configs.put_connector_config(running, changed)
    wait_until(
        lambda: java.get(f"/connectors/{running}/config") == changed, APPEAR_S, "the new config"
    )
    stores.configs.remove_connector_config(paused)
    wait_until(lambda: paused not in java.get("/connectors"), APPEAR_S, "the deletion")
    assert running in java.get("/connectors")
