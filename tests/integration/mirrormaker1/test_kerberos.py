"""MirrorMaker 1 between clusters that want Kerberos, set up as the Hortonworks guide says.

The keytab is in a JAAS file that KAFKA_OPTS names. Of the two files, one has the protocol's name of
Hortonworks' older releases and one that of the guide's last.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from deploy.brokers import KafkaRuntime
from tests.support.flows.mirrormaker1 import Clusters, Run
from tests.support.records.producing import numbered, produce
from tests.support.records.reading import numbers, read_partition
from tests.support.security.certificates import Authority
from tests.support.security.kdc import kdc, missing_for_kerberos
from tests.support.security.kerberized import MIRROR, jaas, kerberized

MISSING = missing_for_kerberos()
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(MISSING is not None, reason=MISSING or ""),
]

WAIT_S = 90.0


def test_the_guides_files_log_in_on_both_sides(
    kafka: KafkaRuntime,
    session_logs: Path,
    logs: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    run: Run,
) -> None:
    """One topic is copied as bytes, the other record by record: keys decide its partitions."""
    authority = Authority()
    with (
        kdc(tmp_path / "kdc") as server,
        kerberized(server, kafka, session_logs, authority, name="mm1-krb-a") as source,
        kerberized(server, kafka, session_logs, authority, name="mm1-krb-b") as target,
    ):
        login = tmp_path / "kafka_mirrormaker_jaas.conf"
        entry = jaas(MIRROR, server.keytab(MIRROR), more=' serviceName="kafka"')
        login.write_text(f"KafkaClient {{ {entry} }};")
        monkeypatch.setenv(
            "KAFKA_OPTS",
            f"-Djava.security.krb5.conf={server.config} -Djava.security.auth.login.config={login}",
        )
        clusters = Clusters(source, target, tmp_path)
        topics = [clusters.topic(copies=1), clusters.topic(copies=2)]
        for topic in topics:
            produce(clusters.source, topic, numbered(100))
        options = clusters.options(
            *("--whitelist", "|".join(topics), "--new.consumer"),
            consumer={
                "bootstrap.servers": source.bootstrap("KERBEROS"),
                "security.protocol": "PLAINTEXTSASL",
            },
            producer={
                "bootstrap.servers": target.bootstrap("KERBEROS"),
                "security.protocol": "SASL_PLAINTEXT",
            },
        )
        mirror = run(options)
        for topic in topics:
            clusters.wait_committed(topic, {0: 100}, WAIT_S)
        assert mirror.stop(30) == 0
        for topic, copies in zip(topics, (1, 2), strict=True):
            found = [
                number
                for partition in range(copies)
                for number in numbers(read_partition(clusters.target, topic, partition))
            ]
            assert sorted(found) == list(range(100))
        told = "consumer.properties: security.protocol=PLAINTEXTSASL is an old name"
        assert told in (logs / "mm1-1.log").read_text()
