"""The mirror as a process between clusters that want Kerberos, configured as for Java.

The keytab is named by a JAAS file, and the realm by a krb5.conf, both in KAFKA_OPTS; the brokers
map `mirrormaker/HOST@REALM` to a user by their auth_to_local rules.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from connect.clock import Deadline
from deploy.brokers import KafkaCluster, KafkaRuntime
from tests.support.flows.mirrored import stop_cleanly
from tests.support.flows.mirrors import mirror_maker, mm2_properties
from tests.support.properties_files import properties_text
from tests.support.records.producing import numbered, produce
from tests.support.records.reading import numbers, read_partition
from tests.support.records.topics import create_topic, end_offset, has_topic
from tests.support.security.certificates import Authority
from tests.support.security.kdc import Kdc, kdc, missing_for_kerberos
from tests.support.security.kerberized import MIRROR, jaas, kerberized
from tests.support.served import rebalances, settled_rebalances
from tests.support.waiting import wait_until

MISSING = missing_for_kerberos()
pytestmark = pytest.mark.skipif(MISSING is not None, reason=MISSING or "")

CHECK_S = 60.0
TICKET_S = 60
"""libkrb5 takes shorter tickets for expired and gets a new one for each connection."""
RENEWALS = 8
RUN_S = 300.0
SESSION_MS = 5_000


@dataclass
class Clusters:
    """Two clusters of one realm, and the mirror's files."""

    kdc: Kdc
    source: KafkaCluster
    target: KafkaCluster
    properties: dict[str, str]

    def remote(self, topic: str) -> str:
        return f"source.{topic}"

    def copied(self, topic: str) -> int:
        if not has_topic(self.target.bootstrap_servers, self.remote(topic)):
            return 0
        return end_offset(self.target.bootstrap_servers, self.remote(topic))


@contextmanager
def clusters(
    kafka: KafkaRuntime,
    logs: Path,
    folder: Path,
    patch: pytest.MonkeyPatch,
    ticket_life: str = "1h",
    more: Mapping[str, str] | None = None,
) -> Iterator[Clusters]:
    """`ticket_life`: how long a ticket is good for. `more`: properties of the brokers."""
    authority = Authority()
    with (
        kdc(folder / "kdc", ticket_life=ticket_life) as server,
        kerberized(server, kafka, logs, authority, name="krb-a", properties=more) as source,
        kerberized(server, kafka, logs, authority, name="krb-b", properties=more) as target,
    ):
        login = folder / "jaas.conf"
        login.write_text(f"KafkaClient {{ {jaas(MIRROR, server.keytab(MIRROR))} }};")
        patch.setenv(
            "KAFKA_OPTS",
            f"-Djava.security.krb5.conf={server.config} -Djava.security.auth.login.config={login}",
        )
        (folder / "ca.pem").write_text(authority.pem)
        properties = mm2_properties(
            source.bootstrap("KERBEROS"),
            target.bootstrap("SECURE"),
            {
                "source.security.protocol": "SASL_PLAINTEXT",
                "target.security.protocol": "SASL_SSL",
                "target.ssl.truststore.type": "PEM",
                "target.ssl.truststore.location": str(folder / "ca.pem"),
                "sasl.kerberos.service.name": "kafka",
                "target.offset.flush.interval.ms": "500",
                "metrics.listener": "",
                "sync.topic.configs.enabled": "true",
                "sync.topic.acls.enabled": "true",
                "sync.group.offsets.enabled": "true",
                "sync.group.offsets.interval.seconds": "1",
            },
        )
        yield Clusters(server, source, target, properties)


def check(folder: Path, properties: dict[str, str]) -> subprocess.CompletedProcess[str]:
    path = folder / "check.properties"
    path.write_text(properties_text(properties))
    command = [sys.executable, "-m", "api.cli.mirror_maker", "--check", str(path)]
    return subprocess.run(command, capture_output=True, text=True, timeout=CHECK_S, check=False)


