"""Jobs on a real Spark Connect server: our processes have no Java, and its Python no package."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from api.cli import mirror_audit, mirror_backfill
from api.cli.program import EXIT_DIFFERENT, EXIT_FAILED
from deploy.brokers import KafkaCluster
from tests.support.flows.backfills import properties_file
from tests.support.flows.mirrored import (
    MirroredFlow,
    assert_equal_logs,
    running,
    stop_cleanly,
)
from tests.support.records.groups import commit, committed
from tests.support.records.producing import numbered, produce
from tests.support.records.topics import alter_topic, create_topic, topic_config, unique
from tests.support.spark.connect_server import (
    REMOTE_VARIABLE,
    ConnectServer,
    client_environment,
)
from tests.support.spark.session import bare_python
from tests.support.waiting import wait_until

# A server, and processes of which each starts a session on it.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

CHECKOUT = Path(__file__).parents[3]
RUN_S, WAIT_S = 600.0, 240.0
SECRET = "5ecret-of-nobody"
SECRETS = {f"{side}.ssl.key.password": SECRET for side in "AB"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, session_logs: Path) -> Iterator[ConnectServer]:
    path = bare_python(tmp_path_factory.mktemp("python") / "bare")
    with ConnectServer(session_logs, path=[path], kafka=True).running() as started:
        yield started


@pytest.fixture
def flow(source_cluster: KafkaCluster, target_cluster: KafkaCluster) -> MirroredFlow:
    return MirroredFlow(source_cluster, target_cluster)


def ran(packages: Path, *arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *map(str, arguments)],
        env={**client_environment(packages), **environment},
        cwd=CHECKOUT,
        capture_output=True,
        text=True,
        timeout=RUN_S,
        check=False,
    )


def assert_hidden(server: ConnectServer, *shown: str) -> None:
    """No secret is in what this program said, or in what the server's history shows."""
    events = json.dumps(server.events())
    assert "SparkListenerConnectOperationStarted" in events
    for text in (events, *shown):
        assert SECRET not in text


