"""MirrorSourceConnector and MirrorHeartbeatConnector against real clusters, without a worker."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import KafkaException, TopicCollection

from connect.clients.librdkafka.admin import Admin
from connect.errors import ConfigError
from connect.plugin import Connector
from connectors.mirror.heartbeat import MirrorHeartbeatConnector
from connectors.mirror.source.connector import MirrorSourceConnector
from connectors.mirror.topics import refresh as topic_refresh
from deploy.brokers import KafkaCluster
from tests.support.flows.bare_connector import configs_set, running
from tests.support.records.topics import admin, create_topic, unique
from tests.support.waiting import wait_until

TIMEOUT_S = 30.0


@pytest.fixture
def config(source_cluster: KafkaCluster, target_cluster: KafkaCluster) -> dict[str, str]:
    """A flow with aliases of its own, so that nothing of other tests is on the target."""
    source, target = unique("s"), unique("t")
    return {
        "name": "MirrorSourceConnector",
        "connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector",
        "source.cluster.alias": source,
        "target.cluster.alias": target,
        "source.cluster.bootstrap.servers": source_cluster.bootstrap_servers,
        "target.cluster.bootstrap.servers": target_cluster.bootstrap_servers,
        "replication.factor": "1",
        "offset-syncs.topic.replication.factor": "1",
        "heartbeats.topic.replication.factor": "1",
        "refresh.topics.interval.seconds": "1",
        "sync.topic.configs.enabled": "false",
        "sync.topic.acls.enabled": "false",
    }


@pytest.fixture
def target(target_cluster: KafkaCluster) -> Iterator[Admin]:
    client = Admin({"bootstrap.servers": target_cluster.bootstrap_servers})
    yield client
    client.close()


@pytest.fixture
def source(source_cluster: KafkaCluster) -> Iterator[Admin]:
    client = Admin({"bootstrap.servers": source_cluster.bootstrap_servers})
    yield client
    client.close()


def assigned(connector: Connector) -> Callable[[], list[str]]:
    return lambda: [task["task.assigned.partitions"] for task in connector.task_configs(8) or ()]


def test_a_flow_with_nothing_to_mirror_looks_again_before_the_next_refresh(
    config: dict[str, str], source_cluster: KafkaCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(topic_refresh, "LOOK_AGAIN_S", 0.5)
    config["refresh.topics.interval.seconds"] = "600"
    config["topics"] = topic = unique("late")
    config["heartbeats.replication.enabled"] = "false"
    connector = MirrorSourceConnector()
    with running(connector, config) as context:
        context.requests.get(timeout=TIMEOUT_S)
        assert connector.task_configs(1) == []
        create_topic(source_cluster.bootstrap_servers, name=topic)
        wait_until(lambda: assigned(connector)() == [f"{topic}-0"], TIMEOUT_S, "the topic")


def test_topics_are_created_with_partitions_and_configs_and_dealt_out(
    config: dict[str, str], source_cluster: KafkaCluster, source: Admin, target: Admin
) -> None:
    topic = create_topic(
        source_cluster.bootstrap_servers,
        "orders",
        partitions=3,
        configs={
            "retention.ms": "123456789",
            "cleanup.policy": "compact,delete",
            "min.insync.replicas": "1",
        },
    )
    config["topics"] = f"{topic}, missing.*"
    config["heartbeats.replication.enabled"] = "false"
    connector = MirrorSourceConnector()
    with running(connector, config) as context:
        context.requests.get(timeout=TIMEOUT_S)
        tasks = connector.task_configs(2) or []
        remote = f"{config['source.cluster.alias']}.{topic}"
        assert [task["task.assigned.partitions"] for task in tasks] == [
            f"{topic}-0,{topic}-2",
            f"{topic}-1",
        ]
        assert [task["task.index"] for task in tasks] == ["0", "1"]
        assert tasks[0]["source.cluster.bootstrap.servers"] == source_cluster.bootstrap_servers
        wait_until(lambda: target.list_topics().get(remote) == 3, TIMEOUT_S, "the copy")
        assert configs_set(target, remote) == {
            "retention.ms": "123456789",
            "cleanup.policy": "compact,delete",
        }
        alias = config["target.cluster.alias"]
        for own in (f"mm2-offset-syncs.{alias}.internal", f"mm2-offset-map.{alias}.internal"):
            assert source.list_topics()[own] == 1
            assert configs_set(source, own) == {"cleanup.policy": "compact"}


def test_new_topics_and_partitions_are_picked_up(
    config: dict[str, str], source_cluster: KafkaCluster, target: Admin
) -> None:
    prefix = unique("live")
    servers = source_cluster.bootstrap_servers
    create_topic(servers, name=f"{prefix}.a")
    config["topics"] = f"{prefix}.*"
    config["heartbeats.replication.enabled"] = "false"
    connector = MirrorSourceConnector()

    def until(*names: str) -> None:
        """It has these tasks, of one partition each, and asked the worker to look at them."""
        context.requests.get(timeout=TIMEOUT_S)
        wait_until(lambda: assigned(connector)() == list(names), TIMEOUT_S, str(names))

    with running(connector, config) as context:
        until(f"{prefix}.a-0")
        create_topic(servers, name=f"{prefix}.b")
        until(f"{prefix}.a-0", f"{prefix}.b-0")
        source = Admin({"bootstrap.servers": servers})
        source.create_partitions(f"{prefix}.a", 2)
        source.close()
        # The two running tasks keep what they have.
        until(f"{prefix}.a-0", f"{prefix}.b-0", f"{prefix}.a-1")
        remote = f"{config['source.cluster.alias']}.{prefix}.a"
        wait_until(lambda: target.list_topics()[remote] == 2, TIMEOUT_S, "the new partition")


def test_a_copy_that_someone_deleted_is_created_again(
    config: dict[str, str], source_cluster: KafkaCluster, target: Admin
) -> None:
    topic = create_topic(source_cluster.bootstrap_servers)
    config["topics"] = topic
    remote = f"{config['source.cluster.alias']}.{topic}"
    with running(MirrorSourceConnector(), config) as context:
        context.requests.get(timeout=TIMEOUT_S)
        client = admin(config["target.cluster.bootstrap.servers"])

        def topic_id() -> str | None:
            described = client.describe_topics(TopicCollection([remote]))[remote]
            try:
                return str(described.result(TIMEOUT_S).topic_id)
            except KafkaException:
                return None

        deleted = topic_id()
        client.delete_topics([remote])[remote].result(TIMEOUT_S)
        # The brokers still know the deleted one for a moment.
        wait_until(lambda: topic_id() not in (None, deleted), TIMEOUT_S, f"{remote} again")


def test_one_topic_that_cannot_be_created_does_not_hold_up_the_flow(
    config: dict[str, str],
    source_cluster: KafkaCluster,
    caplog: pytest.LogCaptureFixture,
) -> None:
    topic = create_topic(source_cluster.bootstrap_servers)
    config["topics"] = topic
    config["heartbeats.replication.enabled"] = "false"
    config["replication.factor"] = "3"
    connector = MirrorSourceConnector()
    with running(connector, config) as context:
        context.requests.get(timeout=TIMEOUT_S)
        assert f"{topic}-0" in assigned(connector)()
    remote = f"{config['source.cluster.alias']}.{topic}"
    failures = {
        r.getMessage(): r.levelno for r in caplog.records if "is not ready" in r.getMessage()
    }
    told = [text for text in failures if remote in text and "eplication" in text]
    assert told, failures
    assert failures[told[0]] == logging.ERROR


def test_source_and_target_in_one_cluster_keep_names_from_growing(
    config: dict[str, str], source_cluster: KafkaCluster, source: Admin
) -> None:
    topic = create_topic(source_cluster.bootstrap_servers)
    alias = config["source.cluster.alias"]
    config["target.cluster.bootstrap.servers"] = source_cluster.bootstrap_servers
    config["topics"] = f".*{topic}"
    config["heartbeats.replication.enabled"] = "false"
    connector = MirrorSourceConnector()
    with running(connector, config) as context:
        context.requests.get(timeout=TIMEOUT_S)
        wait_until(lambda: f"{alias}.{topic}" in source.list_topics(), TIMEOUT_S, "the copy")
        create_topic(source_cluster.bootstrap_servers, name=f"other.{topic}")
        context.requests.get(timeout=TIMEOUT_S)
        both = [f"other.{topic}-0", f"{topic}-0"]
        wait_until(lambda: sorted(assigned(connector)()) == both, TIMEOUT_S, "both topics")
        assert f"{alias}.{alias}.{topic}" not in source.list_topics()


def test_a_flow_that_would_copy_topics_onto_themselves_fails(
    config: dict[str, str], source_cluster: KafkaCluster
) -> None:
    config["topics"] = create_topic(source_cluster.bootstrap_servers)
    config["target.cluster.bootstrap.servers"] = source_cluster.bootstrap_servers
    config["replication.policy.class"] = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"
    with running(MirrorSourceConnector(), config) as context:
        error = context.errors.get(timeout=TIMEOUT_S)
    assert isinstance(error, ConfigError)
    assert "are the same cluster" in str(error)


def test_an_unreachable_cluster_is_named_and_tried_again(
    config: dict[str, str], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("connectors.mirror.topics.refresh.CONTACT_TIMEOUT_S", 0.5)
    config["source.cluster.bootstrap.servers"] = "127.0.0.1:1"
    connector = MirrorSourceConnector()
    with running(connector, config):
        alias = config["source.cluster.alias"]
        reached = f"Cannot reach cluster {alias} at 127.0.0.1:1"
        wait_until(
            lambda: any(reached in record.getMessage() for record in caplog.records),
            TIMEOUT_S,
            reached,
        )
        assert connector.task_configs(1) is None


def test_a_flow_that_is_not_enabled_does_nothing(config: dict[str, str], source: Admin) -> None:
    config["enabled"] = "false"
    connector = MirrorSourceConnector()
    with running(connector, config):
        assert connector.task_configs(1) == []
    assert f"mm2-offset-syncs.{config['target.cluster.alias']}.internal" not in source.list_topics()


def test_the_heartbeats_topic_is_created_before_there_is_a_task(
    config: dict[str, str], target: Admin
) -> None:
    config["name"] = "MirrorHeartbeatConnector"
    connector = MirrorHeartbeatConnector()
    with running(connector, config) as context:
        context.requests.get(timeout=TIMEOUT_S)
        assert connector.task_configs(5) == [config]
        assert target.list_topics()["heartbeats"] == 1
        assert configs_set(target, "heartbeats") == {"cleanup.policy": "compact"}
    config["emit.heartbeats.enabled"] = "false"
    silent = MirrorHeartbeatConnector()
    with running(silent, config) as context:
        context.requests.get(timeout=TIMEOUT_S)
        assert silent.task_configs(5) == []
