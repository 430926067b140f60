"""The properties of a mirror connector's clients, as Kafka 4.3.1 assembles them (its output)."""

from __future__ import annotations

import pytest

from connectors.mirror.config.clients import (
    checkpoints_consumer,
    client_properties,
    heartbeats_target_admin,
    offset_syncs_admin,
    offset_syncs_producer,
    source_admin,
    source_consumer,
    target_admin,
)

PROPS = {
    "name": "n",
    "connector.class": "c",
    "source.cluster.alias": "A",
    "target.cluster.alias": "B",
    "source.cluster.bootstrap.servers": "s:1",
    "target.cluster.bootstrap.servers": "t:1",
    "source.cluster.linger.ms": "9",
    "source.cluster.ssl.protocol": "TLSv1.2",
    "consumer.poll.timeout.ms": "77",
    "admin.timeout.ms": "88",
    "consumer.fetch.min.bytes": "2",
    "source.consumer.fetch.min.bytes": "3",
    "producer.linger.ms": "5",
    "target.producer.client.id": "mine",
    "source.admin.retries": "4",
    "consumer.enable.auto.commit": "true",
}


def test_a_consumer_starts_at_the_earliest_and_commits_nothing() -> None:
    assert source_consumer(PROPS) == {
        "auto.offset.reset": "earliest",
        "bootstrap.servers": "s:1",
        "client.id": "A->B|n|replication-consumer",
        "enable.auto.commit": "false",
        "fetch.min.bytes": "3",
        "ssl.protocol": "TLSv1.2",
    }


def test_a_given_start_is_kept() -> None:
    props = PROPS | {"consumer.auto.offset.reset": "latest"}
    assert source_consumer(props)["auto.offset.reset"] == "latest"


def test_a_given_client_id_comes_first() -> None:
    assert client_properties(PROPS, "target", "producer", "x") == {
        "bootstrap.servers": "t:1",
        "client.id": "mine|A->B|n|x",
        "linger.ms": "5",
    }


def test_admins_get_their_own_clusters_properties() -> None:
    assert source_admin(PROPS) == {
        "bootstrap.servers": "s:1",
        "client.id": "A->B|n|replication-source-admin",
        "retries": "4",
        "ssl.protocol": "TLSv1.2",
    }
    assert target_admin(PROPS) == {
        "bootstrap.servers": "t:1",
        "client.id": "A->B|n|replication-target-admin",
    }
    assert heartbeats_target_admin(PROPS)["client.id"] == "A->B|n|heartbeats-target-admin"
    assert checkpoints_consumer(PROPS)["client.id"] == "A->B|n|checkpoints-target-consumer"


def test_offset_syncs_go_where_their_topic_is() -> None:
    assert offset_syncs_producer(PROPS) == {
        "bootstrap.servers": "s:1",
        "client.id": "A->B|n|offset-syncs-source-producer",
        "linger.ms": "5",
        "ssl.protocol": "TLSv1.2",
    }
    moved = PROPS | {"offset-syncs.topic.location": "target"}
    assert offset_syncs_producer(moved)["client.id"] == "mine|A->B|n|offset-syncs-target-producer"
    assert offset_syncs_admin(moved)["client.id"] == "A->B|n|offset-syncs-target-admin"


@pytest.mark.parametrize(
    ("extra", "index", "label"),
    [
        ({}, None, "A->B|n"),
        ({}, "3", "A->B|n-3"),
        ({"task.index": "2", "task.assigned.partitions": "a-1"}, None, "A->B|n-2"),
        ({"task.assigned.partitions": "a-1"}, None, "A->B|n-?"),
    ],
)
def test_a_tasks_clients_carry_its_number(
    extra: dict[str, str], index: str | None, label: str
) -> None:
    assert source_consumer(PROPS | extra, index)["client.id"] == f"{label}|replication-consumer"
