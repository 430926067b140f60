"""One contract, every config store: memory, and a topic on a broker with and without fencing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import pytest

from connect.clients.librdkafka.topic_log import TopicSpec
from connect.clock import Deadline
from connect.errors import ConfigError
from connect.storage.config_records import RestartRequest, SessionKey
from connect.storage.config_state import ClusterConfigState
from connect.storage.config_store import (
    ConfigStore,
    ConfigWriteFailed,
    PrivilegedWriteFailed,
    WritePrivilegesMissing,
)
from connect.storage.instance_id import InstanceId, TargetState
from connect.storage.kafka_config_store import KafkaConfigStore
from connect.storage.memory_status_store import MemoryConfigStore
from deploy.brokers import KafkaCluster
from tests.support.records.producing import Record, produce
from tests.support.records.reading import read_partition
from tests.support.records.topics import create_topic, unique
from tests.support.waiting import wait_until

CONFIG = {"name": "c", "connector.class": "X", "tasks.max": "2"}
TASKS = [{"task.class": "T", "n": "0"}, {"task.class": "T", "n": "1"}]
KEY = SessionKey(bytes(range(32)), "HmacSHA256", 1_700_000_000_000)
OpenStore = Callable[..., KafkaConfigStore]


class Heard:
    """A listener that writes down what it hears."""

    def __init__(self) -> None:
        self.events: list[tuple[object, ...]] = []

    def on_connector_config_update(self, connector: str) -> None:
        self.events.append(("config", connector))

    def on_connector_config_remove(self, connector: str) -> None:
        self.events.append(("removed", connector))

    def on_task_config_update(self, tasks: Sequence[InstanceId]) -> None:
        self.events.append(("tasks", *sorted(tasks)))

    def on_connector_target_state_change(self, connector: str) -> None:
        self.events.append(("target", connector))

    def on_session_key_update(self, key: SessionKey) -> None:
        self.events.append(("key", key))

    def on_restart_request(self, request: RestartRequest) -> None:
        self.events.append(("restart", request))

    def on_logger_level(self, namespace: str, level: str) -> None:
        self.events.append(("logger", namespace, level))


def kafka_store(
    cluster: KafkaCluster,
    topic: str,
    *,
    transactional_id: str | None = None,
    read_committed: bool = False,
) -> KafkaConfigStore:
    return KafkaConfigStore(
        TopicSpec(topic, 1, 1),
        {"bootstrap.servers": cluster.bootstrap_servers, "client.id": f"{topic}-configs"},
        transactional_id=transactional_id,
        read_committed=read_committed,
    )


@pytest.fixture
def open_store(target_cluster: KafkaCluster) -> Iterator[OpenStore]:
    """Stores on topics; they are closed after the test."""
    opened: list[KafkaConfigStore] = []

    def open_one(
        topic: str, *, transactional_id: str | None = None, listener: Heard | None = None
    ) -> KafkaConfigStore:
        store = kafka_store(
            target_cluster,
            topic,
            transactional_id=transactional_id,
            read_committed=transactional_id is not None,
        )
        opened.append(store)
        if listener is not None:
            store.set_listener(listener)
        store.start(Deadline(30))
        return store

    yield open_one
    for store in opened:
        store.stop(Deadline(10))


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.fixture(params=["memory", "kafka", "kafka-transactional"])
def store(request: pytest.FixtureRequest, heard: Heard) -> Iterator[ConfigStore]:
    opened: ConfigStore
    if request.param == "memory":
        opened = MemoryConfigStore()
    else:
        fenced = request.param == "kafka-transactional"
        opened = kafka_store(
            request.getfixturevalue("target_cluster"),
            unique("configs"),
            transactional_id=unique("connect-cluster") if fenced else None,
            read_committed=fenced,
        )
    opened.set_listener(heard)
    opened.start(Deadline(30))
    opened.claim_write_privileges(Deadline(30))
    yield opened
    opened.stop(Deadline(10))


def settled(
    store: ConfigStore, condition: Callable[[ClusterConfigState], bool]
) -> ClusterConfigState:
    """A snapshot that fits; for what is written without reading it back."""
    wait_until(lambda: condition(store.snapshot()), 20, "the change to be read")
    return store.snapshot()


def test_a_new_store_is_empty(store: ConfigStore) -> None:
    state = store.snapshot()
    assert (state.offset, state.connectors(), state.session_key) == (-1, [], None)


def test_a_connector_is_there_when_the_write_returns(store: ConfigStore, heard: Heard) -> None:
    store.put_connector_config("c", CONFIG)
    state = store.snapshot()
    assert state.connectors() == ["c"]
    assert state.connector_config("c") == CONFIG
    assert state.target_state("c") is TargetState.STARTED
    assert store.contains("c")
    assert not store.contains("d")
    assert heard.events == [("config", "c")]


def test_a_connector_may_begin_in_another_target_state(store: ConfigStore, heard: Heard) -> None:
    store.put_connector_config("c", CONFIG, TargetState.STOPPED)
    assert store.snapshot().target_state("c") is TargetState.STOPPED
    assert heard.events == [("config", "c")], "a state before its connector is no news"


def test_tasks_come_into_force_together(store: ConfigStore, heard: Heard) -> None:
    store.put_connector_config("c", CONFIG)
    before = store.snapshot()
    store.put_task_configs("c", TASKS)
    after = store.snapshot()
    assert (before.tasks("c"), before.task_config_generation("c")) == ([], None)
    assert after.tasks("c") == [InstanceId("c", 0), InstanceId("c", 1)]
    assert after.raw_task_configs("c") == TASKS
    assert after.applied_connector_config("c") == CONFIG
    assert after.task_config_generation("c") == 0
    assert after.pending_fencing("c")
    assert heard.events[1:] == [("tasks", InstanceId("c", 0), InstanceId("c", 1))]


def test_no_tasks_is_a_commit_too(store: ConfigStore, heard: Heard) -> None:
    store.put_connector_config("c", CONFIG)
    store.put_task_configs("c", TASKS)
    store.put_task_configs("c", [])
    assert store.snapshot().tasks("c") == []
    assert heard.events[-1] == ("tasks",)


def test_fencing_is_done_when_the_task_count_was_recorded(store: ConfigStore) -> None:
    store.put_connector_config("c", CONFIG)
    store.put_task_configs("c", TASKS)
    store.put_task_count_record("c", 2)
    state = store.snapshot()
    assert (state.task_count_record("c"), state.pending_fencing("c")) == (2, False)


def test_a_removed_connector_is_gone_with_its_tasks_and_target_state(
    store: ConfigStore, heard: Heard
) -> None:
    store.put_connector_config("c", CONFIG, TargetState.PAUSED)
    store.put_task_configs("c", TASKS)
    store.remove_connector_config("c")
    state = store.snapshot()
    assert state.connectors() == []
    assert state.connector_config("c") is None
    assert state.tasks("c") == []
    assert state.task_config(InstanceId("c", 0)) is None
    assert state.target_state("c") is None
    assert heard.events[-1] == ("removed", "c")


def test_a_target_state_shows_once_it_is_read(store: ConfigStore, heard: Heard) -> None:
    store.put_connector_config("c", CONFIG)
    store.put_target_state("c", TargetState.PAUSED)
    settled(store, lambda state: state.target_state("c") is TargetState.PAUSED)
    store.put_target_state("c", TargetState.PAUSED)
    store.put_target_state("c", TargetState.STARTED)
    store.refresh(Deadline(20))
    assert heard.events == [("config", "c"), ("target", "c"), ("target", "c")]


def test_a_session_key_is_handed_on(store: ConfigStore, heard: Heard) -> None:
    store.put_session_key(KEY)
    assert store.snapshot().session_key == KEY
    assert heard.events == [("key", KEY)]


def test_restarts_and_logger_levels_are_handed_on(store: ConfigStore, heard: Heard) -> None:
    request = RestartRequest("c", only_failed=True, include_tasks=False)
    store.put_restart_request(request)
    store.put_logger_level("org.x", "Debug")
    store.refresh(Deadline(20))
    assert heard.events == [("restart", request), ("logger", "org.x", "Debug")]


def test_another_store_reads_the_same_state_but_no_old_news(open_store: OpenStore) -> None:
    topic = unique("configs")
    first = open_store(topic)
    first.put_connector_config("c", CONFIG)
    first.put_task_configs("c", TASKS)
    first.put_session_key(KEY)
    first.put_restart_request(RestartRequest("c", only_failed=False, include_tasks=True))
    heard = Heard()
    second = open_store(topic, listener=heard)
    assert second.snapshot().offset == first.snapshot().offset == 6
    assert second.snapshot().raw_task_configs("c") == TASKS
    assert second.snapshot().session_key == KEY
    assert heard.events == []
    first.put_target_state("c", TargetState.STOPPED)
    second.refresh(Deadline(20))
    assert heard.events == [("target", "c")]


def test_the_offset_counts_no_transaction_markers(open_store: OpenStore) -> None:
    """Workers compare this offset, so it must be Java's: one after the last record."""
    store = open_store(unique("configs"), transactional_id=unique("connect-cluster"))
    store.claim_write_privileges(Deadline(30))
    store.put_connector_config("c", CONFIG)
    store.put_connector_config("c", CONFIG)
    assert store.snapshot().offset == 3, "record, marker, record, marker"


