"""MirrorMaker 2's precedence, seen in what the clients do and not only in the flattened configs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from deploy.brokers import KafkaCluster
from tests.support.flows.mirrored import (
    MirroredFlow,
    assert_equal_logs,
    batch_codecs,
    running,
    stop_cleanly,
)
from tests.support.properties_files import properties_text
from tests.support.records.producing import Record, produce
from tests.support.records.topics import has_topic

LZ4, ZSTD, GZIP = 3, 4, 1
PROVIDERS = "org.apache.kafka.common.config.provider"


@pytest.fixture
def flow(source_cluster: KafkaCluster, target_cluster: KafkaCluster) -> MirroredFlow:
    return MirroredFlow(source_cluster, target_cluster)


@pytest.fixture
def log(logs: Path) -> Path:
    return logs / "mirror.log"


@pytest.mark.parametrize(
    ("settings", "codec"),
    [
        ({"B.producer.compression.type": "lz4"}, LZ4),
        ({"B.producer.compression.type": "lz4", "A.producer.compression.type": "gzip"}, LZ4),
        (
            {
                "B.producer.compression.type": "lz4",
                "A->B.producer.override.compression.type": "zstd",
            },
            ZSTD,
        ),
        # The flow's own producer settings are those of the offset syncs: they change no copy.
        ({"A->B.producer.compression.type": "gzip"}, 0),
        ({"producer.compression.type": "gzip"}, 0),
    ],
    ids=["cluster", "only the target's", "override", "not the flow's", "not the top level's"],
)
def test_the_producer_of_the_copies_is_configured_as_in_java(
    flow: MirroredFlow, log: Path, tmp_path: Path, settings: dict[str, str], codec: int
) -> None:
    topic = flow.topic()
    produce(flow.source_servers, topic, [Record(b"again and again " * 50) for _ in range(300)])
    with running(flow.properties(settings), tmp_path, log) as mirror:
        flow.wait_records(topic, [300])
        stop_cleanly(mirror, log)
    assert batch_codecs(flow.target, flow.remote(topic)) == {codec}
    assert_equal_logs(flow, topic)


def test_providers_give_what_clients_connect_with(
    flow: MirroredFlow, log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = flow.topic()
    produce(flow.source_servers, topic, [Record(b"x")])
    secrets = tmp_path / "secrets"
    secrets.mkdir()
    (secrets / "target").write_text(flow.target_servers)
    (tmp_path / "topics.properties").write_text(f"wanted={flow.prefix}.*\n")
    monkeypatch.setenv("TEST_SOURCE_SERVERS", flow.source_servers)
    settings = {
        "config.providers": "env, dir, file",
        "config.providers.env.class": f"{PROVIDERS}.EnvVarConfigProvider",
        "config.providers.dir.class": f"{PROVIDERS}.DirectoryConfigProvider",
        "config.providers.file.class": f"{PROVIDERS}.FileConfigProvider",
        "A.bootstrap.servers": "${env:TEST_SOURCE_SERVERS}",
        "B.bootstrap.servers": f"${{dir:{secrets}:target}}",
        "topics": f"${{file:{tmp_path / 'topics.properties'}:wanted}}",
    }
    assert "TEST_SOURCE_SERVERS" in os.environ
    with running(flow.properties(settings), tmp_path, log) as mirror:
        flow.wait_records(topic, [1])
        stop_cleanly(mirror, log)


def test_the_old_names_of_the_exclusions_work_with_a_warning(
    flow: MirroredFlow, log: Path, tmp_path: Path
) -> None:
    kept, dropped = flow.topic("kept"), flow.topic("dropped")
    for topic in (kept, dropped):
        produce(flow.source_servers, topic, [Record(b"x")])
    with running(flow.properties({"topics.blacklist": ".*dropped"}), tmp_path, log) as mirror:
        flow.wait_records(kept, [1])
        stop_cleanly(mirror, log)
    assert not has_topic(flow.target_servers, flow.remote(dropped))
    (warning,) = (line for line in log.read_text().splitlines() if "topics.blacklist" in line)
    assert "WARNING" in warning
    assert "topics.exclude" in warning


def test_only_flows_into_the_chosen_clusters_run(
    flow: MirroredFlow, log: Path, tmp_path: Path
) -> None:
    topic = flow.topic()
    produce(flow.source_servers, topic, [Record(b"x")])
    both = flow.properties({"B->A.enabled": "true", "topics": f".*{flow.prefix}.*"})
    with running(both, tmp_path, log, "--clusters", flow.b) as mirror:
        flow.wait_records(topic, [1])
        stop_cleanly(mirror, log)
    assert not has_topic(flow.source_servers, f"mm2-offsets.{flow.b}.internal")


@pytest.mark.parametrize(
    ("key", "value"), [("tasks.max", "many"), ("A->B.replication.policy.class", "nothing.Here")]
)
def test_a_wrong_value_is_one_sentence_that_names_it(
    flow: MirroredFlow, tmp_path: Path, key: str, value: str
) -> None:
    path = tmp_path / "mm2.properties"
    properties = flow.properties({key: value})
    path.write_text(properties_text(properties))
    answer = subprocess.run(
        [sys.executable, "-m", "api.cli.mirror_maker", str(path)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert answer.returncode in (3, 78)
    said = [line for line in answer.stderr.splitlines() if value in line]
    assert len(said) == 1, answer.stderr
    assert key.rpartition("->")[2].split(".", 1)[-1] in said[0]
    assert "Traceback" not in answer.stderr
