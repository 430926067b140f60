"""Java's MirrorMaker 2 and ours take over from one another, with one and the same mm2.properties.

After every clean stop the other goes on where the first one ended: nothing twice, nothing lost.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from kafka.partitioner.default import murmur2

from connectors.mirror.formats import Checkpoint
from deploy.brokers import GuardedProcess, KafkaCluster, KafkaRuntime
from tests.support.flows.mirrored import (
    MirroredFlow,
    assert_equal_logs,
    running,
    stop_cleanly,
    topic_configs,
)
from tests.support.flows.mirrors import java_mirror_maker
from tests.support.records.offset_records import mapping, offset_map, offset_syncs
from tests.support.records.producing import numbered, produce, produce_transactions
from tests.support.records.reading import read_partition
from tests.support.records.topics import end_offset, has_topic
from tests.support.waiting import wait_until
from tests.support.workers.java import run_java_class

PARTITIONS = 3
OFFSET_PARTITIONS = 7
CONFIGS = {"cleanup.policy": "delete", "max.message.bytes": "2000000", "retention.ms": "-1"}


class Relay:
    """One flow with a plain and a transactional topic, mirrored by turns."""

    def __init__(
        self, kafka: KafkaRuntime, flow: MirroredFlow, directory: Path, logs: Path
    ) -> None:
        self.kafka = kafka
        self.flow = flow
        self.plain = flow.topic("plain", partitions=PARTITIONS, configs=CONFIGS)
        self.transactional = flow.topic("transactional")
        self._directory = directory
        self._logs = logs
        self._turn = itertools.count()
        self._written = 0
        self.properties = flow.properties(
            {
                "offset.storage.partitions": str(OFFSET_PARTITIONS),
                "A.consumer.isolation.level": "read_committed",
                "A.consumer.auto.offset.reset": "earliest",
                "offset.lag.max": "0",
            }
        )

    def write(self, count: int = 50) -> None:
        """More records for every partition."""
        first, self._written = self._written, self._written + count
        for partition in range(PARTITIONS):
            records = numbered(count, start=first, partition=partition)
            produce(self.flow.source_servers, self.plain, records, compression="lz4")
        produce_transactions(
            self.flow.source_servers,
            self.transactional,
            [
                (numbered(count // 2, start=first), True),
                (numbered(5, start=first + 7_000_000), False),
                (numbered(count - count // 2, start=first + count // 2), True),
            ],
        )

    @contextmanager
    def java(self) -> Iterator[GuardedProcess]:
        """Java's turn, until its clean stop."""
        log = self._logs / f"{next(self._turn)}-java.log"
        with java_mirror_maker(self.kafka, self.properties, self._directory, log) as mirror:
            yield mirror
            # It ends by the signal once its shutdown hook has stopped the tasks, offsets stored.
            assert mirror.stop(60) == 128 + 15

    @contextmanager
    def ours(self) -> Iterator[GuardedProcess]:
        """Our turn, until our clean stop."""
        log = self._logs / f"{next(self._turn)}-ours.log"
        with running(self.properties, self._directory, log) as mirror:
            yield mirror
            stop_cleanly(mirror, log)

    def wait(self) -> None:
        """Until all that was written is copied."""
        self.flow.wait_records(self.plain, [self._written] * PARTITIONS, 90)
        self.flow.wait_records(self.transactional, [self._written], 90)

    def check(self) -> None:
        """Every record once, in order; the target's topic as it was made; each stored offset's key
        in one partition, the one that Java's partitioner chooses."""
        flow = self.flow
        for topic in (self.plain, self.transactional):
            assert_equal_logs(flow, topic)
        places: dict[bytes, int] = {}
        for partition, record in flow.stored_records():
            key = record.key or b""
            assert partition == (murmur2(key) & 0x7FFFFFFF) % OFFSET_PARTITIONS, key
            assert places.setdefault(key, partition) == partition
        assert topic_configs(flow.target_servers, flow.remote(self.plain)) == CONFIGS
        exact = {(self.plain, p): mapping(flow, self.plain, p) for p in range(PARTITIONS)}
        exact[self.transactional, 0] = mapping(flow, self.transactional)
        for sync in offset_syncs(flow.source_servers, flow.syncs_topic):
            known = exact[sync.topic, sync.partition]
            assert known[sync.upstream_offset] == sync.downstream_offset


