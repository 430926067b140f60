"""The logs of workers at the finest level, on brokers that want a password."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.brokers import KafkaCluster, KafkaRuntime
from tests.support.records.topics import unique
from tests.support.rest import call
from tests.support.security.secure_listeners import LOGIN, SECRET, sasl_properties
from tests.support.waiting import wait_until
from tests.support.workers.distributed import worker_group
from tests.support.workers.java_connect import worker_properties

WAIT_S = 30.0
LISTENER = "SASL"


@pytest.fixture(scope="module")
def secure(kafka: KafkaRuntime, session_logs: Path) -> Iterator[KafkaCluster]:
    with KafkaCluster(
        name="secrets-in-logs",
        kafka=kafka,
        logs=session_logs,
        listeners={LISTENER: "SASL_PLAINTEXT"},
        properties=sasl_properties("sasl"),
    ) as cluster:
        yield cluster


@pytest.mark.parametrize(("scope", "workers"), [("worker", 1), ("cluster", 2)])
def test_no_level_of_any_logger_shows_a_password(
    secure: KafkaCluster, logs: Path, tmp_path: Path, scope: str, workers: int
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
    with worker_group(workers, properties, tmp_path, logs) as group:

        def levels() -> set[str]:
            return {
                call(worker.url, "GET", "/admin/loggers/root").json()["level"]
                for worker in group.workers
            }

        group.accepted("PUT", f"/admin/loggers/root?scope={scope}", {"level": "TRACE"})
        wait_until(lambda: levels() == {"TRACE"}, WAIT_S, "the level on all workers")
        group.accepted("PUT", "/connectors/s/config", sink)
        # The second config starts new consumers, on each worker, which log in at that level.
        group.accepted("PUT", "/connectors/s/config", {**sink, "tasks.max": "2"})
        group.until_running("s", tasks=2)
        assert levels() == {"TRACE"}
    for number in range(1, workers + 1):
        log = (logs / f"worker-{number}.log").read_text()
        assert "Set the log level of root" in log
        assert SECRET not in log
