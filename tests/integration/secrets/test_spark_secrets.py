"""A mirror on Spark, with passwords of clusters and of Spark's own: neither the pages of Spark's UI
nor its event log nor a command line shows one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.brokers.cache import cache_directory
from deploy.brokers.ports import LOOPBACK, PortLease
from tests.integration.secrets.broker import Guarded
from tests.support.flows.mirrored import MirroredFlow, running
from tests.support.records.groups import commit
from tests.support.records.producing import numbered, produce
from tests.support.records.topics import unique
from tests.support.rest import call
from tests.support.spark.flow import SPARK, START_S, STOP_S

COUNT = 50
OF_EXECUTORS = "a password of executors"
"""`spark.executorEnv.*` is the environment that its operator gives to Spark's Python processes."""
UI_PAGES = ("jobs", "stages", "storage", "environment", "executors", "SQL")
API_PAGES = ("jobs", "stages", "storage/rdd", "environment", "executors", "sql")


@pytest.fixture
def ui() -> Iterator[str]:
    lease = PortLease(cache_directory() / "ports")
    try:
        yield f"http://{LOOPBACK}:{lease.port}"
    finally:
        lease.close()


def properties(guarded: Guarded, flow: MirroredFlow, ui: str, events: Path) -> dict[str, str]:
    canaries = guarded.canaries
    logins = {f"{side}.{key}": value for side in "AB" for key, value in guarded.login().items()}
    spark = {
        "spark.ui.enabled": "true",
        "spark.ui.port": ui.rpartition(":")[2],
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": events.as_uri(),
        "spark.eventLog.compress": "false",
        "spark.hadoop.fs.s3a.secret.key": canaries.new("a secret of Hadoop"),
        "spark.executorEnv.DB_PASSWORD": canaries.new(OF_EXECUTORS),
    }
    given = flow.properties(
        {
            **logins,
            **SPARK,
            **canaries.of_clients("A."),
            **canaries.of_clients("B."),
            **{f"A->B.{key}": value for key, value in spark.items()},
        }
    )
    return {key: value.replace("\\", "\\\\") for key, value in given.items()}


def test_neither_the_ui_nor_the_event_log_of_spark_shows_a_secret(
    guarded: Guarded, tmp_path: Path, logs: Path, ui: str
) -> None:
    canaries, log, events = guarded.canaries, logs / "mirror.log", tmp_path / "events"
    events.mkdir()
    flow, group = MirroredFlow(guarded.cluster, guarded.cluster), unique("readers")
    topic = flow.topic()
    produce(flow.source_servers, topic, numbered(COUNT))
    commit(flow.source_servers, group, {(topic, 0): COUNT // 2})
    given = properties(guarded, flow, ui, events)
    with running(given, tmp_path / "run", log) as mirror:
        flow.wait_records(topic, [COUNT], START_S)
        assert "task 0 on Spark: " in log.read_text()

        def ask(path: str) -> tuple[int, bytes]:
            answer = call(ui, "GET", path)
            return answer.status, answer.body

        application = json.loads(ask("/api/v1/applications")[1])[0]["id"]
        paths = [f"/{page}/" for page in UI_PAGES]
        paths += [f"/api/v1/applications/{application}/{page}" for page in API_PAGES]
        environment = ask(f"/api/v1/applications/{application}/environment")[1].decode()
        found = canaries.leaked_by_answers(ask, dict.fromkeys(paths))
        found += canaries.leaked_by_processes(mirror.pid, by_design={OF_EXECUTORS})
        assert mirror.stop(STOP_S) == 0
    assert "spark.hadoop.fs.s3a.secret.key" in environment
    written = [path for path in events.rglob("*") if path.is_file()]
    assert any("SparkListenerJobStart" in path.read_text() for path in written)
    assert found + canaries.leaked_by_files(log, *written) == []
