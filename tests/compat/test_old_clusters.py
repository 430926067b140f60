"""Clusters of Kafka 2.4, 2.8 (both with ZooKeeper) and 3.9 as source and as target of a mirror.

`docs/reference/kafka-versions.md` has the outcome. One pair runs in `make test`, all of them in
`make slow`.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

from connect.clients.librdkafka.acls import Acl
from connect.clients.librdkafka.admin import Admin
from connect.clients.librdkafka.descriptions import ConfigChange
from deploy.brokers import KAFKA_VERSION, KafkaCluster, kafka_runtime
from tests.support.flows.mirrored import MirroredFlow, running, stop_cleanly, topic_configs
from tests.support.records.groups import commit, committed, consume
from tests.support.records.old_clusters import (
    GROUP_PLACES,
    OLD_CODECS,
    PAIRS,
    STORES_OLD_FORMATS,
    TRANSACTED,
    assert_same_records,
    authorized,
    unknown_to_target,
    write_every_codec,
    write_old_formats,
    write_transactions,
)
from tests.support.records.producing import numbered, produce
from tests.support.records.reading import numbers, read_partition
from tests.support.records.topics import create_topic, has_topic
from tests.support.served import health_of
from tests.support.waiting import wait_until

COPY_S, SYNC_S, SPARK_S, KILLS = 60.0, 60.0, 120.0, 3
# A worker that was killed in a commit reads its offsets once the broker has aborted it, after 60 s.
COMMIT_S = 120.0
COMMITTED = {"A.consumer.isolation.level": "read_committed"}
ONCE = {**COMMITTED, "B.exactly.once.source.support": "enabled", "tasks.max": "1"}
TOO_OLD_FOR_ONCE = "2.4.1"
IN_MAKE_TEST = ("2.8.2", KAFKA_VERSION)

Flow = Callable[[str, str], MirroredFlow]


def pairs(*quick: tuple[str, str], without_target: str = "") -> pytest.MarkDecorator:
    """All pairs of (source, target); those that are not `quick` are slow."""
    return pytest.mark.parametrize(
        ("source", "target"),
        [
            pytest.param(
                *pair, id="-to-".join(pair), marks=() if pair in quick else pytest.mark.slow
            )
            for pair in PAIRS
            if pair[1] != without_target
        ],
    )


@pytest.fixture(scope="module")
def flow_between(session_logs: Path) -> Iterator[Flow]:
    """A flow of its own between clusters of two versions, which are started once for all tests."""
    clusters: dict[str, KafkaCluster] = {}
    with ExitStack() as stack:

        def cluster(version: str) -> KafkaCluster:
            if version not in clusters:
                made = KafkaCluster(
                    name=f"kafka-{version}",
                    properties={"log.retention.ms": "-1", **authorized(version)},
                    kafka=kafka_runtime(version=version),
                    logs=session_logs,
                )
                clusters[version] = stack.enter_context(made)
            return clusters[version]

        yield lambda source, target: MirroredFlow(cluster(source), cluster(target))


@pytest.mark.timeout(400)
@pairs(IN_MAKE_TEST)
def test_records_configs_and_groups_arrive(
    flow_between: Flow, source: str, target: str, tmp_path: Path, logs: Path
) -> None:
    flow, log = flow_between(source, target), logs / "mirror.log"
    codecs, transactions = write_every_codec(flow), write_transactions(flow)
    unknown = unknown_to_target(source, target)
    configs = {"retention.ms": "987654321", "max.message.bytes": "777777"}
    with_configs = flow.topic("configs", configs={**configs, **unknown})
    produce(flow.source_servers, with_configs, numbered(10))
    group, remote = f"{flow.prefix}.group", flow.remote(transactions)

    def synced(place: tuple[int, int]) -> None:
        upstream, downstream = place
        commit(flow.source_servers, group, {(transactions, 0): upstream})
        wait_until(
            lambda: committed(flow.target_servers, group).get((remote, 0)) == downstream,
            SYNC_S,
            f"{group} is at {downstream} on the target",
        )

    properties = flow.properties(
        {
            **COMMITTED,
            "groups": f"{flow.prefix}.*",
            "sync.group.offsets.enabled": "true",
            "sync.group.offsets.interval.seconds": "1",
        }
    )
    with running(properties, tmp_path, log) as mirror:
        flow.wait_records(codecs, [120] * 5, COPY_S)
        flow.wait_records(transactions, [len(TRANSACTED)], COPY_S)
        flow.wait_records(with_configs, [10], COPY_S)
        # The second time the group is there, without members.
        for place in GROUP_PLACES:
            synced(place)
        stop_cleanly(mirror, log)
    # And on from there, without a double.
    produce(flow.source_servers, with_configs, numbered(10, start=10))
    with running(properties, tmp_path, logs / "again.log") as mirror:
        flow.wait_records(with_configs, [20], COPY_S)
        stop_cleanly(mirror, logs / "again.log")

    for topic in (codecs, transactions, with_configs):
        assert_same_records(flow, topic)
    assert topic_configs(flow.target_servers, flow.remote(with_configs)) == configs
    for name in unknown:
        assert f"Created topic {flow.remote(with_configs)} without {name}" in log.read_text()
    read = consume(flow.target_servers, group, [remote])
    assert read == [b"v%d" % n for n in TRANSACTED[GROUP_PLACES[-1][1] :]]


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.parametrize("source", STORES_OLD_FORMATS)
def test_topics_that_are_stored_as_by_older_versions_arrive(
    flow_between: Flow, source: str, tmp_path: Path, logs: Path
) -> None:
    flow, log = flow_between(source, KAFKA_VERSION), logs / "mirror.log"
    topics = write_old_formats(flow)
    with running(flow.properties(), tmp_path, log) as mirror:
        for topic in topics:
            flow.wait_records(topic, [40] * len(OLD_CODECS), COPY_S)
        stop_cleanly(mirror, log)
    for topic in topics:
        assert_same_records(flow, topic)


@pytest.mark.timeout(600)
@pairs(without_target=TOO_OLD_FOR_ONCE)
def test_each_record_is_there_once_whatever_dies(
    flow_between: Flow, source: str, target: str, tmp_path: Path, logs: Path
) -> None:
    flow = flow_between(source, target)
    topic = flow.topic("once", partitions=2)
    properties = flow.properties(ONCE)
    written = 0
    for kill in range(KILLS + 1):
        for partition in (0, 1):
            records = numbered(2000, start=written, partition=partition)
            produce(flow.source_servers, topic, records, batch_records=20)
        written += 2000
        with running(properties, tmp_path, logs / f"mirror-{kill}.log") as mirror:
            if kill < KILLS:
                flow.wait_records(topic, [written - 1500, 0], COMMIT_S)
                mirror.kill()
            else:
                wait_until(partial(_has_copied, flow, topic, written), COMMIT_S, "the copy")
    for partition in (0, 1):
        copied = read_partition(
            flow.target_servers, flow.remote(topic), partition, isolation="read_committed"
        )
        assert numbers(copied) == list(range(written))


def _has_copied(flow: MirroredFlow, topic: str, count: int) -> bool:
    servers, remote = flow.target_servers, flow.remote(topic)
    return all(
        len(read_partition(servers, remote, partition, isolation="read_committed")) >= count
        for partition in (0, 1)
    )


def _wait_told(listener: str, why: str) -> None:
    """Until `/health` says why nothing is copied."""

    def told() -> bool:
        try:
            return why in json.dumps(health_of(listener))
        except OSError:
            return False  # it does not listen yet

    wait_until(told, SYNC_S, f"/health says: {why}")


def _check(directory: Path) -> subprocess.CompletedProcess[str]:
    command = [
        sys.executable,
        "-m",
        "api.cli.mirror_maker",
        "--check",
        str(directory / "mm2.properties"),
    ]
    return subprocess.run(command, capture_output=True, text=True, timeout=60.0, check=False)


@pytest.mark.slow
def test_exactly_once_to_a_cluster_that_is_too_old_is_refused(
    flow_between: Flow, tmp_path: Path, logs: Path, listener: str
) -> None:
    flow = flow_between(KAFKA_VERSION, TOO_OLD_FOR_ONCE)
    topic = flow.topic("refused")
    produce(flow.source_servers, topic, numbered(10))
    why = "supports InitProducerId up to version 2; version 3 is needed (KIP-360)"
    with running(
        flow.properties({**ONCE, "metrics.listener": listener}), tmp_path, logs / "mirror.log"
    ) as mirror:
        _wait_told(listener, why)
        assert mirror.stop(20.0) == 0
    assert read_partition(flow.target_servers, flow.remote(topic)) == []

    checked = _check(tmp_path)
    assert checked.returncode == 1
    assert f"error: {flow.a}->{flow.b}: Cluster {flow.b} is too old for exactly-once" in (
        checked.stdout
    )
    assert f"{why}. Upgrade its brokers to Kafka 2.5 or newer" in checked.stdout
    assert f"set {flow.b}.exactly.once.source.support=disabled" in checked.stdout


@pytest.mark.slow
def test_a_copy_that_is_stored_as_before_kafka_0_11_is_refused(
    flow_between: Flow, tmp_path: Path, logs: Path, listener: str
) -> None:
    flow = flow_between(KAFKA_VERSION, "2.8.2")
    topic = flow.topic("old-format")
    produce(flow.source_servers, topic, numbered(10))
    remote = create_topic(
        flow.target_servers, name=flow.remote(topic), configs={"message.format.version": "0.10.2"}
    )
    why = "uses message format 0.10.2"
    properties = flow.properties({"metrics.listener": listener})
    with running(properties, tmp_path, logs / "mirror.log") as mirror:
        _wait_told(listener, f"topic {remote} is not ready: it {why}")
        assert mirror.stop(20.0) == 0
    assert read_partition(flow.target_servers, remote) == []
    checked = _check(tmp_path)
    assert checked.returncode == 1
    assert f"error: {remote}: {why}" in checked.stdout


@pytest.mark.timeout(400)
@pairs()
def test_configs_and_acls_follow_the_source(
    flow_between: Flow, source: str, target: str, tmp_path: Path, logs: Path
) -> None:
    flow, log = flow_between(source, target), logs / "mirror.log"
    unknown = unknown_to_target(source, target)
    topic = flow.topic("followed", configs={"max.message.bytes": "777777", **unknown})
    remote = flow.remote(topic)
    properties = flow.properties(
        {
            "sync.topic.configs.enabled": "true",
            "sync.topic.configs.interval.seconds": "1",
            "sync.topic.acls.enabled": "true",
            "sync.topic.acls.interval.seconds": "1",
            "spark.master": "local[1]",
        }
    )
    with ExitStack() as stack:
        admins = [
            Admin({"bootstrap.servers": servers})
            for servers in (flow.source_servers, flow.target_servers)
        ]
        for each in admins:
            stack.callback(each.close)
        reads = Acl(topic, "LITERAL", "User:reader", "*", "READ", "ALLOW")
        assert admins[0].create_acls([reads]) == {}
        mirror = stack.enter_context(running(properties, tmp_path, log))
        wait_until(lambda: has_topic(flow.target_servers, remote), COPY_S, "the copy")
        changes = [ConfigChange("max.message.bytes", None), ConfigChange("flush.ms", "12345")]
        assert admins[0].alter_topic_configs({topic: changes}) == {}
        wait_until(
            lambda: topic_configs(flow.target_servers, remote) == {"flush.ms": "12345"},
            SPARK_S,
            "the copy has its source's configs",
        )
        wait_until(
            lambda: reads._replace(topic=remote) in admins[1].describe_topic_acls(),
            SPARK_S,
            "the copy has its source's ACLs",
        )
        assert mirror.stop(30.0) == 0
    assert "Traceback" not in log.read_text()
