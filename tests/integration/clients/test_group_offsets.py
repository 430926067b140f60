"""A consumer group's offsets from outside, on a real broker."""

from __future__ import annotations

import pytest

from connect.clients.groups.group_offsets import GroupOffsets
from connect.clock import Deadline
from connect.errors import ConnectError
from deploy.brokers import KafkaCluster
from tests.support.records.topics import create_topic, unique

TIMEOUT_S = 30.0


@pytest.fixture
def group(target_cluster: KafkaCluster) -> GroupOffsets:
    properties = {"bootstrap.servers": target_cluster.bootstrap_servers, "client.id": "outside"}
    return GroupOffsets(properties, unique("group"))


@pytest.fixture
def topic(target_cluster: KafkaCluster) -> str:
    return create_topic(target_cluster.bootstrap_servers, "offsets", partitions=3)


def deadline() -> Deadline:
    return Deadline(TIMEOUT_S)


def test_offsets_are_set_read_and_deleted(group: GroupOffsets, topic: str) -> None:
    group.set({(topic, 0): 5, (topic, 2): 0, (topic, 1): 7}, deadline())
    assert group.read(deadline()) == {(topic, 0): 5, (topic, 1): 7, (topic, 2): 0}
    group.set({(topic, 0): 3}, deadline())
    group.delete([(topic, 1), (topic, 2)], deadline())
    assert group.read(deadline()) == {(topic, 0): 3}
    group.delete_group(deadline())
    assert group.read(deadline()) == {}


def test_a_group_that_does_not_exist_has_nothing_to_delete(group: GroupOffsets, topic: str) -> None:
    assert group.read(deadline()) == {}
    group.delete([(topic, 0)], deadline())
    group.delete_group(deadline())
    group.set({}, deadline())
    group.delete([], deadline())


@pytest.mark.slow
def test_a_topic_that_does_not_exist_is_told(group: GroupOffsets) -> None:
    with pytest.raises(ConnectError, match="UNKNOWN_TOPIC_OR_PARTITION"):
        group.set({("no-such-topic", 0): 5}, deadline())
