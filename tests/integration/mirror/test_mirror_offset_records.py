"""What the mirror writes about its copies: source offsets, offset syncs, the map, heartbeats."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from kafka.partitioner.default import murmur2

from connectors.mirror.formats import OffsetSync
from deploy.brokers import KafkaCluster
from tests.support.flows.mirrored import (
    MirroredFlow,
    assert_equal_logs,
    running,
    stop_cleanly,
    topic_configs,
    wait_ends,
)
from tests.support.records.compacting import SOON_COMPACTED, wait_compacted
from tests.support.records.offset_records import (
    heartbeats,
    java_syncs,
    mapping,
    offset_map,
    offset_syncs,
)
from tests.support.records.producing import Record, numbered, produce, produce_transactions
from tests.support.records.reading import read_partition
from tests.support.records.topics import end_offset, has_topic, topic_names
from tests.support.waiting import wait_until

TRANSACTIONS: list[tuple[Sequence[Record], bool]] = [
    (numbered(7, start=10 * n), n % 3 != 1) for n in range(6)
]


@pytest.fixture
def flow(source_cluster: KafkaCluster, target_cluster: KafkaCluster) -> MirroredFlow:
    return MirroredFlow(source_cluster, target_cluster)


@pytest.fixture
def log(logs: Path) -> Path:
    return logs / "mirror.log"


def test_source_offsets_have_javas_bytes_in_the_partitions_java_chooses(
    flow: MirroredFlow, log: Path, tmp_path: Path
) -> None:
    topic = flow.topic("t", partitions=3)
    produce(flow.source_servers, topic, numbered(40) + numbered(30, partition=2))
    partitions = 25  # MirrorMaker 2's default
    properties = flow.properties({"offset.storage.partitions": str(partitions)})

    with running(properties, tmp_path, log) as mirror:
        flow.wait_records(topic, [40, 0, 30])
        stop_cleanly(mirror, log)

    records = flow.stored_records()
    newest = {record.key: record.value for _, record in records}
    assert newest == {
        b'["MirrorSourceConnector",{"cluster":"%s","partition":%d,"topic":"%s"}]'
        % (flow.a.encode(), partition, topic.encode()): b'{"offset":%d}' % offset
        for partition, offset in ((0, 39), (2, 29))
    }
    for partition, record in records:
        assert partition == (murmur2(record.key) & 0x7FFFFFFF) % partitions
        assert record.headers == ()
    configs = topic_configs(flow.target_servers, flow.offsets_topic)
    assert configs == {"cleanup.policy": "compact"}


def test_a_restart_copies_nothing_twice_and_loses_nothing(
    flow: MirroredFlow, log: Path, tmp_path: Path
) -> None:
    topic = flow.topic("t", partitions=2)
    produce(flow.source_servers, topic, numbered(500) + numbered(300, partition=1))
    # Far longer than the test: what is stored is stored by the clean stops.
    properties = flow.properties({"B.offset.flush.interval.ms": "600000"})
    with running(properties, tmp_path, log) as mirror:
        flow.wait_records(topic, [500, 300])
        stop_cleanly(mirror, log)
    assert flow.stored_offsets() == {(topic, 0): 499, (topic, 1): 299}

    produce(flow.source_servers, topic, numbered(20, start=500))
    with running(properties, tmp_path, log) as mirror:
        flow.wait_records(topic, [520, 300])
        stop_cleanly(mirror, log)
    with running(properties, tmp_path, log) as mirror:
        wait_until(lambda: log.read_text().count("2 of them new") == 3, 60, "a third start")
        stop_cleanly(mirror, log)

    assert_equal_logs(flow, topic)
    assert flow.stored_offsets() == {(topic, 0): 519, (topic, 1): 299}


def test_offset_syncs_are_those_of_javas_rule(
    flow: MirroredFlow, log: Path, tmp_path: Path
) -> None:
    topic = flow.topic()
    extra = {"offset.lag.max": "10", "B.offset.flush.interval.ms": "600000"}
    source, target = flow.source_servers, flow.target_servers

    with running(flow.properties(extra), tmp_path, log) as mirror:
        copied = 0
        for step in range(8):
            # At most one sync is due in so few records, so that none replaces one that waits.
            if step % 3 == 2:
                produce_transactions(source, topic, [(numbered(6, start=copied), True)])
                copied += 6
            else:
                produce(source, topic, numbered(9, start=copied))
                copied += 9
            flow.wait_records(topic, [copied])
        stop_cleanly(mirror, log)

    pairs = sorted(mapping(flow, topic).items())
    immediate, delayed = java_syncs(pairs, lag_max=10)
    assert len(immediate) > 4
    expected = immediate if delayed is None else [*immediate, delayed]
    found = offset_syncs(source, flow.syncs_topic)
    assert [(sync.upstream_offset, sync.downstream_offset) for sync in found] == expected
    assert {(sync.topic, sync.partition) for sync in found} == {(topic, 0)}
    assert topic_configs(source, flow.syncs_topic) == {"cleanup.policy": "compact"}
    assert not has_topic(target, flow.syncs_topic)


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
def test_the_offset_map_is_exact_over_transactions(
    flow: MirroredFlow, log: Path, tmp_path: Path, isolation: str
) -> None:
    topic = flow.topic()
    produce_transactions(flow.source_servers, topic, TRANSACTIONS, compression="lz4")
    produce(flow.source_servers, topic, numbered(25))
    properties = flow.properties({"A.consumer.isolation.level": isolation})
    count = 4 * 7 + 25 if isolation == "read_committed" else 6 * 7 + 25

    with running(properties, tmp_path, log) as mirror:
        flow.wait_records(topic, [count])
        stop_cleanly(mirror, log)

    assert_equal_logs(flow, topic, isolation=isolation)
    exact = mapping(flow, topic, isolation=isolation)
    assert len(exact) == count
    found = offset_map(flow.source_servers, flow.map_topic, topic)
    assert {offset: found.downstream(offset) for offset in exact} == exact
    # Every other offset is that of a marker or of an aborted record: the next record stands for it.
    end = end_offset(flow.source_servers, topic)
    following = end_offset(flow.target_servers, flow.remote(topic))
    for offset in range(end - 1, -1, -1):
        following = exact.get(offset, following)
        assert found.downstream(offset) == following, offset
    assert topic_configs(flow.source_servers, flow.map_topic) == {"cleanup.policy": "compact"}


def test_the_offset_map_is_exact_over_the_gaps_of_compaction(
    flow: MirroredFlow, log: Path, tmp_path: Path
) -> None:
    source = flow.source_servers
    topic = flow.topic(configs=SOON_COMPACTED)
    for n in range(4):
        records = [Record(b"%d" % n, b"k%d" % (k if k % 4 else 1000 * n + k)) for k in range(200)]
        produce(source, topic, records, compression="lz4", batch_records=40)

    wait_compacted(source, topic, 300)
    before = read_partition(source, topic)

    # A copy that was compacted as well could not be compared record by record.
    with running(flow.properties({"config.properties.exclude": ".*"}), tmp_path, log) as mirror:
        flow.wait_records(topic, [len(before)])
        stop_cleanly(mirror, log)

    assert_equal_logs(flow, topic)
    exact = mapping(flow, topic)
    found = offset_map(source, flow.map_topic, topic)
    assert {offset: found.downstream(offset) for offset in exact} == exact
    assert len(found.segments) > 3


def test_syncs_and_map_may_live_on_the_target(
    flow: MirroredFlow, log: Path, tmp_path: Path
) -> None:
    topic = flow.topic()
    produce(flow.source_servers, topic, numbered(30))
    properties = flow.properties({"offset-syncs.topic.location": "target"})
    with running(properties, tmp_path, log) as mirror:
        flow.wait_records(topic, [30])
        stop_cleanly(mirror, log)

    syncs, pages = (f"mm2-offset-{name}.{flow.a}.internal" for name in ("syncs", "map"))
    newest = offset_syncs(flow.target_servers, syncs)[-1]
    assert newest == OffsetSync(topic, 0, 29, 29)
    assert offset_map(flow.target_servers, pages, topic).downstream(17) == 17
    assert not {syncs, pages, flow.syncs_topic, flow.map_topic} & topic_names(flow.source_servers)


def test_without_offset_syncs_only_the_map_is_written(
    flow: MirroredFlow, log: Path, tmp_path: Path
) -> None:
    topic = flow.topic()
    produce(flow.source_servers, topic, numbered(30))
    properties = flow.properties({"emit.offset-syncs.enabled": "false"})
    del properties["offset-syncs.topic.replication.factor"]  # which would be refused, as in Java
    with running(properties, tmp_path, log) as mirror:
        flow.wait_records(topic, [30])
        stop_cleanly(mirror, log)
    assert flow.syncs_topic not in topic_names(flow.source_servers) | topic_names(
        flow.target_servers
    )
    assert offset_map(flow.source_servers, flow.map_topic, topic).downstream(29) == 29


@pytest.mark.parametrize(
    "key", ["A.consumer.isolation.level", "A->B.source.consumer.isolation.level"]
)
def test_only_committed_records_are_copied_where_the_consumer_says_so(
    flow: MirroredFlow, log: Path, tmp_path: Path, key: str
) -> None:
    topic = flow.topic()
    produce_transactions(flow.source_servers, topic, TRANSACTIONS)
    with running(flow.properties({key: "read_committed"}), tmp_path, log) as mirror:
        flow.wait_records(topic, [28])
        flow.wait_stored(topic, 0, end_offset(flow.source_servers, topic) - 1)
        stop_cleanly(mirror, log)
    assert_equal_logs(flow, topic)


def test_heartbeats_are_sent_and_mirrored_in_javas_bytes(
    flow: MirroredFlow, log: Path, tmp_path: Path
) -> None:
    on = {
        "emit.heartbeats.enabled": "true",
        "heartbeats.replication.enabled": "true",
        "emit.heartbeats.interval.seconds": "1",
    }
    flow.topic()
    source, target = flow.source_servers, flow.target_servers
    copy = flow.remote("heartbeats")
    with running(flow.properties(on), tmp_path, log) as mirror:
        wait_ends(target, copy, 1)
        # a->b sends to b; b->a is not enabled, and sends to a all the same.
        wait_until(
            lambda: (
                len(heartbeats(target, "heartbeats", flow.a, flow.b)) >= 2
                and len(heartbeats(target, copy, flow.b, flow.a)) >= 2
            ),
            60,
            "heartbeats of both directions",
        )
        stop_cleanly(mirror, log)

    for beat, record in heartbeats(target, "heartbeats", flow.a, flow.b):
        # The golden vector: two STRINGs; version 0 and the time.
        assert record.key == b"".join(
            len(alias).to_bytes(2, "big") + alias.encode() for alias in (flow.a, flow.b)
        )
        assert record.value == b"\x00\x00" + record.timestamp_ms.to_bytes(8, "big")
        assert record.headers == ()
        assert beat.timestamp_ms == record.timestamp_ms
    sent = heartbeats(source, "heartbeats", flow.b, flow.a)
    mirrored = heartbeats(target, copy, flow.b, flow.a)
    assert [r.content() for _, r in mirrored] == [r.content() for _, r in sent][: len(mirrored)]
    for topic in ("heartbeats", copy):
        assert topic_configs(target, topic) == {"cleanup.policy": "compact"}
