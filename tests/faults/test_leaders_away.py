"""A partition whose leader was away is found as soon as it is back, or another leads it."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import KafkaException

from connect.clients.librdkafka.admin import Admin
from connect.errors import RetriableError
from deploy.brokers import KafkaCluster, KafkaRuntime
from tests.support.records.topics import admin as other
from tests.support.records.topics import create_topic
from tests.support.waiting import wait_until

TIMEOUT_S = 60.0
ASK_S = 5.0


@pytest.mark.slow
def test_ends_of_a_log_are_known_again_when_its_leader_is_back(
    kafka: KafkaRuntime, logs: Path
) -> None:
    with KafkaCluster(3, name="led", kafka=kafka, logs=logs) as cluster:
        topic = create_topic(cluster.bootstrap_servers)
        key = (topic, 0)
        admin = Admin({"bootstrap.servers": cluster.bootstrap_servers})
        try:

            def leader() -> int:
                """0: there is none."""
                try:
                    found = other(cluster.bootstrap_servers).list_topics(topic, ASK_S).topics[topic]
                except KafkaException:
                    return 0
                return max(0, found.partitions[0].leader) if found.partitions else 0

            def known() -> bool:
                try:
                    return admin.end_offsets([key], ASK_S) == {key: 0}
                except RetriableError:
                    return False

            node = cluster.node(wait_until(leader, TIMEOUT_S, "a leader"))
            wait_until(known, TIMEOUT_S, "the end")
            node.kill()
            wait_until(lambda: not leader(), TIMEOUT_S, "no leader")
            # As after any answer that a leader has moved: librdkafka remembers that there is none.
            admin.list_topics(ASK_S)
            assert not known()
            node.start(TIMEOUT_S)
            wait_until(leader, TIMEOUT_S, "a leader again")
            wait_until(known, TIMEOUT_S, "the end, before librdkafka looks by itself")
        finally:
            admin.close()


@pytest.mark.slow
def test_ends_of_a_log_are_known_though_the_leader_that_was_known_stays_away(
    kafka: KafkaRuntime, logs: Path
) -> None:
    """A task that began while such a broker was away waited for it for a minute."""
    with KafkaCluster(3, name="silent", kafka=kafka, logs=logs) as cluster:
        topic = create_topic(cluster.bootstrap_servers, replication=3)
        key = (topic, 0)
        admin = Admin({"bootstrap.servers": cluster.bootstrap_servers})
        try:
            assert admin.end_offsets([key], TIMEOUT_S) == {key: 0}
            found = other(cluster.bootstrap_servers).list_topics(topic, TIMEOUT_S).topics[topic]
            leader = cluster.node(found.partitions[0].leader)
            leader.pause()
            assert admin.end_offsets([key], TIMEOUT_S) == {key: 0}
            leader.resume()
        finally:
            admin.close()
