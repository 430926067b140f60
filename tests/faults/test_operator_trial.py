"""Ten things break, one at a time: each place where an operator looks names it within a minute.

The table at the end of a run is the one in docs/how-to/troubleshooting.md.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from confluent_kafka.admin import AclOperation

from deploy.brokers import GuardedProcess, KafkaCluster, KafkaRuntime
from deploy.brokers.node import KafkaNode
from deploy.brokers.ports import LOOPBACK
from deploy.brokers.properties import render
from tests.support.chaos.disks import Disk
from tests.support.copier.proxy import TcpProxy
from tests.support.deployment.operator_trial import Trial, writing
from tests.support.deployment.prometheus import PROGRAM, prometheus
from tests.support.flows.mirrored import MirroredFlow, running
from tests.support.records.losing import create_again, delete_topic
from tests.support.records.producing import Record, numbered, produce
from tests.support.records.topics import alter_topic
from tests.support.security.certificates import Authority
from tests.support.security.denying import denied
from tests.support.security.secure_listeners import tls_properties

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(PROGRAM is None, reason="Prometheus is not installed"),
]

_COUNT = 50
_REFUSED = rf"{LOOPBACK}:\d+.{{0,80}}([Rr]efused|reset|closed)|[Rr]efused.{{0,80}}{LOOPBACK}:\d+"
AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "allow.everyone.if.no.acl.found": "true",
    "super.users": "User:ANONYMOUS",
}


@contextmanager
def mirrored(
    flow: MirroredFlow,
    directory: Path,
    logs: Path,
    listener: str,
    extra: Mapping[str, str] | None = None,
    configs: Mapping[str, str] | None = None,
) -> Iterator[tuple[Trial, GuardedProcess]]:
    """A flow that has copied a topic and is well."""
    topic = flow.topic("orders", configs=configs)
    produce(flow.source_servers, topic, numbered(_COUNT))
    properties = flow.properties({"metrics.listener": listener, **(extra or {})})
    with (
        running(properties, directory, logs / "mirror.log") as mirror,
        prometheus(listener, directory) as server,
    ):
        trial = Trial(flow, listener, directory / "mm2.properties", topic, server)
        flow.wait_records(topic, [1])
        trial.ready()
        yield trial, mirror


@pytest.fixture
def target(kafka: KafkaRuntime, logs: Path) -> Iterator[KafkaCluster]:
    """A target that a test may break."""
    with KafkaCluster(name="broken", kafka=kafka, logs=logs) as cluster:
        yield cluster


def test_a_broker_is_down(
    source_cluster: KafkaCluster, target: KafkaCluster, logs: Path, tmp_path: Path, listener: str
) -> None:
    flow = MirroredFlow(source_cluster, target)
    with (
        mirrored(flow, tmp_path, logs, listener) as (trial, _),
        writing(flow.source_servers, trial.topic),
    ):
        target.node(1).stop()
        trial.named(
            "the target's broker is down",
            _REFUSED,
            alert="MirrorUnhealthy",
        )
        target.node(1).start()
        trial.well_again()


def test_a_disk_is_full(
    source_cluster: KafkaCluster, kafka: KafkaRuntime, logs: Path, tmp_path: Path, listener: str
) -> None:
    if os.geteuid() != 0:
        pytest.fail("a full disk needs root, to mount a small one")
    disk = Disk(tmp_path / "disk", 64)
    try:
        with KafkaCluster(name="full", kafka=kafka, logs=logs, directory=disk.directory) as target:
            flow = MirroredFlow(source_cluster, target)
            with (
                mirrored(flow, tmp_path, logs, listener) as (trial, _),
                writing(flow.source_servers, trial.topic),
            ):
                disk.fill()
                # A broker whose only disk is full stops by itself.
                trial.named(
                    "the disk of the target's broker is full",
                    rf"{_REFUSED}|KAFKA_STORAGE_ERROR",
                    alert="MirrorUnhealthy",
                )
                disk.empty()
                target.node(1).start()
                trial.well_again()
    finally:
        disk.close()


def test_a_permission_is_missing(
    source_cluster: KafkaCluster, kafka: KafkaRuntime, logs: Path, tmp_path: Path, listener: str
) -> None:
    open_to_all = {**AUTHORIZER, "super.users": "User:nobody"}
    with KafkaCluster(name="acls", kafka=kafka, logs=logs, properties=open_to_all) as target:
        flow = MirroredFlow(source_cluster, target)
        with (
            mirrored(flow, tmp_path, logs, listener) as (trial, _),
            writing(flow.source_servers, trial.topic),
        ):
            with denied(target.bootstrap_servers, flow.remote(trial.topic), AclOperation.WRITE):
                trial.named(
                    "Write on the copy was taken away",
                    "TOPIC_AUTHORIZATION_FAILED|[Nn]ot authorized|Write",
                    alert="MirrorPartitionStuck",
                )
            trial.well_again()


def test_a_certificate_has_expired(
    source_cluster: KafkaCluster, kafka: KafkaRuntime, logs: Path, tmp_path: Path, listener: str
) -> None:
    authority = Authority()
    trusted = tmp_path / "ca.pem"
    trusted.write_text(authority.pem)
    with KafkaCluster(
        name="tls",
        kafka=kafka,
        logs=logs,
        listeners={"TLS": "SSL"},
        properties=tls_properties("tls", authority, LOOPBACK),
    ) as target:
        flow = MirroredFlow(source_cluster, target)
        secure = {
            "B.bootstrap.servers": target.bootstrap("TLS"),
            "B.security.protocol": "SSL",
            "B.ssl.truststore.type": "PEM",
            "B.ssl.truststore.location": str(trusted),
        }
        with (
            mirrored(flow, tmp_path, logs, listener, secure) as (trial, _),
            writing(flow.source_servers, trial.topic),
        ):
            node = target.node(1)
            node.stop()
            key, certificate = authority.issue("broker", LOOPBACK, expired=True)
            prefix = "listener.name.tls.ssl.keystore"
            give(node, {f"{prefix}.key": key, f"{prefix}.certificate.chain": certificate})
            node.start()
            trial.named(
                "the certificate of the target's broker has expired",
                "certificate.{0,60}expired|expired.{0,60}certificate",
                alert="MirrorUnhealthy",
            )


def give(node: KafkaNode, properties: Mapping[str, str]) -> None:
    """Write these properties into the node's file, in place of those of the same keys."""
    file = node.directory / "server.properties"
    kept = [
        line
        for line in file.read_text().splitlines(keepends=True)
        if line.partition("=")[0] not in properties
    ]
    file.write_text("".join(kept) + render(properties))


