"""The mirror as a process between clusters that want Kerberos, configured as for Java.

The keytab is named by a JAAS file, and the realm by a krb5.conf, both in KAFKA_OPTS; the brokers
map `mirrormaker/HOST@REALM` to a user by their auth_to_local rules.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from deploy.brokers import KafkaCluster, KafkaRuntime
from tests.support.certificates import Authority
from tests.support.kdc import Kdc, kdc, missing_for_kerberos
from tests.support.kerberized import MIRROR, jaas, kerberized
from tests.support.mirrored import stop_cleanly
from tests.support.mirrors import mirror_maker, mm2_properties
from tests.support.producing import numbered, produce
from tests.support.reading import numbers, read_partition
from tests.support.topics import create_topic, end_offset, topic_names
from tests.support.waiting import wait_until

MISSING = missing_for_kerberos()
pytestmark = pytest.mark.skipif(MISSING is not None, reason=MISSING or "")

CHECK_S = 60.0


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
        if self.remote(topic) not in topic_names(self.target.bootstrap_servers):
            return 0
        return end_offset(self.target.bootstrap_servers, self.remote(topic))


@contextmanager
def clusters(
    kafka: KafkaRuntime,
    logs: Path,
    folder: Path,
    patch: pytest.MonkeyPatch,
    ticket_life: str = "1h",
    **broker: str,
) -> Iterator[Clusters]:
    """`ticket_life`: how long a ticket is good for. `broker`: properties, `_` for a dot."""
    authority = Authority()
    more = {name.replace("_", "."): value for name, value in broker.items()}
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
                "sync.topic.configs.enabled": "true",
                "sync.topic.acls.enabled": "true",
                "sync.group.offsets.enabled": "true",
            },
        )
        yield Clusters(server, source, target, properties)


def check(folder: Path, properties: dict[str, str]) -> subprocess.CompletedProcess[str]:
    path = folder / "check.properties"
    path.write_text("".join(f"{key} = {value}\n" for key, value in properties.items()))
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
            wait_until(lambda: pair.copied(topic) == 500, 60, "500 records copied")
            target = pair.target.bootstrap_servers
            wait_until(
                lambda: committed(target, "readers", pair.remote(topic)) == 100,
                60,
                "the group's offset translated",
            )
            stop_cleanly(mirror, log)
        copied = read_partition(target, pair.remote(topic))
        assert numbers(copied) == list(range(500))
