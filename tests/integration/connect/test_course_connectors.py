"""Connectors as courses, manuals and cloud providers' samples configure them: the files of Kafka's
quick start, a mirror on a standalone worker, and REST calls that create the three connectors."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from deploy.brokers import KafkaCluster
from tests.support.properties_files import properties_text
from tests.support.records.producing import numbered, produce
from tests.support.records.reading import numbers, read_partition
from tests.support.records.topics import create_topic, has_topic, unique
from tests.support.rest import call
from tests.support.waiting import wait_until
from tests.support.workers.distributed import worker_group
from tests.support.workers.java_connect import worker_properties
from tests.support.workers.workers import standalone_worker

COUNT = 20
WAIT_S = 90.0
JSON = "org.apache.kafka.connect.json.JsonConverter"

pytestmark = pytest.mark.slow


def written(path: Path, properties: dict[str, str]) -> Path:
    path.write_text(properties_text(properties))
    return path


def has_records(servers: str, topic: str) -> bool:
    return has_topic(servers, topic) and numbers(read_partition(servers, topic)) == list(
        range(COUNT)
    )


def test_the_quick_start_moves_lines_from_file_to_file(
    target_cluster: KafkaCluster, logs: Path, tmp_path: Path
) -> None:
    """A worker's file, a source's and a sink's, with short class names and a jar in `plugin.path`,
    which is ignored. The file connectors need a directory that they may work in."""
    servers, topic = target_cluster.bootstrap_servers, unique("connect-test")
    (tmp_path / "test.txt").write_text("foo\nbar\n")
    worker = {
        "bootstrap.servers": servers,
        "key.converter": JSON,
        "value.converter": JSON,
        "key.converter.schemas.enable": "true",
        "value.converter.schemas.enable": "true",
        "offset.storage.file.filename": str(tmp_path / "connect.offsets"),
        "offset.flush.interval.ms": "10000",
        "plugin.path": "libs/connect-file-4.3.1.jar",
        "file.connectors.root": str(tmp_path),
    }
    source = {
        "name": "local-file-source",
        "connector.class": "FileStreamSource",
        "tasks.max": "1",
        "file": str(tmp_path / "test.txt"),
        "topic": topic,
    }
    sink = {
        "name": "local-file-sink",
        "connector.class": "FileStreamSink",
        "tasks.max": "1",
        "file": str(tmp_path / "test.sink.txt"),
        "topics": topic,
    }
    files = [
        written(tmp_path / "connect-file-source.properties", source),
        written(tmp_path / "connect-file-sink.properties", sink),
    ]
    with standalone_worker(worker, tmp_path, logs / "worker.log", files):
        out = tmp_path / "test.sink.txt"
        wait_until(lambda: out.exists() and out.read_text() == "foo\nbar\n", WAIT_S, "both lines")
        with (tmp_path / "test.txt").open("a") as more:
            more.write("Another line\n")
        wait_until(lambda: out.read_text().endswith("Another line\n"), WAIT_S, "the third")
    first = read_partition(servers, topic)[0].value
    assert first == b'{"schema":{"type":"string","optional":false},"payload":"foo"}'
    assert "Traceback" not in (logs / "worker.log").read_text()


def test_a_record_arrives_by_a_standalone_worker(
    source_cluster: KafkaCluster, target_cluster: KafkaCluster, logs: Path, tmp_path: Path
) -> None:
    """The connector's file has its class and `name`, and the clusters under `source.cluster.` and
    `target.cluster.`."""
    first, second = source_cluster.bootstrap_servers, target_cluster.bootstrap_servers
    topic, alias = unique("alone"), unique("upstream")
    create_topic(first, name=topic)
    produce(first, topic, numbered(COUNT))
    worker = {
        "bootstrap.servers": second,
        "key.converter": "org.apache.kafka.connect.converters.ByteArrayConverter",
        "value.converter": "org.apache.kafka.connect.converters.ByteArrayConverter",
        "offset.storage.file.filename": str(tmp_path / "connect.offsets"),
    }
    mirror = {
        "name": "MirrorSourceConnector",
        "connector.class": "org.apache.kafka.connect.mirror.MirrorSourceConnector",
        "tasks.max": "1",
        "source.cluster.alias": alias,
        "target.cluster.alias": "downstream",
        "source.cluster.bootstrap.servers": first,
        "target.cluster.bootstrap.servers": second,
        "topics": topic,
        "replication.factor": "1",
        "offset-syncs.topic.replication.factor": "1",
        "sync.topic.acls.enabled": "false",
    }
    files = [written(tmp_path / "mirror-source.properties", mirror)]
    with standalone_worker(worker, tmp_path, logs / "worker.log", files):
        wait_until(lambda: has_records(second, f"{alias}.{topic}"), WAIT_S, "the copy")


def connectors(first: str, second: str) -> dict[str, dict[str, str]]:
    """The three connectors as cloud providers' samples have them: with the class, `clusters`, the
    producer overridden, converters, and excluded topics under the former name. Only the groups are
    named, as other tests' groups are on the same cluster, and would make a task."""
    common = {
        "clusters": "msksource,mskdest",
        "source.cluster.alias": "msksource",
        "target.cluster.alias": "mskdest",
        "source.cluster.bootstrap.servers": first,
        "target.cluster.bootstrap.servers": second,
        "producer.override.bootstrap.servers": second,
        "key.converter": "org.apache.kafka.connect.converters.ByteArrayConverter",
        "value.converter": "org.apache.kafka.connect.converters.ByteArrayConverter",
        "replication.factor": "1",
        "tasks.max": "1",
    }
    package = "org.apache.kafka.connect.mirror."
    return {
        "mm2-msc": {
            **common,
            "connector.class": f"{package}MirrorSourceConnector",
            "topics": "rest-.*",
            "topics.blacklist": "rest-hidden.*",
            "offset-syncs.topic.replication.factor": "1",
            "refresh.topics.interval.seconds": "1",
            "sync.topic.acls.enabled": "false",
            "consumer.auto.offset.reset": "earliest",
            "producer.linger.ms": "50",
            "producer.retries": "2147483647",
        },
        "mm2-cpc": {
            **common,
            "connector.class": f"{package}MirrorCheckpointConnector",
            "checkpoints.topic.replication.factor": "1",
            "groups": "rest-.*",
            "sync.group.offsets.enabled": "true",
            "sync.group.offsets.interval.seconds": "20",
            "emit.checkpoints.interval.seconds": "20",
        },
        "mm2-hbc": {
            **common,
            "connector.class": f"{package}MirrorHeartbeatConnector",
            "heartbeats.topic.replication.factor": "1",
            "emit.heartbeats.interval.seconds": "1",
        },
    }


