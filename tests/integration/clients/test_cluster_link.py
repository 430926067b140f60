"""A cluster link on real brokers: leaders, failures of nodes, producer ids, offsets."""

from __future__ import annotations

import gc
import threading
import warnings
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import NewPartitions
from kafka.protocol.metadata import MetadataRequest

from connect.clients.cluster.cluster_link import ClusterLink
from connect.clients.cluster.metadata import ClusterSnapshot
from connect.clients.config.settings import WireSettings
from connect.clock import Deadline
from connect.errors import BrokerUnavailable, RetriableBrokerError
from deploy.brokers import KafkaCluster, KafkaRuntime
from tests.support.records.topics import admin, create_topic, has_topic, unique

AMPLE_S = 60.0
EARLIEST, LATEST = -2, -1
UNKNOWN_TOPIC = 3


class Linked:
    """A link whose snapshots can be awaited."""

    def __init__(
        self,
        servers: str,
        request_timeout_ms: int = 30_000,
        metadata_max_age_ms: int = 300_000,
        topics: Collection[str] = (),
    ) -> None:
        self._changed = threading.Condition()
        addresses = [server.split(":") for server in servers.split(",")]
        self.bootstrap = tuple((host, int(port)) for host, port in addresses)
        self.link = ClusterLink(
            WireSettings(
                bootstrap=self.bootstrap,
                client_id="link-test",
                request_timeout_ms=request_timeout_ms,
                metadata_max_age_ms=metadata_max_age_ms,
            ),
            self._notify,
            topics=topics,
        )

    def _notify(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def until(self, condition: Callable[[ClusterSnapshot], bool]) -> ClusterSnapshot:
        """Wait for a snapshot that fulfils the condition."""
        with self._changed:
            met = self._changed.wait_for(lambda: condition(self.link.snapshot), AMPLE_S)
        assert met, self.link.snapshot
        return self.link.snapshot


@pytest.fixture
def linked(source_cluster: KafkaCluster) -> Iterator[Linked]:
    linked = Linked(source_cluster.bootstrap_servers)
    yield linked
    linked.link.close()


@pytest.fixture
def servers(source_cluster: KafkaCluster) -> str:
    return source_cluster.bootstrap_servers


@pytest.fixture(scope="module")
def trio(kafka: KafkaRuntime, session_logs: Path) -> Iterator[KafkaCluster]:
    """Three brokers that these tests kill, pause and start again."""
    with KafkaCluster(3, name="trio", kafka=kafka, logs=session_logs) as cluster:
        yield cluster


def produce(servers: str, topic: str, *records: tuple[int, int]) -> None:
    """Produce records given as (partition, timestamp in ms)."""
    producer = Producer({"bootstrap.servers": servers, "log_level": 0})
    for partition, timestamp in records:
        producer.produce(topic, b"value", partition=partition, timestamp=timestamp)
    assert producer.flush(AMPLE_S) == 0


def test_a_watched_topic_appears_with_leaders_ids_and_counts(linked: Linked, servers: str) -> None:
    topic = create_topic(servers, partitions=3)
    linked.link.watch_topics({topic})
    snapshot = linked.until(lambda s: topic in s.partition_counts)
    assert snapshot.cluster_id
    assert snapshot.partition_counts == {topic: 3}
    assert {key: node for key, (node, _) in snapshot.leaders.items()} == {
        (topic, partition): 1 for partition in range(3)
    }
    assert topic in snapshot.topic_ids
    host, port = snapshot.nodes[1]
    assert f"{host}:{port}" == servers
    assert linked.link.failure is None


def test_topics_that_are_given_are_in_the_first_snapshot(servers: str) -> None:
    topic = create_topic(servers)
    linked = Linked(servers, topics={topic})
    try:
        first = linked.until(lambda s: s.version > 0)
    finally:
        linked.link.close()
    assert (first.version, set(first.leaders)) == (1, {(topic, 0)})


def test_a_missing_topic_is_not_created_and_found_when_it_is(linked: Linked, servers: str) -> None:
    topic = unique("late")
    linked.link.watch_topics({topic})
    assert linked.until(lambda s: topic in s.errors).errors == {topic: UNKNOWN_TOPIC}
    assert not has_topic(servers, topic)
    create_topic(servers, name=topic)
    linked.until(lambda s: (topic, 0) in s.leaders and not s.errors)


def test_a_refresh_shows_new_partitions(linked: Linked, servers: str) -> None:
    topic = create_topic(servers)
    linked.link.watch_topics({topic})
    linked.until(lambda s: topic in s.partition_counts)
    client = admin(servers)
    client.create_partitions([NewPartitions(topic, 4)])[topic].result(AMPLE_S)

    def grown(snapshot: ClusterSnapshot) -> bool:
        linked.link.request_refresh([topic])
        return snapshot.partition_counts.get(topic) == 4

    linked.until(grown)


def test_a_created_again_topic_has_another_id(linked: Linked, servers: str) -> None:
    topic = create_topic(servers)
    linked.link.watch_topics({topic})
    first = linked.until(lambda s: topic in s.topic_ids).topic_ids[topic]
    client = admin(servers)
    client.delete_topics([topic])[topic].result(AMPLE_S)

    def gone(snapshot: ClusterSnapshot) -> bool:
        linked.link.request_refresh()
        return topic in snapshot.errors

    linked.until(gone)
    create_topic(servers, name=topic)
    assert linked.until(lambda s: topic in s.topic_ids).topic_ids[topic] != first


def test_topics_that_are_no_longer_watched_disappear(linked: Linked, servers: str) -> None:
    kept, dropped = create_topic(servers), create_topic(servers)
    linked.link.watch_topics({kept, dropped})
    linked.until(lambda s: {kept, dropped} <= set(s.partition_counts))
    linked.link.watch_topics({kept})
    linked.link.request_refresh()
    linked.until(lambda s: set(s.partition_counts) == {kept})


def test_metadata_is_refreshed_when_it_is_too_old(servers: str) -> None:
    linked = Linked(servers, metadata_max_age_ms=50)
    linked.until(lambda s: s.version >= 3)
    linked.link.close()


def test_a_connection_handed_out_works_and_outlives_the_link(linked: Linked, servers: str) -> None:
    linked.until(lambda s: bool(s.nodes))
    connection = linked.link.connect(1).result(AMPLE_S)
    linked.link.close()
    response = connection.call(MetadataRequest(topics=[]), Deadline(AMPLE_S))
    assert [broker.node_id for broker in response.brokers] == [1]
    connection.close()


def test_producer_ids_are_new_each_time(linked: Linked) -> None:
    ids = {linked.link.init_producer_id().result(AMPLE_S) for _ in range(3)}
    assert len(ids) == 3
    assert all(producer_id >= 0 and epoch == 0 for producer_id, epoch in ids)


def test_offsets_by_place_and_by_time(linked: Linked, servers: str) -> None:
    topic = create_topic(servers, partitions=2)
    day = 1_700_000_000_000
    produce(servers, topic, (0, day), (0, day + 1000), (0, day + 2000))
    linked.link.watch_topics({topic})
    both = [(topic, 0), (topic, 1)]

    def listed(timestamp: int) -> list[object]:
        found = linked.link.list_offsets(both, timestamp).result(AMPLE_S)
        return [found[key] for key in both]

    assert listed(EARLIEST) == [0, 0]
    assert listed(LATEST) == [3, 0]
    assert listed(day + 500) == [1, -1]
    assert listed(day + 5000) == [-1, -1]


def test_committed_offsets_end_before_an_open_transaction(linked: Linked, servers: str) -> None:
    topic = create_topic(servers)
    produce(servers, topic, (0, 1))
    producer = Producer({"bootstrap.servers": servers, "transactional.id": unique("open")})
    producer.init_transactions(AMPLE_S)
    producer.begin_transaction()
    producer.produce(topic, b"open", partition=0)
    assert producer.flush(AMPLE_S) == 0
    linked.link.watch_topics({topic})
    assert linked.link.list_offsets([(topic, 0)], LATEST, 0).result(AMPLE_S) == {(topic, 0): 2}
    assert linked.link.list_offsets([(topic, 0)], LATEST, 1).result(AMPLE_S) == {(topic, 0): 1}
    producer.abort_transaction(AMPLE_S)


def test_a_partition_that_cannot_be_listed_does_not_spoil_the_others(
    linked: Linked, servers: str
) -> None:
    topic, missing = create_topic(servers), unique("missing")
    linked.link.watch_topics({topic, missing})
    wanted = [(topic, 0), (missing, 0), ("unwatched", 0)]
    found = linked.link.list_offsets(wanted, LATEST, timeout_s=1.0).result(AMPLE_S)
    assert found[topic, 0] == 0
    assert isinstance(found[missing, 0], RetriableBrokerError)
    assert "is not watched" in str(found["unwatched", 0])


def node_of_the_links_connection(linked: Linked) -> int:
    """The first bootstrap server: the link stays with it until it fails."""
    first = linked.link.snapshot.nodes[1]
    assert linked.bootstrap[0] == first
    return 1


def test_a_killed_leader_is_replaced_and_its_offsets_are_found_at_the_next(
    trio: KafkaCluster,
) -> None:
    servers = trio.bootstrap_servers
    topic = create_topic(servers, partitions=6, replication=3)
    produce(servers, topic, *((partition, 1) for partition in range(6)))
    linked = Linked(servers)
    linked.link.watch_topics({topic})
    before = linked.until(lambda s: len(s.leaders) == 6)
    victim = node_of_the_links_connection(linked)
    orphans = {key: epoch for key, (node, epoch) in before.leaders.items() if node == victim}
    assert orphans
    trio.node(victim).kill()
    try:
        wanted = [(topic, partition) for partition in range(6)]
        found = linked.link.list_offsets(wanted, LATEST).result(AMPLE_S)
        assert found == dict.fromkeys(wanted, 1)
        for key, old_epoch in orphans.items():
            leader, epoch = linked.link.snapshot.leaders[key]
            assert leader != victim
            assert epoch > old_epoch
        with pytest.raises(BrokerUnavailable):
            linked.link.connect(victim).result(AMPLE_S)
        assert linked.link.init_producer_id().result(AMPLE_S)[1] == 0
    finally:
        linked.link.close()
        trio.node(victim).start()


def test_a_paused_broker_stalls_neither_metadata_nor_the_partitions_of_others(
    trio: KafkaCluster,
) -> None:
    servers = trio.bootstrap_servers
    topic = create_topic(servers, partitions=6, replication=3)
    linked = Linked(servers, request_timeout_ms=4_000)
    linked.link.watch_topics({topic})
    led = {node for node, _ in linked.until(lambda s: len(s.leaders) == 6).leaders.values()}
    victim = node_of_the_links_connection(linked)
    assert victim in led
    trio.node(victim).pause()
    try:

        def moved(snapshot: ClusterSnapshot) -> bool:
            linked.link.request_refresh()
            return all(node != victim for node, _ in snapshot.leaders.values())

        linked.until(moved)
        wanted = [(topic, partition) for partition in range(6)]
        found = linked.link.list_offsets(wanted, LATEST).result(AMPLE_S)
        assert found == dict.fromkeys(wanted, 0)
    finally:
        linked.link.close()
        trio.node(victim).resume()
        trio.node(victim).wait_until_ready(brokers=3)


def test_a_link_comes_back_when_the_whole_cluster_does(trio: KafkaCluster) -> None:
    topic = create_topic(trio.bootstrap_servers, replication=3)
    linked = Linked(trio.bootstrap_servers, request_timeout_ms=2_000, metadata_max_age_ms=200)
    linked.link.watch_topics({topic})
    linked.until(lambda s: (topic, 0) in s.leaders)
    for node in trio.nodes:
        node.kill()
    linked.until(lambda _: linked.link.failure is not None)
    assert isinstance(linked.link.failure, BrokerUnavailable)
    trio.restart()
    linked.link.request_refresh()
    linked.until(lambda _: linked.link.failure is None)
    linked.until(lambda s: (topic, 0) in s.leaders)
    linked.link.close()


def test_closing_leaves_no_thread_and_no_socket(servers: str) -> None:
    before = set(threading.enumerate())
    topic = create_topic(servers)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ResourceWarning)
        for _ in range(5):
            linked = Linked(servers)
            linked.link.watch_topics({topic})
            linked.link.init_producer_id()
            linked.link.list_offsets([(topic, 0)], LATEST)
            future = linked.link.connect(1)
            linked.link.close()
            if future.exception(0) is None:
                future.result(0).close()
        gc.collect()
    assert set(threading.enumerate()) <= before
