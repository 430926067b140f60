"""A cluster whose replicas are elected uncleanly: a leader may lack records that were read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka.admin import NewTopic

from deploy.brokers import KafkaCluster, KafkaRuntime
from tests.support.records.topics import admin, unique
from tests.support.waiting import wait_until

__all__ = ["doubled", "elect_uncleanly", "in_sync", "unclean_cluster"]

_TIMEOUT_S = 120.0


@contextmanager
def unclean_cluster(kafka: KafkaRuntime, logs: Path) -> Iterator[KafkaCluster]:
    """Topics that `doubled` makes have replicas on nodes 2 and 3; node 1 keeps the quorum."""
    properties = {"unclean.leader.election.enable": "true"}
    with KafkaCluster(3, name="unclean", properties=properties, kafka=kafka, logs=logs) as made:
        yield made


def doubled(cluster: KafkaCluster, name: str = "") -> str:
    """A topic whose two replicas are on nodes 2, which leads, and 3."""
    topic = name or unique("doubled")
    client = admin(cluster.bootstrap_servers)
    made = client.create_topics([NewTopic(topic, 1, replica_assignment=[[2, 3]])])
    made[topic].result(_TIMEOUT_S)
    in_sync(cluster, [topic], {2, 3})
    return topic


def elect_uncleanly(cluster: KafkaCluster, topics: list[str], survivor: int) -> None:
    """Have a replica lead that has not all records, as it is the only one left."""
    client = admin(cluster.bootstrap_servers)

    def elected() -> bool:
        found = client.list_topics(timeout=_TIMEOUT_S).topics
        return all(
            topic in found and found[topic].partitions[0].leader == survivor for topic in topics
        )

    wait_until(elected, _TIMEOUT_S, "the replica that has not all leads")


def in_sync(cluster: KafkaCluster, topics: list[str], replicas: set[int]) -> None:
    """Wait until these are all replicas that are in sync."""
    client = admin(cluster.bootstrap_servers)

    def agreed() -> bool:
        found = client.list_topics(timeout=_TIMEOUT_S).topics
        return all(
            topic in found and set(found[topic].partitions[0].isrs) == replicas for topic in topics
        )

    wait_until(agreed, _TIMEOUT_S, f"only {replicas} are in sync")
