"""A worker's log at the finest level, on brokers that want a password."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.brokers import KafkaCluster, KafkaRuntime
from tests.support.records.topics import unique
from tests.support.security.secure_listeners import LOGIN, SECRET, sasl_properties
from tests.support.waiting import wait_until
from tests.support.workers.distributed import worker_group
from tests.support.workers.java_connect import worker_properties

WAIT_S = 30.0
LISTENER = "SASL"


@pytest.fixture
def secure(kafka: KafkaRuntime, session_logs: Path) -> Iterator[KafkaCluster]:
    with KafkaCluster(
        name="secrets-in-logs",
        kafka=kafka,
        logs=session_logs,
        listeners={LISTENER: "SASL_PLAINTEXT"},
        properties=sasl_properties("sasl"),
    ) as cluster:
        yield cluster


def test_no_level_of_any_logger_shows_a_password(
    secure: KafkaCluster, logs: Path, tmp_path: Path
) -> None:
    login = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": f"{LOGIN}.plain.PlainLoginModule required username=ali"
        f' password="{SECRET}";',
    }
    clients = {
        f"{prefix}{key}": value for prefix in ("", "consumer.") for key, value in login.items()
    }
    properties = {
        **worker_properties(secure.bootstrap(LISTENER), unique("secrets")),
        **clients,
        "session.timeout.ms": "6000",
        "heartbeat.interval.ms": "500",
    }
    sink = {"connector.class": "FileStreamSink", "topics": unique("nothing")}
    with worker_group(1, properties, tmp_path, logs) as group:
        level = "/admin/loggers/root?scope=worker"
        affected = group.accepted("PUT", level, {"level": "TRACE"}).json()
        assert "root" in affected
        group.accepted("PUT", "/connectors/s/config", sink)
        # The second config starts new consumers, which log in at that level.
        group.accepted("PUT", "/connectors/s/config", {**sink, "tasks.max": "2"})
        wait_until(
            lambda: len(group.call("GET", "/connectors/s/status").json().get("tasks", ())) == 2,
            WAIT_S,
            "both tasks",
        )
        assert group.call("GET", "/admin/loggers/root").json()["level"] == "TRACE"
    log = (logs / "worker-1.log").read_text()
    assert "Set the log level of root" in log
    assert SECRET not in log