def test_periodic_jobs_compute_on_it_what_they_compute_elsewhere(
    server: ConnectServer, connect_packages: Path
) -> None:
    """The tests of these jobs, with a session of the server."""
    tests = [
        f"tests/integration/spark/test_spark_{name}.py"
        for name in ("settings_jobs", "translation", "translator")
    ]
    options = ["-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"]
    done = ran(connect_packages, *options, *tests, **{REMOTE_VARIABLE: server.url})
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_mirror_syncs_and_translates_on_it_and_copies_by_itself(
    flow: MirroredFlow,
    server: ConnectServer,
    connect_packages: Path,
    logs: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in client_environment(connect_packages).items():
        monkeypatch.setenv(name, value)
    topic, group = flow.topic(configs={"retention.ms": "7200000"}), unique("group")
    produce(flow.source_servers, topic, numbered(50))
    commit(flow.source_servers, group, {(topic, 0): 30})
    properties = flow.properties(
        {
            **SECRETS,
            "A->B.spark.remote": server.url,
            "A->B.mirror.translation.engine": "spark",
            "A->B.sync.topic.configs.enabled": "true",
            "A->B.sync.topic.configs.interval.seconds": "1",
            "A->B.groups": group,
            "A->B.emit.checkpoints.interval.seconds": "1",
            "A->B.sync.group.offsets.enabled": "true",
            "A->B.sync.group.offsets.interval.seconds": "1",
            "A->B.refresh.groups.interval.seconds": "1",
        }
    )
    log = logs / "mirror.log"
    with running(properties, tmp_path, log) as mirror:
        remote = flow.wait_created(topic, WAIT_S)
        flow.wait_records(topic, [50], WAIT_S)
        wait_until(
            lambda: committed(flow.target_servers, group).get((remote, 0)) == 30,
            WAIT_S,
            "the group's offset on the target",
        )
        alter_topic(flow.source_servers, topic, {"retention.ms": "9000000"})
        wait_until(
            lambda: topic_config(flow.target_servers, remote, "retention.ms") == "9000000",
            WAIT_S,
            "the config on the target",
        )
        stop_cleanly(mirror, log)
    said = log.read_text()
    assert f"is ready on {server.url}" in said
    assert "Config sync of" in said
    assert "computed by spark" in said
    assert_hidden(server, said)


READ = """
import sys
from connectors.spark.program_session import own_session

with own_session("test", {"spark.remote": sys.argv[1]}, kafka=True) as session:
    source = session.read.format("kafka").option("kafka.bootstrap.servers", sys.argv[2])
    source = source.option("subscribe", sys.argv[3]).option("kafka.ssl.key.password", sys.argv[4])
    print(len(source.load().select("value").collect()))
"""


def test_the_server_shows_no_option_of_its_kafka_source(
    flow: MirroredFlow, server: ConnectServer, connect_packages: Path
) -> None:
    """Not even in a plan that is so flat that it is shown whole."""
    produce(flow.source_servers, topic := flow.topic(), numbered(5))
    done = ran(connect_packages, "-c", READ, server.url, flow.source_servers, topic, SECRET)
    assert done.stdout.strip() == "5", done.stdout + done.stderr
    texts = [event.get("statementText", "") for event in server.events()]
    assert any('key: "subscribe"' in text and topic in text for text in texts)
    assert_hidden(server, done.stdout + done.stderr)


def test_an_audit_runs_on_it(
    flow: MirroredFlow, server: ConnectServer, connect_packages: Path, tmp_path: Path
) -> None:
    topic = flow.topic()
    remote = create_topic(flow.target_servers, name=flow.remote(topic))
    records = [replace(record, timestamp_ms=1_700_000_000_000) for record in numbered(500)]
    produce(flow.source_servers, topic, records, batch_records=50)
    produce(flow.target_servers, remote, records, batch_records=70)
    extra = {**SECRETS, "spark.remote": server.url}
    file = properties_file(flow.properties(extra), tmp_path)

    equal = ran(connect_packages, mirror_audit.__file__, file)
    assert equal.returncode == 0, equal.stdout + equal.stderr
    assert "Complete: 500 records are equal" in equal.stdout

    produce(flow.target_servers, remote, numbered(1, start=500))
    differing = ran(connect_packages, mirror_audit.__file__, file)
    assert differing.returncode == EXIT_DIFFERENT, differing.stdout + differing.stderr
    assert_hidden(server, *(each.stdout + each.stderr for each in (equal, differing)))


def test_a_server_that_is_away_is_named_without_its_token(
    flow: MirroredFlow, connect_packages: Path, tmp_path: Path
) -> None:
    produce(flow.source_servers, topic := flow.topic(), numbered(1))
    produce(flow.target_servers, flow.remote(topic), numbered(1))
    extra = {"spark.remote": f"sc://127.0.0.1:1/;token={SECRET}"}
    file = properties_file(flow.properties(extra), tmp_path)
    done = ran(connect_packages, mirror_audit.__file__, file)
    assert done.returncode == EXIT_FAILED, done.stdout + done.stderr
    assert "Cannot use Spark: " in done.stderr
    assert "sc://127.0.0.1:1" in done.stderr
    assert SECRET not in done.stdout + done.stderr


def test_a_backfill_runs_on_it(
    flow: MirroredFlow, server: ConnectServer, connect_packages: Path, tmp_path: Path
) -> None:
    topic = flow.topic(partitions=2)
    for partition in (0, 1):
        produce(flow.source_servers, topic, numbered(500, partition=partition), batch_records=50)
    extra = {**SECRETS, "spark.remote": server.url, "spark.executor.memory": "1g"}
    file = properties_file(flow.properties(extra), tmp_path)

    done = ran(connect_packages, mirror_backfill.__file__, file, "--piece-bytes", "20000")
    assert done.returncode == 0, done.stdout + done.stderr
    assert_equal_logs(flow, topic)
    ignored = "only its own properties can set these, which are ignored: spark.executor.memory"
    assert f"{server.url}: {ignored}" in done.stderr
    assert_hidden(server, done.stdout + done.stderr)
