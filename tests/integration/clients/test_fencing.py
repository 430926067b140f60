"""Fencing out transactional producers, on a real broker."""

from __future__ import annotations

from contextlib import closing

import confluent_kafka
import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from connect.clients.config.properties import wire_settings
from connect.clients.config.settings import WireSettings
from connect.clients.transactions.coordinator import TransactionCoordinator
from connect.clients.transactions.fence_producers import (
    claim_producers,
    fence_producers,
    was_claimed,
)
from connect.clients.transactions.producer import ProducerFenced
from connect.clock import Deadline
from connect.errors import BrokerError, BrokerUnavailable
from connectors.mirror.copy.transactions.executor_ids import (
    claimed_blocks,
    fence_lanes,
    lane_block,
)
from deploy.brokers import KafkaCluster
from tests.support.records.reading import read_partition
from tests.support.records.topics import admin, create_topic, unique
from tests.support.waiting import wait_until

TIMEOUT_S = 30.0


class Zombie:
    """A producer with a transaction open, and one record in it."""

    def __init__(self, servers: str, topic: str) -> None:
        self.id = unique("zombie")
        self.topic = topic
        self._producer = confluent_kafka.Producer(
            {"bootstrap.servers": servers, "transactional.id": self.id, "log_level": 0}
        )
        self._producer.init_transactions(TIMEOUT_S)
        self._producer.begin_transaction()
        self.write("before")

    def write(self, value: str) -> None:
        self._producer.produce(self.topic, value, partition=0)
        self._producer.flush(TIMEOUT_S)

    def commit(self) -> None:
        self._producer.commit_transaction(TIMEOUT_S)


@pytest.fixture
def zombies(target_cluster: KafkaCluster) -> list[Zombie]:
    servers = target_cluster.bootstrap_servers
    topic = create_topic(servers, "fenced")
    return [Zombie(servers, topic) for _ in range(3)]


def properties(cluster: KafkaCluster) -> dict[str, str]:
    return {"bootstrap.servers": cluster.bootstrap_servers, "client.id": "fence"}


def test_fenced_producers_cannot_commit_and_leave_nothing_open(
    target_cluster: KafkaCluster, zombies: list[Zombie]
) -> None:
    first, second, other = zombies
    never_seen = unique("nobody")
    fence_producers(
        properties(target_cluster), [first.id, second.id, never_seen], Deadline(TIMEOUT_S)
    )
    for zombie in (first, second):
        with pytest.raises(confluent_kafka.KafkaException) as raised:
            zombie.commit()
        assert raised.value.args[0].fatal()
    other.write("after")
    other.commit()
    read = read_partition(target_cluster.bootstrap_servers, first.topic, isolation="read_committed")
    assert [record.value for record in read] == [b"before", b"after"]


def test_who_claims_ids_can_write_with_them_and_ends_what_was_open(
    target_cluster: KafkaCluster, zombies: list[Zombie]
) -> None:
    settings = wire_settings(properties(target_cluster))
    new = unique("new")
    assert was_claimed(settings, zombies[0].id, Deadline(TIMEOUT_S))
    assert not was_claimed(settings, new, Deadline(TIMEOUT_S))
    claimed = claim_producers(
        settings, [zombies[0].id, new], Deadline(TIMEOUT_S), timeout_ms=10_000
    )
    assert was_claimed(settings, new, Deadline(TIMEOUT_S))
    with pytest.raises(confluent_kafka.KafkaException):
        zombies[0].commit()
    for name, identity in claimed.items():
        heir = TransactionCoordinator(settings, name, 10_000)
        heir.adopt(identity)
        assert heir.add([(zombies[0].topic, 0)]).result(TIMEOUT_S) == {(zombies[0].topic, 0): 0}
        heir.commit().result(TIMEOUT_S)
        heir.confirm().result(TIMEOUT_S)
        assert heir.identity.epoch > identity.epoch
        fence_producers(properties(target_cluster), [name], Deadline(TIMEOUT_S))
        with pytest.raises(ProducerFenced):
            heir.confirm().result(TIMEOUT_S)
        heir.close()


def test_a_cluster_that_is_away_is_waited_for_until_the_deadline() -> None:
    with pytest.raises(BrokerUnavailable):
        fence_producers({"bootstrap.servers": "127.0.0.1:1"}, ["a"], Deadline(0.5))


def refused(settings: WireSettings, name: str) -> bool:
    try:
        claim_producers(settings, [name], Deadline(TIMEOUT_S), timeout_ms=1000)
    except BrokerError as error:
        refusal = "TRANSACTIONAL_ID_AUTHORIZATION_FAILED (53)"
        return f"{refusal}; grant Write and Describe on the transactional id {name}" in str(error)
    return False


def test_an_id_that_one_may_not_ask_about_counts_as_unused(
    permitting_cluster: KafkaCluster,
) -> None:
    """So who has permissions for a task's own id alone needs no others."""
    name = unique("others")
    only_other = AclBinding(
        ResourceType.TRANSACTIONAL_ID,
        name,
        ResourcePatternType.LITERAL,
        "User:other",
        "*",
        AclOperation.ALL,
        AclPermissionType.ALLOW,
    )
    servers = permitting_cluster.bootstrap_servers
    settings = wire_settings({"bootstrap.servers": servers})
    client = admin(servers)
    client.create_acls([only_other])[only_other].result(TIMEOUT_S)
    wait_until(lambda: refused(settings, name), TIMEOUT_S, "the ACL")
    assert not was_claimed(settings, name, Deadline(TIMEOUT_S))


def test_the_lanes_of_all_blocks_of_a_spark_flow_are_found_and_fenced(
    target_cluster: KafkaCluster,
) -> None:
    settings = wire_settings(properties(target_cluster))
    task = f"{unique('group')}-connector-"
    assert claimed_blocks(settings, task + "0", Deadline(TIMEOUT_S)) == 0
    first, second = (lane_block(task + "0", block) for block in (0, 1))
    claimed = claim_producers(
        settings, [first[0], second[0], second[9]], Deadline(TIMEOUT_S), timeout_ms=10_000
    )
    assert claimed_blocks(settings, task + "0", Deadline(TIMEOUT_S)) == 2
    fence_lanes(settings, task + "3", 3)
    executor = TransactionCoordinator(settings, second[9], 10_000)
    executor.adopt(claimed[second[9]])
    with closing(executor), pytest.raises(ProducerFenced):
        executor.confirm().result(TIMEOUT_S)