@pytest.fixture
def relay(
    kafka: KafkaRuntime,
    source_cluster: KafkaCluster,
    target_cluster: KafkaCluster,
    tmp_path: Path,
    logs: Path,
) -> Relay:
    return Relay(kafka, MirroredFlow(source_cluster, target_cluster), tmp_path, logs)


def commit(servers: str, group: str, topic: str, offset: int) -> None:
    """Commit an offset of partition 0 for a group."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": group})
    try:
        consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
    finally:
        consumer.close()


def checkpoints(flow: MirroredFlow, group: str, topic: str) -> list[Checkpoint]:
    """Checkpoints of one group and topic, oldest first."""
    name = f"{flow.a}.checkpoints.internal"
    if not has_topic(flow.target_servers, name):
        return []
    found = [
        Checkpoint.decode(record.key or b"", record.value or b"")
        for record in read_partition(flow.target_servers, name)
    ]
    return [c for c in found if (c.group, c.topic) == (group, flow.remote(topic))]


@pytest.mark.slow
def test_from_java_to_ours_and_back_and_again(relay: Relay) -> None:
    flow = relay.flow
    group = f"{flow.prefix}-group"
    relay.write()
    with relay.java():
        relay.wait()
        relay.write()  # while it copies
        relay.wait()
    relay.write()
    with relay.ours():
        relay.wait()
        relay.write()
        relay.wait()
    relay.check()

    # A group in the middle of what ours copied: Java's checkpoints can rest on our syncs only.
    position = read_partition(flow.source_servers, relay.plain)[170].offset
    commit(flow.source_servers, group, relay.plain, position)
    with relay.java():
        found = wait_until(lambda: checkpoints(flow, group, relay.plain), 150, "a checkpoint")
        relay.write()
        relay.wait()
    checkpoint = found[-1]
    assert checkpoint.upstream_offset == position
    # Java's rule: one after the last sync that is not after the group's position. Ours wrote one
    # for the end of the first 50 records at the latest.
    assert 150 <= checkpoint.downstream_offset <= mapping(flow, relay.plain)[position]

    relay.write()
    with relay.ours():
        relay.wait()
    relay.check()
    # The map knows what ours copied, and leads to its end for what Java copied in between.
    translate = offset_map(flow.source_servers, flow.map_topic, relay.plain)
    assert [translate.downstream(n) for n in (99, 100, 199)] == [None, 100, 199]
    assert [translate.downstream(n) for n in (200, 249, 250)] == [200, 200, 250]


def test_from_ours_to_java(relay: Relay) -> None:
    flow = relay.flow
    relay.write()
    with relay.ours():
        relay.wait()
        relay.write()
        relay.wait()
    relay.write()
    with relay.java():
        relay.wait()
    relay.check()
    newest = {}
    for _, record in flow.stored_records():
        newest[record.key] = json.loads(record.value or b"null")
    assert newest[relay_key(flow, relay.plain)] == {
        "offset": end_offset(flow.source_servers, relay.plain) - 1
    }


def relay_key(flow: MirroredFlow, topic: str) -> bytes:
    return (
        f'["MirrorSourceConnector",{{"cluster":"{flow.a}","partition":0,"topic":"{topic}"}}]'
    ).encode()


def test_javas_formatter_reads_our_offset_syncs(relay: Relay) -> None:
    flow = relay.flow
    relay.write()
    with relay.ours():
        relay.wait()
    printed = run_java_class(
        relay.kafka,
        "org.apache.kafka.tools.consumer.ConsoleConsumer",
        [
            "--bootstrap-server",
            flow.source_servers,
            "--topic",
            flow.syncs_topic,
            "--formatter",
            "org.apache.kafka.connect.mirror.formatters.OffsetSyncFormatter",
            "--from-beginning",
            "--timeout-ms",
            "5000",
        ],
    )
    ours = offset_syncs(flow.source_servers, flow.syncs_topic)
    assert ours
    assert [line for line in printed.splitlines() if line.startswith("OffsetSync{")] == [
        str(sync) for sync in ours
    ]
