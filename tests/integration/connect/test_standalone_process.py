"""`connect-standalone` as a user runs it: files, REST, signals, exit codes."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from deploy.brokers import KafkaCluster, KafkaRuntime
from tests.support.properties_files import properties_text
from tests.support.records.topics import unique
from tests.support.rest import call
from tests.support.security.certificates import Authority
from tests.support.waiting import wait_until
from tests.support.workers.workers import is_healthy, standalone_process, standalone_worker

_WAIT_S = 60.0
CLASS = "org.apache.kafka.connect.mirror.MirrorHeartbeatConnector"


def worker(cluster: KafkaCluster, directory: Path) -> dict[str, str]:
    return {
        "bootstrap.servers": cluster.bootstrap_servers,
        "key.converter": "ByteArrayConverter",
        "value.converter": "org.apache.kafka.connect.converters.ByteArrayConverter",
        "offset.storage.file.filename": str(directory / "offsets.db"),
        "offset.flush.interval.ms": "200",
    }


def heartbeat(cluster: KafkaCluster, topic: str) -> dict[str, str]:
    return {
        "connector.class": CLASS,
        "source.cluster.alias": "a",
        "target.cluster.alias": "b",
        "source.cluster.bootstrap.servers": cluster.bootstrap_servers,
        "target.cluster.bootstrap.servers": cluster.bootstrap_servers,
        "heartbeats.topic": topic,
        "heartbeats.topic.replication.factor": "1",
        "emit.heartbeats.interval.seconds": "1",
    }


def test_connectors_of_files_run_and_their_offsets_outlive_the_worker(
    target_cluster: KafkaCluster, logs: Path, tmp_path: Path
) -> None:
    config = heartbeat(target_cluster, unique("heartbeats"))
    properties, request = tmp_path / "one.txt", tmp_path / "two.txt"
    properties.write_text(properties_text({"name": "one", **config}))
    request.write_text(json.dumps({"name": "two", "config": config, "initial_state": "STOPPED"}))
    props = worker(target_cluster, tmp_path)

    def offsets(url: str) -> object:
        return call(url, "GET", "/connectors/one/offsets").json()["offsets"]

    with standalone_worker(props, tmp_path, logs / "1.log", [properties, request]) as url:
        assert call(url, "GET", "/connectors").json() == ["one", "two"]
        assert call(url, "GET", "/connectors/two/status").json()["connector"]["state"] == "STOPPED"
        stored = wait_until(lambda: offsets(url), _WAIT_S, "a stored offset")
        status = call(url, "GET", "/connectors/one/status").json()
        assert [task["state"] for task in status["tasks"]] == ["RUNNING"]
        assert status["connector"]["worker_id"] in url
        assert call(url, "GET", "/health").json().keys() == {"status", "message"}
        health = call(url, "GET", "/health?verbose=true").json()
        assert health["status"] == "healthy"
        shown = {each["name"]: each for each in health["connectors"]}
        assert (shown["one"]["state"], shown["two"]["state"]) == ("RUNNING", "STOPPED")
        assert shown["one"]["healthy"]
        assert [task["state"] for task in shown["one"]["tasks"]] == ["RUNNING"]
    with standalone_worker(props, tmp_path, logs / "2.log", [properties]) as url:
        assert offsets(url) == stored


def run(tmp_path: Path, log: Path, props: dict[str, str], *files: Path) -> tuple[int, str]:
    """Exit code and output of a worker that ends by itself."""
    with standalone_process(props, tmp_path, log, files) as process:
        code = process.wait(_WAIT_S)
    return code, log.read_text()


def test_a_connector_that_cannot_be_created_ends_the_worker_with_3(
    target_cluster: KafkaCluster, logs: Path, tmp_path: Path
) -> None:
    file = tmp_path / "c.properties"
    file.write_text(f"name=c\nconnector.class={CLASS}\n")
    props = {**worker(target_cluster, tmp_path), "listeners": "http://127.0.0.1:0"}

    code, output = run(tmp_path, logs / "worker.log", props, file)

    assert code == 3
    assert "c.properties" in output
    assert "source.cluster.alias" in output
    assert "Traceback" not in output


@pytest.mark.parametrize(
    ("changes", "word", "expected"),
    [
        ({"listeners": "ftp://x:1"}, "listeners", 78),
        ({"offset.flush.interval.ms": "x"}, "offset.flush.interval.ms", 78),
        ({"rest.extension.classes": "x.Y"}, "rest.extension.classes", 78),
        ({"offset.storage.file.filename": "/no/such/directory/offsets"}, "/no/such/directory", 2),
    ],
)
def test_what_keeps_a_worker_from_starting_is_told(
    target_cluster: KafkaCluster,
    logs: Path,
    tmp_path: Path,
    changes: dict[str, str],
    word: str,
    expected: int,
) -> None:
    props = {"listeners": "http://127.0.0.1:0", **worker(target_cluster, tmp_path), **changes}

    code, output = run(tmp_path, logs / "worker.log", props)

    assert code == expected
    assert word in output
    assert "Traceback" not in output


def test_https_and_users_from_the_environment(
    target_cluster: KafkaCluster, logs: Path, tmp_path: Path, listener: str
) -> None:
    authority = Authority()
    key, certificate = authority.issue("worker", "127.0.0.1")
    (tmp_path / "worker.pem").write_text(key + certificate)
    (tmp_path / "users").write_text("ann=secret\n")
    jaas = tmp_path / "jaas.conf"
    jaas.write_text(
        "KafkaConnect { org.apache.kafka.connect.rest.basic.auth.extension."
        f'PropertyFileLoginModule required file="{tmp_path}/users"; }};'
    )
    url = listener.replace("http:", "https:")
    props = {
        **worker(target_cluster, tmp_path),
        "listeners": url,
        "listeners.https.ssl.keystore.location": str(tmp_path / "worker.pem"),
        "listeners.https.ssl.keystore.type": "PEM",
        "rest.extension.classes": "org.apache.kafka.connect.rest.basic.auth.extension."
        "BasicAuthSecurityRestExtension",
    }
    environment = {**os.environ, "KAFKA_OPTS": f"-Djava.security.auth.login.config={jaas}"}
    tls = authority.client_context()
    user = {"Authorization": "Basic YW5uOnNlY3JldA=="}
    log = logs / "worker.log"
    with standalone_process(props, tmp_path, log, environment=environment) as process:

        def ready() -> bool:
            assert process.running(), log.read_text()
            try:
                return call(url, "GET", "/health", headers=user, tls=tls).status == 200
            except OSError:
                return False

        wait_until(ready, _WAIT_S, "start of the worker")
        assert call(url, "GET", "/connectors", tls=tls).status == 401
        assert process.stop() == 0
    assert "secret" not in log.read_text()


def test_files_that_connectors_may_name_are_listed_in_the_environment(
    target_cluster: KafkaCluster, logs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    allowed = "org.apache.kafka.sasl.oauthbearer.allowed.files"
    key = "consumer.override.sasl.oauthbearer.assertion.file"
    sink = {"connector.class": "FileStreamSink", "topics": unique("nothing"), "name": "s"}
    validation = "/connector-plugins/FileStreamSink/config/validate"
    monkeypatch.setenv("KAFKA_OPTS", f"-D{allowed}=/etc/mine")
    with standalone_worker(worker(target_cluster, tmp_path), tmp_path, logs / "worker.log") as url:

        def said_of(path: str) -> str:
            return call(url, "PUT", validation, {**sink, key: path}).body.decode()

        assert allowed in said_of("/etc/passwd")
        assert allowed not in said_of("/etc/mine")


_JAVA_CLIENT = """
import java.net.URI;
import java.net.http.*;