def test_a_source_topic_is_created_again(
    source_cluster: KafkaCluster,
    target_cluster: KafkaCluster,
    logs: Path,
    tmp_path: Path,
    listener: str,
) -> None:
    flow = MirroredFlow(source_cluster, target_cluster)
    with mirrored(flow, tmp_path, logs, listener) as (trial, _):
        delete_topic(flow.source_servers, trial.topic)
        create_again(flow.source_servers, trial.topic)
        produce(flow.source_servers, trial.topic, numbered(10, start=1_000))
        trial.named(
            "a source topic was deleted and created again",
            "created again|re-created|were lost",
            alert="MirrorRecordsLost",
        )


def test_retention_is_faster_than_the_copy(
    source_cluster: KafkaCluster,
    target_cluster: KafkaCluster,
    logs: Path,
    tmp_path: Path,
    listener: str,
) -> None:
    flow = MirroredFlow(source_cluster, target_cluster)
    configs = {"retention.ms": "3600000", "segment.bytes": "1048576"}
    slow = {"mirror.rate.bytes": "5000"}
    with mirrored(flow, tmp_path, logs, listener, slow, configs) as (trial, _):
        produce(flow.source_servers, trial.topic, [Record(b"x" * 1_000) for _ in range(1_600)])
        trial.named(
            "retention deletes records before they are copied",
            "deletes",
            alert="MirrorLosesDataSoon",
            health='"time_to_loss_ms":[0-9]',
        )


def test_a_partition_is_stuck(
    source_cluster: KafkaCluster,
    target_cluster: KafkaCluster,
    logs: Path,
    tmp_path: Path,
    listener: str,
) -> None:
    flow = MirroredFlow(source_cluster, target_cluster)
    with mirrored(flow, tmp_path, logs, listener) as (trial, _):
        copy = flow.remote(trial.topic)
        alter_topic(flow.target_servers, copy, {"max.message.bytes": "20000"})
        produce(flow.source_servers, trial.topic, [Record(b"x" * 50_000)])
        trial.named(
            "the target refuses a record as too large",
            "max.message.bytes",
            alert="MirrorPartitionStuck",
        )
        alter_topic(flow.target_servers, copy, {"max.message.bytes": "1000000"})
        trial.well_again()


def test_a_worker_is_killed(
    source_cluster: KafkaCluster,
    target_cluster: KafkaCluster,
    logs: Path,
    tmp_path: Path,
    listener: str,
) -> None:
    flow = MirroredFlow(source_cluster, target_cluster)
    with mirrored(flow, tmp_path, logs, listener) as (trial, mirror):
        mirror.kill()
        trial.named(
            "the worker was killed",
            "no answer",
            alert="MirrorWorkerMissing",
            why="has no members",
        )


def test_a_clock_is_wrong(
    source_cluster: KafkaCluster,
    target_cluster: KafkaCluster,
    logs: Path,
    tmp_path: Path,
    listener: str,
) -> None:
    flow = MirroredFlow(source_cluster, target_cluster)
    # Brokers refuse timestamps that are more than an hour ahead.
    with (
        mirrored(flow, tmp_path, logs, listener) as (trial, _),
        writing(flow.source_servers, trial.topic, ahead_s=3_000.0),
    ):
        trial.named(
            "the clock of the producers' host is 50 minutes ahead",
            "clock",
            alert="MirrorClockWrong",
        )


def test_a_link_is_slow(
    target_cluster: KafkaCluster, kafka: KafkaRuntime, logs: Path, tmp_path: Path, listener: str
) -> None:
    with ExitStack() as proxies:
        found: list[TcpProxy] = []

        def advertised(_listener: str, port: int) -> int:
            found.append(proxies.enter_context(TcpProxy(port)))
            return found[-1].port

        with KafkaCluster(name="far", kafka=kafka, logs=logs, advertise=advertised) as source:
            flow = MirroredFlow(source, target_cluster)
            with (
                mirrored(flow, tmp_path, logs, listener) as (trial, _),
                writing(source.bootstrap_servers, trial.topic, size=10_000),
            ):
                for proxy in found:
                    proxy.client_bytes_per_s = 100_000.0
                    proxy.delay_to_client_s = 1.5
                trial.named(
                    "the link from the source passes 100 kB/s with a delay of 1.5 s",
                    "[1-9][0-9]* records behind",
                    alert="MirrorSourceSlow",
                    health='"lag_records":[1-9]',
                    why="slowly",
                )
