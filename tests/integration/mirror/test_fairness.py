"""A task that catches up with hundreds of megabytes does not make live records late."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition

from deploy.brokers import KafkaCluster
from tests.benchmarks.pacer import STAMP
from tests.support.flows.mirrored import MirroredFlow, running, wait_ends
from tests.support.records.producing import Record, numbered, produce
from tests.support.records.topics import admin, end_offsets, unique

PARTITIONS, RECORD = 8, 16 * 1024
BACKLOG = 5_000
"""Records of each partition of the long topic: 80 MB, 650 MB in all."""
LIVE, RATE = 100, 100
"""Records of the live topic that are measured, and how many of them come in a second."""
LATER_S = 5.0
"""How much later than without the backlog 99 of 100 live records may be. A turn of the others takes
some 0.1 s at rest; live records that waited for the backlog would come many seconds later."""


@pytest.fixture
def flow(source_cluster: KafkaCluster, target_cluster: KafkaCluster) -> Iterator[MirroredFlow]:
    made = MirroredFlow(source_cluster, target_cluster)
    yield made
    for servers, prefix in ((made.source_servers, ""), (made.target_servers, f"{made.a}.")):
        client = admin(servers)
        for deleted in client.delete_topics([f"{prefix}{made.prefix}.long"]).values():
            deleted.result(30.0)


def delay_s(flow: MirroredFlow, topic: str, copied: int) -> float:
    """What 99 of 100 live records take from a producer to a consumer of the copy, which has
    `copied` before."""
    consumer = Consumer({"bootstrap.servers": flow.target_servers, "group.id": unique("live")})
    arguments = [flow.source_servers, topic, str(RATE), str(LIVE)]
    found: list[float] = []
    try:
        consumer.assign([TopicPartition(flow.remote(topic), 0, copied)])
        with subprocess.Popen(
            [sys.executable, "-m", "tests.benchmarks.pacer", *arguments]
        ) as pacer:
            while len(found) < LIVE:
                message = consumer.poll(30.0)
                assert message is not None, f"only {len(found)} live records came"
                value = message.value()
                assert isinstance(value, bytes)
                found.append((time.monotonic_ns() - STAMP.unpack_from(value)[1]) / 1e9)
            assert pacer.wait(30.0) == 0
    finally:
        consumer.close()
    return sorted(found)[int(LIVE * 0.99)]


def test_a_backlog_of_hundreds_of_megabytes_does_not_make_live_records_late(
    flow: MirroredFlow, logs: Path, tmp_path: Path
) -> None:
    long, live = flow.topic("long", partitions=PARTITIONS), flow.topic("live")
    produce(flow.source_servers, live, [Record(b"first")])
    for partition in range(PARTITIONS):
        records = numbered(BACKLOG, size=RECORD, partition=partition)
        produce(flow.source_servers, long, records)
    with running(flow.properties({"tasks.max": "1"}), tmp_path, logs / "mirror.log"):
        wait_ends(flow.target_servers, flow.remote(live), 1)
        beside = delay_s(flow, live, 1)
        copied = sum(end_offsets(flow.target_servers, flow.remote(long)).values())
        assert copied < PARTITIONS * BACKLOG, "the backlog was copied too soon to tell"
        flow.wait_records(long, [BACKLOG] * PARTITIONS)
        alone = delay_s(flow, live, 1 + LIVE)
    print(f"99 of 100 within {beside:.3f} s beside the backlog, {alone:.3f} s without")
    assert beside < alone + LATER_S