public class Client {
    public static void main(String[] args) throws Exception {
        HttpClient client = HttpClient.newHttpClient();
        String config = "{\\"connector.class\\":\\"" + args[1] + "\\","
            + "\\"source.cluster.alias\\":\\"a\\",\\"target.cluster.alias\\":\\"b\\","
            + "\\"emit.heartbeats.enabled\\":false,"
            + "\\"padding\\":\\"" + "x".repeat(100_000) + "\\"}";
        for (int i = 0; i < 3; i++) {
            HttpResponse<String> answer = client.send(
                HttpRequest.newBuilder(URI.create(args[0] + "/connectors/java/config"))
                    .header("Content-Type", "application/json")
                    .PUT(HttpRequest.BodyPublishers.ofString(config)).build(),
                HttpResponse.BodyHandlers.ofString());
            System.out.println(answer.statusCode() + " " + answer.body().length());
        }
    }
}
"""


def test_bodies_of_javas_http_client_arrive(
    kafka: KafkaRuntime, target_cluster: KafkaCluster, logs: Path, tmp_path: Path
) -> None:
    """It offers HTTP/2 with its first request, and some servers then lose the body."""
    modules = subprocess.run(
        [str(kafka.java), "--list-modules"], capture_output=True, text=True, timeout=60, check=True
    )
    if "jdk.compiler" not in modules.stdout:
        pytest.skip("this Java has no compiler")
    source = tmp_path / "Client.java"
    source.write_text(_JAVA_CLIENT)
    log = logs / "worker.log"
    with standalone_worker(worker(target_cluster, tmp_path), tmp_path, log) as url:
        answer = subprocess.run(
            [str(kafka.java), str(source), url, CLASS],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert answer.returncode == 0, answer.stderr
        statuses, sizes = zip(*(line.split() for line in answer.stdout.splitlines()), strict=True)
        assert statuses == ("201", "200", "200")
        assert all(int(size) > 100_000 for size in sizes)
        assert len(call(url, "GET", "/connectors/java/config").json()["padding"]) == 100_000
        assert is_healthy(url)
    assert "upgrade" not in log.read_text().lower()
