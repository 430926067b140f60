"""`connect-mirror import strimzi`: a KafkaMirrorMaker2 resource runs on a group of Connect workers,
and moves from there to a dedicated mirror, which copies nothing again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from api.cli.connect_mirror.main import main
from api.cli.mirror_client import main as mirror_client
from connect.config.properties import load_properties
from deploy.brokers import KafkaCluster
from tests.support.flows.mirrored import MirroredFlow, running, stop_cleanly
from tests.support.records.groups import commit, wait_group
from tests.support.records.producing import numbered, produce
from tests.support.records.reading import numbers, read_partition
from tests.support.records.topics import unique
from tests.support.workers.distributed import worker_group

COUNT, MORE, COMMITTED = 100, 20, 60
STORAGE = ("config", "offset", "status")


@pytest.fixture
def flow(source_cluster: KafkaCluster, target_cluster: KafkaCluster) -> MirroredFlow:
    return MirroredFlow(source_cluster, target_cluster)


def resource(flow: MirroredFlow, name: str) -> dict[str, object]:
    """As Strimzi's v1: workers of the group `name`, and two connectors."""
    factors = {f"{each}.storage.replication.factor": 1 for each in STORAGE}
    return {
        "apiVersion": "kafka.strimzi.io/v1",
        "kind": "KafkaMirrorMaker2",
        "metadata": {"name": name},
        "spec": {
            "replicas": 1,
            "target": {
                "alias": flow.b,
                "bootstrapServers": flow.target_servers,
                "groupId": name,
                **{f"{each}StorageTopic": f"{name}-{each}" for each in STORAGE},
                "config": {**factors, "offset.storage.partitions": 5},
            },
            "mirrors": [
                {
                    "source": {"alias": flow.a, "bootstrapServers": flow.source_servers},
                    "topicsPattern": f"{flow.prefix}.*",
                    "groupsPattern": f"{flow.prefix}.*",
                    "sourceConnector": {
                        "tasksMax": 2,
                        "config": {
                            "replication.factor": 1,
                            "offset-syncs.topic.replication.factor": 1,
                            "sync.topic.acls.enabled": False,
                        },
                    },
                    "checkpointConnector": {
                        "config": {
                            "checkpoints.topic.replication.factor": 1,
                            "sync.group.offsets.enabled": True,
                            "sync.group.offsets.interval.seconds": 1,
                            "emit.checkpoints.interval.seconds": 1,
                            "refresh.groups.interval.seconds": 1,
                        }
                    },
                }
            ],
        },
    }


def copied(flow: MirroredFlow, topic: str) -> list[int]:
    return numbers(read_partition(flow.target_servers, flow.remote(topic)))


@pytest.mark.slow
def test_a_resource_runs_on_workers_and_then_in_dedicated_mode(
    flow: MirroredFlow, tmp_path: Path, logs: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    topic, name, group = flow.topic(), unique("strimzi"), f"{flow.prefix}-group"
    produce(flow.source_servers, topic, numbered(COUNT))
    commit(flow.source_servers, group, {(topic, 0): COMMITTED})
    file, made = tmp_path / "resource.yaml", tmp_path / "made"
    file.write_text(yaml.safe_dump(resource(flow, name)))
    assert main(["import", "strimzi", str(file), "--workers", str(made)]) == 0
    connectors = [f"{flow.a}->{flow.b}.Mirror{kind}Connector" for kind in ("Source", "Checkpoint")]

    properties = load_properties(made / "worker.properties")
    assert properties["group.id"] == name
    with worker_group(1, properties, tmp_path, logs) as workers:
        for path in sorted(made.glob("*.json")):
            workers.accepted("POST", "/connectors", json.loads(path.read_text()))
        assert set(workers.accepted("GET", "/connectors").json()) == set(connectors)
        flow.wait_records(topic, [COUNT])
        wait_group(flow.target_servers, group, flow.remote(topic), COMMITTED)
        workers.first.stop()

    capfd.readouterr()
    assert main(["import", "strimzi", str(file)]) == 0
    dedicated = tmp_path / "mm2.properties"
    dedicated.write_text(capfd.readouterr().out)
    taken = ["--connector", connectors[0], "--offsets-topic", f"{name}-offset", "--commit"]
    assert mirror_client(["start", "--config", str(dedicated), *taken]) == 0
    produce(flow.source_servers, topic, numbered(MORE, start=COUNT))
    extra = {"metrics.listener": ""}
    log = logs / "mirror.log"
    with running({**load_properties(dedicated), **extra}, tmp_path / "dedicated", log) as mirror:
        flow.wait_records(topic, [COUNT + MORE])
        stop_cleanly(mirror, log)
    assert copied(flow, topic) == list(range(COUNT + MORE))
