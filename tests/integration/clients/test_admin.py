"""The typed admin calls on a real broker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from connect.clients.librdkafka.admin import Admin
from connect.clients.librdkafka.descriptions import ConfigSource
from connect.clock import Deadline
from connect.errors import BrokerError, ConnectError, RetriableError
from connect.loop import Backoff, retry
from deploy.brokers import KafkaCluster
from tests.support.records.producing import numbered, produce
from tests.support.records.topics import create_topic, unique

NOBODY = "127.0.0.1:1"


@pytest.fixture
def admin(target_cluster: KafkaCluster) -> Iterator[Admin]:
    opened = Admin({"bootstrap.servers": target_cluster.bootstrap_servers, "client.id": "test"})
    yield opened
    opened.close()


def test_a_topic_is_created_once_with_its_configs(admin: Admin) -> None:
    topic = unique("admin")
    assert admin.create_topic(topic, 3, 1, {"retention.ms": "1000"})
    assert not admin.create_topic(topic, 5, 1)
    entries = {entry.name: entry for entry in admin.describe_topic_configs([topic])[topic]}
    assert entries["retention.ms"].value == "1000"
    assert entries["retention.ms"].source is ConfigSource.DYNAMIC_TOPIC_CONFIG
    assert entries["cleanup.policy"].source is ConfigSource.DEFAULT_CONFIG


def test_topics_are_listed_with_their_partitions_but_not_the_brokers_own(
    admin: Admin, target_cluster: KafkaCluster
) -> None:
    topic = create_topic(target_cluster.bootstrap_servers, "admin", partitions=4)
    listed = admin.list_topics()
    assert listed[topic] == 4
    assert not [name for name in listed if name.startswith("__")]


def test_describing_leaves_out_what_does_not_exist(
    admin: Admin, target_cluster: KafkaCluster
) -> None:
    topic = create_topic(target_cluster.bootstrap_servers, "admin", partitions=2)
    described = admin.describe_topics([topic, unique("absent")])
    assert list(described) == [topic]
    (first, second) = described[topic].partitions
    assert (first.partition, second.partition) == (0, 1)
    assert first.leader in first.replicas
    assert not described[topic].internal
    assert admin.describe_topics([]) == {}


def test_partitions_can_only_grow(admin: Admin, target_cluster: KafkaCluster) -> None:
    topic = create_topic(target_cluster.bootstrap_servers, "admin", partitions=2)
    admin.create_partitions(topic, 3)
    with pytest.raises(
        BrokerError, match=rf"Raising topic {topic} to 2 partitions failed: INVALID"
    ):
        admin.create_partitions(topic, 2)


def test_beginning_and_end_offsets(admin: Admin, target_cluster: KafkaCluster) -> None:
    topic = create_topic(target_cluster.bootstrap_servers, "admin", partitions=2)
    produce(target_cluster.bootstrap_servers, topic, numbered(5, partition=1))
    keys = [(topic, 0), (topic, 1)]
    assert admin.end_offsets(keys) == {(topic, 0): 0, (topic, 1): 5}
    assert admin.beginning_offsets(keys) == {(topic, 0): 0, (topic, 1): 0}
    assert admin.end_offsets([]) == {}


def test_offsets_of_a_topic_that_may_yet_come_can_be_asked_for_again(admin: Admin) -> None:
    with pytest.raises(RetriableError):
        admin.end_offsets([(unique("absent"), 0)], timeout=5)


def test_offsets_right_after_creation_only_need_patience(admin: Admin) -> None:
    topic = unique("admin")
    admin.create_topic(topic, 25, 1)
    keys = [(topic, partition) for partition in range(25)]
    ends = retry(lambda: admin.end_offsets(keys), Deadline(20), Backoff(0.02, 1.0))
    assert set(ends.values()) == {0}


def test_errors_name_the_topic_and_javas_code(admin: Admin) -> None:
    with pytest.raises(BrokerError, match=r"Creating topic x failed: INVALID_REPLICATION_FACTOR"):
        admin.create_topic("x", 1, 7)
    with pytest.raises(BrokerError, match=r"Creating topic x failed: INVALID_CONFIG"):
        admin.create_topic("x", 1, 1, {"no.such.config": "1"})


def test_both_clusters_have_ids_of_their_own(
    admin: Admin, source_cluster: KafkaCluster, target_cluster: KafkaCluster
) -> None:
    other = Admin({"bootstrap.servers": source_cluster.bootstrap_servers})
    try:
        assert other.cluster_id() != admin.cluster_id()
    finally:
        other.close()


def test_nobody_there_is_said_within_the_timeout() -> None:
    admin = Admin({"bootstrap.servers": NOBODY})
    try:
        with pytest.raises(RetriableError):
            admin.list_topics(timeout=1)
        with pytest.raises(RetriableError):
            admin.cluster_id(timeout=1)
    finally:
        admin.close()


def test_a_closed_admin_says_so() -> None:
    admin = Admin({"bootstrap.servers": NOBODY})
    admin.close()
    with pytest.raises(ConnectError, match="closed"):
        admin.list_topics()