def test_records_that_are_not_json_do_not_count_but_unknown_ones_do(
    target_cluster: KafkaCluster, open_store: OpenStore
) -> None:
    topic = unique("configs")
    store = open_store(topic)
    servers = target_cluster.bootstrap_servers
    produce(servers, topic, [Record(b"{}", b"whatever"), Record(b"not json", b"connector-c")])
    store.refresh(Deadline(20))
    assert store.snapshot().offset == 1


def test_what_is_written_has_javas_bytes_in_javas_order(
    target_cluster: KafkaCluster, open_store: OpenStore
) -> None:
    topic = unique("configs")
    store = open_store(topic)
    store.put_connector_config("c", {"b": "2", "a": None}, TargetState.STOPPED)
    store.put_task_configs("c", [{"n": "0"}])
    store.put_restart_request(RestartRequest("c", only_failed=False, include_tasks=True))
    store.put_task_count_record("c", 1)
    store.put_session_key(KEY)
    store.put_logger_level("root", "TRACE")
    store.remove_connector_config("c")
    records = read_partition(target_cluster.bootstrap_servers, topic)
    assert [(record.key, record.value) for record in records] == [
        (b"target-state-c", b'{"state":"PAUSED","state.v2":"STOPPED"}'),
        (b"connector-c", b'{"properties":{"b":"2","a":null}}'),
        (b"task-c-0", b'{"properties":{"n":"0"}}'),
        (b"commit-c", b'{"tasks":1}'),
        (b"restart-connector-c", b'{"include-tasks":true,"only-failed":false}'),
        (b"tasks-fencing-c", b'{"task-count":1}'),
        (
            b"session-key",
            b'{"key":"AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=","algorithm":"HmacSHA256",'
            b'"creation-timestamp":1700000000000}',
        ),
        (b"logger-cluster-root", b'{"level":"TRACE"}'),
        (b"connector-c", None),
        (b"target-state-c", None),
    ]