def commit(servers: str, group: str, topic: str, offset: int) -> None:
    consumer = Consumer({"bootstrap.servers": servers, "group.id": group})
    consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
    consumer.close()


def committed(servers: str, group: str, topic: str) -> int:
    consumer = Consumer({"bootstrap.servers": servers, "group.id": group})
    try:
        return int(consumer.committed([TopicPartition(topic, 0)], timeout=30)[0].offset)
    finally:
        consumer.close()


def test_a_flow_is_checked_and_copied(
    kafka: KafkaRuntime,
    session_logs: Path,
    logs: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log = logs / "mirror.log"
    with clusters(kafka, session_logs, tmp_path, monkeypatch) as pair:
        topic = create_topic(pair.source.bootstrap_servers, "kerberized")
        produce(pair.source.bootstrap_servers, topic, numbered(500))
        commit(pair.source.bootstrap_servers, "readers", topic, 100)

        wrong = check(tmp_path, {**pair.properties, "sasl.kerberos.service.name": "kafak"})
        assert wrong.returncode != 0
        assert "the KDC has no principal kafak/127.0.0.1" in wrong.stdout + wrong.stderr

        right = check(tmp_path, {**pair.properties, "source->target.topics": topic})
        assert right.returncode == 0, right.stdout + right.stderr

        properties = {**pair.properties, "source->target.topics": topic}
        with mirror_maker(properties, tmp_path / "mm2", log) as mirror:
            wait_until(
                lambda: mirror.poll() is not None or pair.copied(topic) == 500,
                60,
                "500 records copied",
            )
            assert mirror.poll() is None, log.read_text()
            target = pair.target.bootstrap_servers
            wait_until(
                lambda: committed(target, "readers", pair.remote(topic)) == 100,
                60,
                "the group's offset translated",
            )
            stop_cleanly(mirror, log)
        copied = read_partition(target, pair.remote(topic))
        assert numbers(copied) == list(range(500))


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_tickets_and_sessions_end_and_nothing_else_does(
    kafka: KafkaRuntime,
    session_logs: Path,
    logs: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    listener: str,
) -> None:
    """Tickets of 60 s and sessions of 5 s, for five minutes: no record is lost or doubled, and the
    group of workers does not rebalance."""
    log = logs / "mirror.log"
    reauthenticate = {"connections.max.reauth.ms": str(SESSION_MS)}
    with clusters(
        kafka, session_logs, tmp_path, monkeypatch, f"{TICKET_S}s", reauthenticate
    ) as pair:
        topic = create_topic(pair.source.bootstrap_servers, "kerberized")
        properties = {
            **pair.properties,
            "source->target.topics": topic,
            "metrics.listener": listener,
        }
        with mirror_maker(properties, tmp_path / "mm2", log) as mirror:
            produce(pair.source.bootstrap_servers, topic, numbered(10))
            wait_until(lambda: pair.copied(topic) == 10, 60, "10 records copied")
            before = settled_rebalances(listener)
            begun, run = tickets(pair.kdc), Deadline(RUN_S)
            sent = 10

            def renewed() -> bool:
                nonlocal sent
                produce(pair.source.bootstrap_servers, topic, numbered(10, start=sent))
                sent += 10
                assert mirror.poll() is None
                return run.expired() and tickets(pair.kdc) >= begun + RENEWALS

            # libkrb5 renews after half a ticket's life.
            wait_until(renewed, RUN_S + TICKET_S * RENEWALS, f"{RENEWALS} new tickets")
            wait_until(lambda: pair.copied(topic) >= sent, 60, "all records copied")
            assert rebalances(listener) == before
            stop_cleanly(mirror, log)
        copied = read_partition(pair.target.bootstrap_servers, pair.remote(topic))
        assert numbers(copied) == list(range(sent))
        assert " ERROR " not in log.read_text()


def tickets(server: Kdc) -> int:
    """How often the KDC gave the mirror a ticket-granting ticket."""
    lines = server.log.read_text().splitlines()
    return sum("AS_REQ" in line and "ISSUE" in line and MIRROR in line for line in lines)
