"""A Connect worker whose cluster wants Kerberos, with a source task and a sink task."""

from __future__ import annotations

from pathlib import Path

import pytest

from deploy.brokers import KafkaRuntime
from tests.support.records.groups import committed
from tests.support.records.topics import create_topic, unique
from tests.support.security.certificates import Authority
from tests.support.security.kdc import kdc, missing_for_kerberos
from tests.support.security.kerberized import MIRROR, kerberized, login_properties
from tests.support.waiting import wait_until
from tests.support.workers.distributed import file_source, worker_group
from tests.support.workers.java_connect import worker_properties

MISSING = missing_for_kerberos()
pytestmark = pytest.mark.skipif(MISSING is not None, reason=MISSING or "")

WAIT_S = 90.0
LINES = [f"line {number}" for number in range(50)]


def test_lines_pass_from_a_source_task_to_a_sink_task(
    kafka: KafkaRuntime,
    session_logs: Path,
    logs: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The worker and its source tasks log in on the plain listener, sink tasks on that with TLS."""
    authority = Authority()
    with (
        kdc(tmp_path / "kdc") as server,
        kerberized(server, kafka, session_logs, authority, name="krb-connect") as cluster,
    ):
        monkeypatch.setenv("KRB5_CONFIG", str(server.config))
        login = login_properties(MIRROR, server.keytab(MIRROR))
        secure = {
            **login,
            "security.protocol": "SASL_SSL",
            "bootstrap.servers": cluster.bootstrap("SECURE"),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.certificates": authority.pem.replace("\n", "\\n"),
        }
        properties = {
            **worker_properties(cluster.bootstrap("KERBEROS"), unique("kerberos")),
            "key.converter": "org.apache.kafka.connect.storage.StringConverter",
            "value.converter": "org.apache.kafka.connect.storage.StringConverter",
            **login,
            **{f"producer.{key}": value for key, value in login.items()},
            **{f"admin.{key}": value for key, value in login.items()},
            **{f"consumer.{key}": value for key, value in secure.items()},
        }
        topic = create_topic(cluster.bootstrap_servers, "lines")
        given, taken, sink = tmp_path / "given.txt", tmp_path / "taken.txt", unique("sink")
        given.write_text("\n".join(LINES) + "\n")
        with worker_group(1, properties, tmp_path, logs) as group:
            group.create(unique("source"), file_source(topic, given))
            group.create(
                sink,
                {"connector.class": "FileStreamSink", "file": str(taken), "topics": topic},
            )
            group.until_running(sink, 1)
            wait_until(
                lambda: taken.exists() and taken.read_text().splitlines() == LINES,
                WAIT_S,
                f"{len(LINES)} lines of the sink",
            )
            wait_until(
                lambda: (
                    committed(cluster.bootstrap_servers, f"connect-{sink}")
                    == {(topic, 0): len(LINES)}
                ),
                WAIT_S,
                "the sink's commit",
            )