def test_leaders_fence_each_other_and_may_claim_again(open_store: OpenStore) -> None:
    topic, group = unique("configs"), unique("connect-cluster")
    old = open_store(topic, transactional_id=group)
    new = open_store(topic, transactional_id=group)
    old.claim_write_privileges(Deadline(30))
    old.put_connector_config("c", CONFIG)
    new.claim_write_privileges(Deadline(30))
    with pytest.raises(PrivilegedWriteFailed, match="Failed to perform fencable send"):
        old.put_connector_config("c", {"name": "stale"})
    new.refresh(Deadline(20))
    assert new.snapshot().connector_config("c") == CONFIG
    with pytest.raises(WritePrivilegesMissing, match="without claiming write privileges first"):
        old.put_connector_config("c", {"name": "stale"})
    old.put_target_state("c", TargetState.PAUSED)
    old.claim_write_privileges(Deadline(30))
    old.put_connector_config("c", {"name": "newest"})
    new.refresh(Deadline(20))
    assert new.snapshot().connector_config("c") == {"name": "newest"}
    assert new.snapshot().target_state("c") is TargetState.PAUSED


def test_a_topic_of_several_partitions_is_refused(target_cluster: KafkaCluster) -> None:
    topic = create_topic(
        target_cluster.bootstrap_servers,
        "configs",
        partitions=2,
        configs={"cleanup.policy": "compact"},
    )
    store = kafka_store(target_cluster, topic)
    try:
        with pytest.raises(ConfigError, match=r"single partition.*but found 2 partitions"):
            store.start(Deadline(30))
    finally:
        store.stop(Deadline(10))


def test_writing_to_a_closed_store_fails_and_says_what(open_store: OpenStore) -> None:
    store = open_store(unique("configs"))
    store.stop(Deadline(10))
    with pytest.raises(ConfigWriteFailed, match="Error writing connector configuration to Kafka"):
        store.put_connector_config("c", CONFIG)