def test_a_record_arrives_by_connectors_created_with_rest_calls(
    source_cluster: KafkaCluster, target_cluster: KafkaCluster, logs: Path, tmp_path: Path
) -> None:
    """The calls of the samples: PUT of a flat config, POST of a name and a config, status, pause,
    resume, restart, and DELETE."""
    first, second = source_cluster.bootstrap_servers, target_cluster.bootstrap_servers
    topic, hidden = unique("rest"), unique("rest-hidden")
    for name in (topic, hidden):
        create_topic(first, name=name)
        produce(first, name, numbered(COUNT))
    with worker_group(1, worker_properties(second, unique("mm2")), tmp_path, logs) as group:
        url = group.first.url
        for number, (name, config) in enumerate(connectors(first, second).items()):
            if number:
                answer = call(url, "POST", "/connectors", {"name": name, "config": config})
            else:
                answer = call(url, "PUT", f"/connectors/{name}/config", {"name": name, **config})
            assert answer.status == 201, answer.body
            group.until_running(name, 1 if name != "mm2-cpc" else 0)
        wait_until(lambda: has_records(second, f"msksource.{topic}"), WAIT_S, "the copy")
        assert not has_topic(second, f"msksource.{hidden}")
        for verb in ("pause", "resume"):
            assert group.accepted("PUT", f"/connectors/mm2-msc/{verb}").status == 202
        restarted = group.accepted("POST", "/connectors/mm2-msc/restart?includeTasks=true")
        assert restarted.status == 202
        group.until_running("mm2-msc", 1)
        listed = call(url, "GET", "/connectors?expand=status&expand=info")
        assert set(json.loads(listed.body)) == {"mm2-msc", "mm2-cpc", "mm2-hbc"}
        for name in connectors(first, second):
            assert group.accepted("DELETE", f"/connectors/{name}").status == 204
    log = (logs / "worker-1.log").read_text()
    assert "topics.blacklist is the old name of topics.exclude; rename it" in log
