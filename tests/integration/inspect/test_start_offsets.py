"""`connect-mirror-client start --commit`: a flow begins where a file, a connector or a time says,
and copies what follows, once; what another tool copied before is not copied again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from api.cli.mirror_client import main
from api.cli.program import EXIT_CONFIG
from connect.protocol.messages import TopicPartition
from deploy.brokers import KafkaCluster
from tests.support.flows.backfills import properties_file
from tests.support.flows.mirrored import MirroredFlow, running, stop_cleanly
from tests.support.records.connector_offsets import store_replicator_offsets
from tests.support.records.producing import numbered, produce
from tests.support.records.reading import numbers, read_partition
from tests.support.records.topics import has_topic, unique

BEGAN_MS, STEP_MS = 1_700_000_000_000, 1_000
# How far the other tool came in each partition.
COPIED = {0: 60, 1: 25, 2: 100}
COUNT = 100


@pytest.fixture
def flow(source_cluster: KafkaCluster, target_cluster: KafkaCluster) -> MirroredFlow:
    return MirroredFlow(source_cluster, target_cluster)


def topic_of(flow: MirroredFlow, *, begun: bool) -> str:
    """Three partitions with a record a second. `begun`: each as much earlier as it is further, so
    that one time is the end of what was copied of all."""
    topic = flow.topic(partitions=len(COPIED))
    for partition, copied in COPIED.items():
        first_ms = BEGAN_MS - copied * STEP_MS if begun else BEGAN_MS
        records = [
            replace(record, timestamp_ms=first_ms + n * STEP_MS)
            for n, record in enumerate(numbered(COUNT, partition=partition))
        ]
        produce(flow.source_servers, topic, records, batch_records=30)
    return topic


def by_file(flow: MirroredFlow, directory: Path) -> tuple[str, list[str]]:
    topic, path = topic_of(flow, begun=False), directory / "offsets.csv"
    path.write_text("".join(f'"tool","{topic}",{p},{offset}\n' for p, offset in COPIED.items()))
    return topic, ["--file", str(path)]


def by_connector(flow: MirroredFlow, _: Path) -> tuple[str, list[str]]:
    """At the offsets of Confluent Replicator, as Kafka Connect stores them: of last records."""
    topic, workers = topic_of(flow, begun=False), unique("connect-offsets")
    last: dict[TopicPartition, int | None] = {(topic, p): n - 1 for p, n in COPIED.items()}
    last["elsewhere", 0] = 7
    store_replicator_offsets(flow.target_servers, workers, "replicator", last)
    return topic, ["--connector", "replicator", "--offsets-topic", workers]


def by_time(flow: MirroredFlow, _: Path) -> tuple[str, list[str]]:
    return topic_of(flow, begun=True), ["--timestamp", str(BEGAN_MS)]


@pytest.mark.parametrize(
    "origin",
    [by_file, by_connector, pytest.param(by_time, marks=pytest.mark.slow)],
    ids=["a file", "a connector", "a time"],
)
def test_a_flow_begins_at_what_was_stored_and_skips_what_was_before(
    flow: MirroredFlow,
    tmp_path: Path,
    logs: Path,
    capfd: pytest.CaptureFixture[str],
    origin: Callable[[MirroredFlow, Path], tuple[str, list[str]]],
) -> None:
    topic, options = origin(flow, tmp_path)
    file, log = properties_file(flow.properties(), tmp_path), logs / "mirror.log"
    command = ["start", "--config", str(file), *options]
    rows = [[topic, str(partition), str(offset), "given"] for partition, offset in COPIED.items()]
    for commit in ([], ["--commit"]):
        assert main([*command, *commit]) == 0
        told = [line.split() for line in capfd.readouterr().out.splitlines()]
        assert [line for line in told if line[:1] == [topic]] == rows
    assert flow.stored_offsets() == {(topic, p): offset - 1 for p, offset in COPIED.items()}

    with running(flow.properties(), tmp_path, log) as mirror:
        flow.wait_records(topic, [COUNT - offset for offset in COPIED.values()])
        assert main([*command, "--commit"]) == EXIT_CONFIG, "while the flow runs nothing is stored"
        assert "Stop them first" in capfd.readouterr().err
        for partition in COPIED:
            produce(flow.source_servers, topic, numbered(5, start=COUNT, partition=partition))
        flow.wait_records(topic, [COUNT + 5 - offset for offset in COPIED.values()])
        stop_cleanly(mirror, log)
    for partition, offset in COPIED.items():
        copied = read_partition(flow.target_servers, flow.remote(topic), partition)
        assert numbers(copied) == list(range(offset, COUNT + 5))


def test_a_topic_without_the_connectors_offsets_is_told_and_none_is_created(
    flow: MirroredFlow, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    topic, workers = flow.topic(), unique("connect-offsets")
    config = str(properties_file(flow.properties(), tmp_path))
    command = ["start", "--config", config, "--connector", "replicator", "--offsets-topic", workers]
    assert main(command) == EXIT_CONFIG
    assert f"Topic {workers} does not exist on {flow.b}" in capfd.readouterr().err
    assert not has_topic(flow.target_servers, workers)
    for connector, offset in (("replicator", 5), ("another", 6), ("replicator", None)):
        store_replicator_offsets(flow.target_servers, workers, connector, {(topic, 0): offset})
    assert main(command) == EXIT_CONFIG
    assert "no offsets of connector replicator. It has those of: another" in " ".join(
        capfd.readouterr().err.split()
    )
