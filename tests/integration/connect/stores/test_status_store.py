"""One contract, every status store: memory, and a topic on a real broker."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from connect.clients.librdkafka.topic_log import TopicSpec
from connect.clock import Deadline
from connect.storage.instance_id import InstanceId, State
from connect.storage.memory_status_store import MemoryStatusStore
from connect.storage.status_records import InstanceStatus, TopicStatus
from connect.storage.status_store import KafkaStatusStore, StatusStore
from deploy.brokers import KafkaCluster
from tests.support.records.producing import Record, produce
from tests.support.records.reading import read_partition
from tests.support.records.topics import unique
from tests.support.waiting import wait_until

CONNECTOR, TASK = InstanceId("c"), InstanceId("c", 0)
MINE, OTHER = "mine:8083", "other:8083"


def kafka_store(cluster: KafkaCluster, topic: str) -> KafkaStatusStore:
    return KafkaStatusStore(
        TopicSpec(topic, 5, 1),
        {"bootstrap.servers": cluster.bootstrap_servers, "client.id": f"{topic}-statuses"},
    )


def status(state: State, worker: str = MINE, generation: int = 1) -> InstanceStatus:
    return InstanceStatus(state, worker, generation)


@pytest.fixture
def topic() -> str:
    return unique("statuses")


@pytest.fixture
def kafka_opened(target_cluster: KafkaCluster, topic: str) -> Iterator[KafkaStatusStore]:
    store = kafka_store(target_cluster, topic)
    store.start(Deadline(30))
    yield store
    store.stop(Deadline(10))


@pytest.fixture(params=["memory", "kafka"])
def store(request: pytest.FixtureRequest) -> Iterator[StatusStore]:
    if request.param == "kafka":
        yield request.getfixturevalue("kafka_opened")
        return
    memory = MemoryStatusStore()
    memory.start(Deadline(1))
    yield memory
    memory.stop(Deadline(1))


def shown(store: StatusStore) -> StatusStore:
    """The store, when everything put in it shows."""
    store.refresh(Deadline(20))
    return store


def test_an_empty_store_has_nothing(store: StatusStore) -> None:
    assert store.get(CONNECTOR) is None
    assert store.get_all("c") == {}
    assert store.connectors() == set()
    assert store.get_topics("c") == []


def test_what_was_put_is_got(store: StatusStore) -> None:
    failed = InstanceStatus(State.FAILED, MINE, 3, 'java.lang.E: "é"\n\tat x\n', "1.2.3")
    store.put(CONNECTOR, status(State.RUNNING))
    store.put(TASK, failed)
    store.put(InstanceId("c", 11), status(State.PAUSED))
    store.put(InstanceId("c", 2), status(State.PAUSED))
    assert shown(store).get(CONNECTOR) == status(State.RUNNING)
    assert store.get(TASK) == failed
    assert list(store.get_all("c")) == [0, 2, 11]
    assert store.connectors() == {"c"}


def test_the_newest_wins(store: StatusStore) -> None:
    for n in range(50):
        store.put(TASK, status(State.RUNNING, generation=n))
    assert shown(store).get(TASK) == status(State.RUNNING, generation=49)


def test_destroyed_ends_a_status(store: StatusStore) -> None:
    store.put(TASK, status(State.RUNNING))
    store.put(TASK, status(State.DESTROYED))
    assert shown(store).get(TASK) is None


def test_the_end_of_a_connector_is_the_end_of_its_tasks(store: StatusStore) -> None:
    store.put(CONNECTOR, status(State.RUNNING))
    store.put(TASK, status(State.RUNNING))
    shown(store).put(CONNECTOR, status(State.DESTROYED))
    assert shown(store).get_all("c") == {}
    assert store.connectors() == set()


@pytest.mark.parametrize(
    ("worker", "generation", "written"),
    [(MINE, 0, True), (OTHER, 1, True), (OTHER, 2, True), (OTHER, 0, False)],
)
def test_a_safe_put_overwrites_own_and_older_statuses(
    store: StatusStore, worker: str, generation: int, written: bool
) -> None:
    store.put(TASK, status(State.RUNNING))
    failed = status(State.FAILED, worker, generation)
    shown(store).put_safe(TASK, failed)
    assert shown(store).get(TASK) == (failed if written else status(State.RUNNING))


def test_a_safe_put_writes_where_nothing_is(store: StatusStore) -> None:
    store.put_safe(TASK, status(State.FAILED))
    assert shown(store).get(TASK) == status(State.FAILED)


def test_topics_are_kept_by_connector_until_they_are_deleted(store: StatusStore) -> None:
    first, second = TopicStatus("t1", "c", 0, 5), TopicStatus("t2", "c", 1, 6)
    other = TopicStatus("t2", "d", 0, 7)
    for topic in (first, second, other):
        store.put_topic(topic)
    assert sorted(shown(store).get_topics("c"), key=lambda t: t.topic) == [first, second]
    assert store.get_topic("c", "t1") == first
    assert store.get_topic("c", "none") is None
    store.delete_topic("c", "t1")
    assert shown(store).get_topics("c") == [second]
    store.delete_topics("c")
    assert shown(store).get_topics("c") == []
    assert store.get_topics("d") == [other]


def test_flush_waits_for_what_was_put(kafka_opened: KafkaStatusStore) -> None:
    for n in range(200):
        kafka_opened.put(InstanceId("c", n), status(State.RUNNING))
    assert kafka_opened.flush(Deadline(20))
    kafka_opened.refresh(Deadline(20))
    assert len(kafka_opened.get_all("c")) == 200


def test_statuses_outlive_their_store_and_are_seen_by_others(
    target_cluster: KafkaCluster, kafka_opened: KafkaStatusStore, topic: str
) -> None:
    kafka_opened.put(TASK, status(State.RUNNING))
    kafka_opened.refresh(Deadline(20))
    second = kafka_store(target_cluster, topic)
    second.start(Deadline(30))
    try:
        assert second.get(TASK) == status(State.RUNNING)
        second.put(TASK, status(State.PAUSED, OTHER))
        second.refresh(Deadline(20))
        kafka_opened.refresh(Deadline(20))
        assert kafka_opened.get(TASK) == status(State.PAUSED, OTHER)
    finally:
        second.stop(Deadline(10))


def test_a_late_goodbye_of_another_worker_does_not_hide_a_running_task(
    target_cluster: KafkaCluster, kafka_opened: KafkaStatusStore, topic: str
) -> None:
    kafka_opened.put(TASK, status(State.RUNNING, generation=5))
    kafka_opened.refresh(Deadline(20))
    second = kafka_store(target_cluster, topic)
    second.start(Deadline(30))
    try:
        second.put(TASK, status(State.UNASSIGNED, OTHER, generation=5))
        second.refresh(Deadline(20))
        assert second.get(TASK) == status(State.RUNNING, generation=5)
        second.put(TASK, status(State.UNASSIGNED, OTHER, generation=6))
        second.refresh(Deadline(20))
        assert second.get(TASK) == status(State.UNASSIGNED, OTHER, generation=6)
    finally:
        second.stop(Deadline(10))


@pytest.mark.parametrize("instance", [CONNECTOR, TASK])
def test_who_runs_it_says_so_again_after_a_late_goodbye(
    kafka_opened: KafkaStatusStore, target_cluster: KafkaCluster, topic: str, instance: InstanceId
) -> None:
    running = status(State.RUNNING, generation=9)
    kafka_opened.put(instance, running)
    shown(kafka_opened)
    late = kafka_store(target_cluster, topic)
    late.start(Deadline(30))
    late.put(instance, status(State.UNASSIGNED, OTHER, generation=7))
    late.stop(Deadline(10))

    def newest() -> InstanceStatus | None:
        reader = kafka_store(target_cluster, topic)
        reader.start(Deadline(30))
        try:
            return reader.get(instance)
        finally:
            reader.stop(Deadline(10))

    wait_until(lambda: shown(kafka_opened).get(instance) == running, 20.0, "RUNNING again")
    wait_until(lambda: newest() == running, 20.0, "RUNNING for those who read the topic anew")


def test_who_does_not_run_it_any_more_leaves_the_last_word_to_others(
    kafka_opened: KafkaStatusStore, target_cluster: KafkaCluster, topic: str
) -> None:
    kafka_opened.put(TASK, status(State.RUNNING, generation=9))
    kafka_opened.put(TASK, status(State.UNASSIGNED, generation=9))
    shown(kafka_opened)
    other = kafka_store(target_cluster, topic)
    other.start(Deadline(30))
    try:
        said = status(State.RUNNING, OTHER, generation=8)
        other.put(TASK, said)
        shown(other)
        assert shown(kafka_opened).get(TASK) == said
    finally:
        other.stop(Deadline(10))


def test_records_that_make_no_sense_change_nothing(
    target_cluster: KafkaCluster, kafka_opened: KafkaStatusStore, topic: str
) -> None:
    kafka_opened.put(TASK, status(State.RUNNING))
    kafka_opened.refresh(Deadline(20))
    produce(
        target_cluster.bootstrap_servers,
        topic,
        [Record(b"{", b"status-task-c-0"), Record(b"{}", b"status-task-c"), Record(b"{}", b"?")],
    )
    kafka_opened.refresh(Deadline(20))
    assert kafka_opened.get_all("c") == {0: status(State.RUNNING)}


def test_the_topic_has_javas_bytes_in_javas_partitions(
    target_cluster: KafkaCluster, kafka_opened: KafkaStatusStore, topic: str
) -> None:
    kafka_opened.put(InstanceId("x"), InstanceStatus(State.RUNNING, "h:8083", 3, None, "1.2.3"))
    kafka_opened.put(InstanceId("x", 0), InstanceStatus(State.FAILED, "h:8083", 3, "T\n"))
    kafka_opened.refresh(Deadline(20))
    servers = target_cluster.bootstrap_servers
    (connector,) = read_partition(servers, topic, 3)
    (task,) = read_partition(servers, topic, 0)
    assert (connector.key, connector.value) == (
        b"status-connector-x",
        b'{"state":"RUNNING","trace":null,"worker_id":"h:8083","generation":3,"version":"1.2.3"}',
    )
    assert (task.key, task.value) == (
        b"status-task-x-0",
        b'{"state":"FAILED","trace":"T\\n","worker_id":"h:8083","generation":3,"version":null}',
    )


def test_a_status_that_the_brokers_refuse_is_named_with_what_to_check(
    target_cluster: KafkaCluster, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    small = TopicSpec(topic, 1, 1, {"max.message.bytes": "300"})
    properties = {"bootstrap.servers": target_cluster.bootstrap_servers, "client.id": topic}
    store = KafkaStatusStore(small, properties)
    store.start(Deadline(30))
    try:
        store.put(
            TASK,
            InstanceStatus(State.FAILED, MINE, 1, trace=random.Random(1).randbytes(2_000).hex()),
        )
        assert store.flush(Deadline(30))
    finally:
        store.stop(Deadline(10))
    [told] = [each.message for each in caplog.records if "Cannot write" in each.message]
    assert f"status status-task-c-0 to topic {topic}" in told
    assert "check the topic's configs" in told
