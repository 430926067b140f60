"""Configs and permissions of topics follow the source, on brokers with an authorizer."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import ClassVar

import pytest

from connect.clients.librdkafka.acls import Acl
from connect.clients.librdkafka.admin import Admin
from connect.clients.librdkafka.descriptions import ConfigChange
from connect.errors import ConnectError
from connectors.mirror.source.connector import MirrorSourceConnector
from connectors.mirror.topics.forwarding_admin import ForwardingAdmin
from connectors.spark.session import shared_session
from deploy.brokers import KafkaCluster, KafkaRuntime
from tests.support.flows.bare_connector import configs_set, running
from tests.support.records.topics import create_topic
from tests.support.spark.session import SPARK, ready_session
from tests.support.waiting import wait_until

AUTHORIZED = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
WAIT_S = 60.0


class NotingAdmin(ForwardingAdmin):
    """A class of the user's own, which notes the entries that it is asked to create."""

    created: ClassVar[set[Acl]] = set()

    def create_acls(
        self, acls: Collection[Acl], timeout: float = WAIT_S
    ) -> dict[Acl, ConnectError]:
        self.created.update(acls)
        return super().create_acls(acls, timeout)


def reader(topic: str, operation: str = "READ", permission: str = "ALLOW") -> Acl:
    return Acl(topic, "LITERAL", "User:reader", "*", operation, permission)


@pytest.fixture(scope="module")
def guarded(kafka: KafkaRuntime, session_logs: Path) -> Iterator[tuple[KafkaCluster, KafkaCluster]]:
    """Source and target, with authorizers."""
    made = [
        KafkaCluster(name=f"guarded-{side}", properties=AUTHORIZED, kafka=kafka, logs=session_logs)
        for side in ("source", "target")
    ]
    with made[0] as source, made[1] as target:
        yield source, target


@pytest.fixture
def admins(guarded: tuple[KafkaCluster, KafkaCluster]) -> Iterator[tuple[Admin, Admin]]:
    clients = [Admin({"bootstrap.servers": each.bootstrap_servers}) for each in guarded]
    yield clients[0], clients[1]
    for client in clients:
        client.close()


def flow(source: KafkaCluster, target: KafkaCluster, topics: str) -> dict[str, str]:
    return {
        "name": "MirrorSourceConnector",
        "connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector",
        "source.cluster.alias": "A",
        "target.cluster.alias": "B",
        "source.cluster.bootstrap.servers": source.bootstrap_servers,
        "target.cluster.bootstrap.servers": target.bootstrap_servers,
        "topics": topics,
        "replication.factor": "1",
        "offset-syncs.topic.replication.factor": "1",
        "heartbeats.replication.enabled": "false",
        "refresh.topics.interval.seconds": "1",
        "sync.topic.configs.interval.seconds": "1",
        "sync.topic.acls.interval.seconds": "1",
        **SPARK,
    }


def test_configs_and_acls_follow_the_source(
    guarded: tuple[KafkaCluster, KafkaCluster],
    admins: tuple[Admin, Admin],
    caplog: pytest.LogCaptureFixture,
) -> None:
    ready_session(shared_session(), kafka=True)
    source, target = admins
    topic = create_topic(
        guarded[0].bootstrap_servers, "t", configs={"retention.ms": "1000", "flush.ms": "7"}
    )
    remote = f"A.{topic}"
    wanted = [reader(topic), reader(topic, "ALL"), reader(topic, "DESCRIBE", "DENY")]
    assert source.create_acls([*wanted, reader(topic, "WRITE"), reader("elsewhere")]) == {}
    config = flow(*guarded, topic)
    config["config.properties.exclude"] = "flush.ms, min.insync.replicas"
    config["forwarding.admin.class"] = f"{__name__}:NotingAdmin"
    caplog.set_level("INFO")
    with running(MirrorSourceConnector(), config):
        wait_until(lambda: remote in target.list_topics(), WAIT_S, "the copy")
        mirrored = {reader(remote), reader(remote, "DESCRIBE", "DENY")}
        wait_until(lambda: set(target.describe_topic_acls()) == mirrored, WAIT_S, "its ACLs")
        assert mirrored <= NotingAdmin.created

        # A change, a reset, and an override by hand on the target; one of an excluded name stays.
        overrides = [ConfigChange("segment.ms", "5000"), ConfigChange("flush.ms", "8")]
        assert target.alter_topic_configs({remote: overrides}) == {}
        edits = [ConfigChange("retention.ms", None), ConfigChange("retention.bytes", "4096")]
        assert source.alter_topic_configs({topic: edits}) == {}
        wait_until(
            lambda: "segment.ms" not in configs_set(target, remote), WAIT_S, "the override's end"
        )
        wait_until(
            lambda: "retention.bytes" in configs_set(target, remote), WAIT_S, "the new config"
        )
        assert configs_set(target, remote) == {"retention.bytes": "4096", "flush.ms": "8"}
    assert f"A->B: topic {remote}: retention.bytes=4096 (was -1)" in caplog.text
    assert "segment.ms back to its default (was 5000)" in caplog.text
    assert "1 allow WRITE, 0 are not for a single topic by name, 1 are for topics" in caplog.text


def test_a_target_without_an_authorizer_is_told_once(
    guarded: tuple[KafkaCluster, KafkaCluster],
    target_cluster: KafkaCluster,
    admins: tuple[Admin, Admin],
    caplog: pytest.LogCaptureFixture,
) -> None:
    ready_session(shared_session(), kafka=True)
    topic = create_topic(guarded[0].bootstrap_servers, "t")
    assert admins[0].create_acls([reader(topic)]) == {}
    config = flow(guarded[0], target_cluster, topic)
    config["sync.topic.configs.enabled"] = "false"
    told = "ACLs are not mirrored: the target has no authorizer"
    with running(MirrorSourceConnector(), config) as context:

        def figures() -> Mapping[str, object]:
            found = [s for s in context.metrics.collect() if s.group == "spark-job-metrics"]
            return found[0].values

        runs = wait_until(lambda: told in caplog.text and figures()["run-count"], WAIT_S, "a run")
        wait_until(lambda: figures()["run-count"] != runs, WAIT_S, "another run")
        assert figures()["failure-count"] == 0
    assert caplog.text.count(told) == 1
