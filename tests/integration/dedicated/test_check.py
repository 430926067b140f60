"""`connect-mirror-maker --check` on real clusters: what it finds, and that it changes nothing."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from deploy.brokers import KafkaCluster
from tests.support.flows.mirrored import MirroredFlow, running, stop_cleanly, wait_ends
from tests.support.flows.mirrors import mm2_properties
from tests.support.flows.topologies import IDENTITY
from tests.support.properties_files import properties_text
from tests.support.records.producing import Record, numbered, produce
from tests.support.records.reading import read_partition
from tests.support.records.topics import create_topic, topic_names, unique
from tests.support.waiting import wait_until

TIMEOUT_S = 60.0


@pytest.fixture
def source(source_cluster: KafkaCluster) -> str:
    return source_cluster.bootstrap_servers


@pytest.fixture
def target(target_cluster: KafkaCluster) -> str:
    return target_cluster.bootstrap_servers


def properties(source: str, target: str, topic: str, **extra: str) -> dict[str, str]:
    return mm2_properties(source, target, {"source->target.topics": topic, **extra})


def check(tmp_path: Path, props: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    path = tmp_path / "mm2.properties"
    path.write_text(properties_text(props))
    command = [sys.executable, "-m", "api.cli.mirror_maker", "--check", str(path)]
    return subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)


def test_it_says_what_would_happen_and_changes_nothing(
    source: str, target: str, tmp_path: Path
) -> None:
    prefix = unique("check")
    first, second = unique("a"), unique("b")
    create_topic(source, name=f"{prefix}.orders", partitions=3, configs={"retention.ms": "777777"})
    create_topic(source, name=f"{prefix}.grown", partitions=4)
    create_topic(source, name=f"{prefix}.skipped")
    create_topic(target, name=f"{first}.{prefix}.grown", partitions=2)
    create_topic(source, name=f"{second}.{prefix}.back")
    props = {
        "clusters": f"{first}, {second}",
        f"{first}.bootstrap.servers": source,
        f"{second}.bootstrap.servers": target,
        f"{first}->{second}.enabled": "true",
        "topics": f".*{prefix}.*",
        "topics.exclude": ".*skipped",
        "replication.factor": "1",
        "heartbeats.topic.replication.factor": "1",
        "checkpoints.topic.replication.factor": "1",
        "offset-syncs.topic.replication.factor": "1",
        "offset.storage.replication.factor": "1",
        "status.storage.replication.factor": "1",
        "config.storage.replication.factor": "1",
        f"{second}.producer.linger.ms": "7",
        f"{first}.sasl.jaas.config": "hunter2",
        f"{first}.topics": "misplaced",
    }
    before = (topic_names(source), topic_names(target))
    done = check(tmp_path, props)
    rows = [line.split("\t") for line in done.stdout.splitlines()]
    assert done.returncode == 0, done.stdout + done.stderr
    assert (topic_names(source), topic_names(target)) == before
    orders = f"{prefix}.orders"
    assert [orders, f"{first}.{orders}", "3", "create", "1", "retention.ms=777777"] in rows
    assert [f"{prefix}.grown", f"{first}.{prefix}.grown", "4", "raise from 2", "", ""] in rows
    assert [f"{prefix}.skipped", "filter", ".*skipped in topics.exclude matches it"] in rows
    assert [f"{second}.{prefix}.back", "cycle", f"copied from {second}, the target"] in rows
    lines = {row[1]: row[2] for row in rows if row[0] == "linger.ms"}
    assert lines["7"].startswith(f"{second}.producer.linger.ms (line ")
    for own in (f"mm2-offset-map.{second}", f"mm2-configs.{first}", f"mm2-status.{first}"):
        assert f"{own}.internal" in done.stdout
    assert f"{first}.checkpoints.internal\t{second}\t1\tcreate" in done.stdout
    assert f"warning: {first}.topics (line 16): has no effect" in done.stdout
    assert "records of aborted transactions are copied too" in done.stdout
    assert "hunter2" not in done.stdout + done.stderr
    assert done.stdout.endswith("No error was found. Nothing was changed.\n")


def test_it_finds_what_would_keep_records_out(source: str, target: str, tmp_path: Path) -> None:
    topic = create_topic(source, configs={"retention.ms": "-1"})
    produce(source, topic, [Record(b"old", timestamp_ms=1_000_000_000_000)] * 5)
    produce(source, topic, numbered(2))
    limits = {"max.message.bytes": "1000", "retention.ms": "604800000"}
    create_topic(target, name=f"source.{topic}", configs=limits)
    done = check(tmp_path, properties(source, target, topic))
    assert done.returncode == 0
    assert f"warning: source.{topic}: accepts batches up to 1000 bytes" in done.stdout
    assert f"about 5 records of {topic} are older than retention.ms=604800000" in done.stdout


def test_it_fails_where_topics_could_not_be_created(
    source: str, target: str, tmp_path: Path
) -> None:
    topic = create_topic(source)
    # Other tests leave heartbeats on the shared clusters, which would be in the way as well.
    only = {"replication.factor": "2", "heartbeats.replication.enabled": "false"}
    done = check(tmp_path, properties(source, target, topic, **only))
    assert done.returncode == 1
    assert (
        f"error: source->target: source.{topic} cannot be created: replication factor 2 "
        "needs 2 brokers, but the cluster has 1; set replication.factor to 1 or less" in done.stdout
    )
    assert done.stdout.endswith("Errors to fix before the start: 1. Nothing was changed.\n")


@pytest.mark.parametrize("policy", ["report", "copy"])
def test_it_says_what_a_changed_replication_policy_does_and_that_happens(
    source_cluster: KafkaCluster,
    target_cluster: KafkaCluster,
    tmp_path: Path,
    logs: Path,
    policy: str,
) -> None:
    flow = MirroredFlow(source_cluster, target_cluster)
    topic = flow.topic()
    produce(flow.source_servers, topic, numbered(100))
    with running(flow.properties(), tmp_path, logs / "before.log") as mirror:
        flow.wait_records(topic, [100])
        flow.wait_stored(topic, 0, 99)
        stop_cleanly(mirror, logs / "before.log")
    changed = flow.properties(
        {"replication.policy.class": IDENTITY, "mirror.loss.policy.target.recreated": policy}
    )
    told = check(tmp_path, changed)
    assert told.returncode == 0, told.stdout
    (line,) = [line for line in told.stdout.splitlines() if "the target lacks the copies" in line]
    assert f"{topic} (of {topic}; {flow.remote(topic)} exists)" in line
    assert "Probably replication.policy.*" in line
    assert ("without the earlier records" in line) == (policy == "report")
    log = logs / "after.log"
    with running(changed, tmp_path, log) as mirror:
        # Until it is configured again, the task copies to the former name.
        wait_until(lambda: "since the replication policy" in log.read_text(), 60.0, "the report")
        produce(flow.source_servers, topic, numbered(10, start=100))
        wait_ends(flow.target_servers, topic, 110 if policy == "copy" else 10)
        flow.wait_stored(topic, 0, 109)
        stop_cleanly(mirror, log)
    copied = read_partition(flow.target_servers, topic, 0)
    assert len(copied) == (110 if policy == "copy" else 10)
    told = check(tmp_path, changed)
    assert "the target lacks the copies" not in told.stdout


def test_it_fails_where_a_cluster_is_not_reached(source: str, tmp_path: Path) -> None:
    done = check(tmp_path, properties(source, "127.0.0.1:1", "t"))
    assert done.returncode == 1
    assert "error: target: Cannot reach cluster target at 127.0.0.1:1" in done.stdout
    assert "Traceback" not in done.stderr
