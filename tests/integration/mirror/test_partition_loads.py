"""What partitions of a real source weigh, and a connector that deals them out by it."""

from __future__ import annotations

import queue
from collections.abc import Mapping, Sequence

from connect.protocol.messages import TopicPartition
from connectors.mirror.source.partition_load import LoadWatch
from deploy.brokers import KafkaCluster
from tests.support.records.producing import numbered, produce
from tests.support.records.topics import create_topic
from tests.support.waiting import wait_until


def test_what_comes_and_what_waits_is_seen_in_bytes(source_cluster: KafkaCluster) -> None:
    servers = source_cluster.bootstrap_servers
    topic = create_topic(servers, "loads", partitions=3)
    idle, waits, comes = ((topic, number) for number in range(3))
    produce(servers, topic, numbered(200, size=1000, partition=1))
    copied: dict[TopicPartition, int] = {}
    failures: queue.SimpleQueue[Exception] = queue.SimpleQueue()

    def positions(partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        return dict(copied)

    watch = LoadWatch(
        "A->B",
        {"bootstrap.servers": servers, "client.id": "loads"},
        lambda: [idle, waits, comes],
        positions,
        lambda: None,
        failures.put,
        look_s=0.5,
    )
    watch.start()
    try:
        # 200 kB in 10 minutes.
        wait_until(
            lambda: 300 < watch.weights.get(waits, 0) - watch.weights.get(idle, 0) < 500,
            30.0,
            "what waits to weigh more",
        )
        copied[waits] = 200
        wait_until(lambda: watch.weights[waits] == watch.weights[idle], 30.0, "nothing to wait")
        produce(servers, topic, numbered(2000, size=1000, partition=2))
        copied[comes] = 2000
        wait_until(
            lambda: watch.weights[comes] > 50 * watch.weights[idle],
            30.0,
            "what comes to weigh more",
        )
    finally:
        watch.stop()
    assert failures.empty()
