"""`connect-mirror-maker` end to end: topics appear on the target and stay equal to the source's."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from confluent_kafka.admin import NewPartitions

from deploy.brokers import KafkaCluster
from tests.support.flows.mirrored import (
    MirroredFlow,
    assert_equal_logs,
    batch_codecs,
    running,
    stop_cleanly,
    topic_configs,
)
from tests.support.records.producing import Record, numbered, produce
from tests.support.records.topics import admin, create_topic, end_offsets, has_topic, topic_names
from tests.support.served import metric, task_partitions
from tests.support.waiting import wait_until

RECORD_COUNT = "kafka_connect_mirror_mirrorsourceconnector_record_count"


@pytest.fixture
def flow(source_cluster: KafkaCluster, target_cluster: KafkaCluster) -> MirroredFlow:
    return MirroredFlow(source_cluster, target_cluster)


@pytest.fixture
def log(logs: Path) -> Path:
    return logs / "mirror.log"


def varied(count: int, partitions: int = 1) -> list[Record]:
    """Records with null and empty values, empty keys, headers, and timestamps of their own."""
    draw = random.Random(count)
    return [
        Record(
            draw.choice([None, b"", b"v%d" % n, draw.randbytes(400)]),
            draw.choice([b"", b"k%d" % (n % 11), draw.randbytes(9)]),
            n % partitions,
            1_700_000_000_000 + n,
            draw.choice([(), (("h", b"1"), ("h", None))]),
        )
        for n in range(count)
    ]


def test_topics_appear_with_their_partitions_configs_and_records(
    flow: MirroredFlow, log: Path, tmp_path: Path
) -> None:
    configs = {
        "retention.ms": "-1",
        "cleanup.policy": "compact,delete",
        "max.message.bytes": "2000000",
        "compression.type": "lz4",
    }
    excluded = {"min.insync.replicas": "1", "message.timestamp.type": "CreateTime"}
    rich = flow.topic("rich", partitions=4, configs={**configs, **excluded})
    plain = flow.topic("plain")
    empty = flow.topic("empty", partitions=2)
    produce(flow.source_servers, rich, varied(2_000, 4), compression="zstd")
    produce(flow.source_servers, plain, varied(300))

    with running(flow.properties(), tmp_path, log) as mirror:
        flow.wait_records(rich, [500] * 4)
        flow.wait_records(plain, [300])
        flow.wait_created(empty)
        stop_cleanly(mirror, log)

    assert topic_configs(flow.target_servers, flow.remote(rich)) == configs
    assert topic_configs(flow.target_servers, flow.remote(plain)) == {}
    assert len(end_offsets(flow.target_servers, flow.remote(empty))) == 2
    for topic in (rich, plain):
        assert_equal_logs(flow, topic)


def test_new_topics_and_partitions_come_in_while_the_others_go_on(
    flow: MirroredFlow, log: Path, tmp_path: Path, listener: str
) -> None:
    source = flow.source_servers
    old = flow.topic("old", partitions=2)
    produce(source, old, numbered(100) + numbered(100, partition=1))

    with running(flow.properties({"metrics.listener": listener}), tmp_path, log) as mirror:
        flow.wait_records(old, [100, 100])

        new = flow.topic("new")
        produce(source, new, numbered(50))
        flow.wait_records(new, [50])
        client = admin(source)
        client.create_partitions([NewPartitions(old, 4)])[old].result(30)
        wait_until(lambda: len(end_offsets(source, old)) == 4, 30, "four partitions")
        produce(source, old, numbered(70, partition=3))
        flow.wait_records(old, [100, 100, 0, 70])
        produce(source, old, numbered(10, start=100) + numbered(10, partition=2))
        flow.wait_records(old, [110, 100, 10, 70])

        # A task that had been restarted would count from 0 again.
        def counts() -> dict[str, float]:
            found = metric(listener, RECORD_COUNT, topic=flow.remote(old))
            return {labels["partition"]: value for labels, value in found}

        wait_until(lambda: counts() == {"0": 110, "1": 100, "2": 10, "3": 70}, 30, "the counts")
        stop_cleanly(mirror, log)
    assert_equal_logs(flow, old)
    assert_equal_logs(flow, new)


def test_only_topics_that_the_filters_name_are_copied(
    flow: MirroredFlow, log: Path, tmp_path: Path
) -> None:
    wanted = [flow.topic("orders"), flow.topic("orders.eu"), flow.topic("bills")]
    others = [flow.topic("orders.replica"), flow.topic("orders.test"), flow.topic("billsx")]
    for topic in wanted + others:
        produce(flow.source_servers, topic, numbered(5))
    filters = {
        "topics": f"{flow.prefix}.orders.*, {flow.prefix}.bills",
        r"topics.exclude": r".*\\.test, .*\\.replica",
    }
    with running(flow.properties(filters), tmp_path, log) as mirror:
        for topic in wanted:
            flow.wait_records(topic, [5])
        late = flow.topic("orders.late")
        produce(flow.source_servers, late, numbered(5))
        flow.wait_records(late, [5])
        stop_cleanly(mirror, log)

    copies = {name for name in topic_names(flow.target_servers) if flow.prefix in name}
    assert copies == {flow.remote(topic) for topic in (*wanted, late)}


def test_the_identity_policy_keeps_names(flow: MirroredFlow, log: Path, tmp_path: Path) -> None:
    topic = flow.topic("kept", partitions=2)
    produce(flow.source_servers, topic, varied(400, 2))
    policy = "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"

    with running(flow.properties({"replication.policy.class": policy}), tmp_path, log) as mirror:
        target = flow.target_servers
        wait_until(lambda: has_topic(target, topic), 30, "creation")
        wait_until(lambda: end_offsets(target, topic) == {0: 200, 1: 200}, 30, "all records")
        stop_cleanly(mirror, log)
    assert_equal_logs(flow, topic, topic)
    assert not has_topic(flow.target_servers, flow.remote(topic))


def test_two_flows_in_both_directions_make_no_cycles(
    flow: MirroredFlow, log: Path, tmp_path: Path
) -> None:
    here, there = flow.topic("here"), f"{flow.prefix}.there"
    create_topic(flow.target_servers, name=there)
    produce(flow.source_servers, here, numbered(30))
    produce(flow.target_servers, there, numbered(20))
    both = {
        "B->A.enabled": "true",
        "topics": f".*{flow.prefix}.*",
        "A.offset.flush.interval.ms": "500",
    }
    back = MirroredFlow(flow.target, flow.source, flow.prefix, flow.b, flow.a)

    with running(flow.properties(both), tmp_path, log) as mirror:
        flow.wait_records(here, [30])
        back.wait_records(there, [20])
        # Once a later topic is copied, both sides have been listed with the copies on them.
        late = flow.topic("late")
        late_there = f"{flow.prefix}.late-there"
        create_topic(flow.target_servers, name=late_there)
        produce(flow.source_servers, late, numbered(3))
        produce(flow.target_servers, late_there, numbered(3))
        flow.wait_records(late, [3])
        back.wait_records(late_there, [3])
        stop_cleanly(mirror, log)

    on_source = {name for name in topic_names(flow.source_servers) if flow.prefix in name}
    on_target = {name for name in topic_names(flow.target_servers) if flow.prefix in name}
    assert on_source == {here, late, f"{flow.b}.{there}", f"{flow.b}.{late_there}"}
    assert on_target == {there, late_there, f"{flow.a}.{here}", f"{flow.a}.{late}"}
    assert_equal_logs(flow, here)
    assert_equal_logs(back, there)


def test_tasks_share_the_partitions(
    flow: MirroredFlow, log: Path, tmp_path: Path, listener: str
) -> None:
    many, one = flow.topic("many", partitions=7), flow.topic("one")
    produce(flow.source_servers, many, varied(700, 7))
    produce(flow.source_servers, one, varied(10))
    properties = flow.properties({"tasks.max": "3", "metrics.listener": listener})

    with running(properties, tmp_path, log) as mirror:
        flow.wait_records(many, [100] * 7)
        flow.wait_records(one, [10])
        shares = task_partitions(listener)
        stop_cleanly(mirror, log)
    assert sorted(len(share) for share in shares) == [2, 3, 3]
    assert sorted(name for share in shares for name in share) == sorted(
        [f"{one}-0", *(f"{many}-{n}" for n in range(7))]
    )
    assert_equal_logs(flow, many)


def test_compression_of_the_target_is_applied(
    flow: MirroredFlow, log: Path, tmp_path: Path
) -> None:
    topic = flow.topic()
    records = [Record(b"the same again and again" * 40, b"%d" % n) for n in range(2_000)]
    produce(flow.source_servers, topic, records)
    with running(flow.properties({"B.producer.compression.type": "zstd"}), tmp_path, log) as mirror:
        flow.wait_records(topic, [2_000])
        stop_cleanly(mirror, log)
    assert_equal_logs(flow, topic)
    assert batch_codecs(flow.source, topic) == {0}
    assert batch_codecs(flow.target, flow.remote(topic)) == {4}
