"""Consumer groups of tests: what they commit, and where they stand."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, TopicPartition

from connectors.mirror.formats import Checkpoint
from tests.support.mirrored import MirroredFlow
from tests.support.reading import read_partition
from tests.support.topics import admin, topic_names
from tests.support.waiting import wait_until

__all__ = ["checkpoints", "commit", "committed", "latest_checkpoints", "member"]

_TIMEOUT_S = 30.0

TopicPartitionKey = tuple[str, int]


def commit(
    servers: str, group: str, offsets: Mapping[TopicPartitionKey, int], metadata: str = ""
) -> None:
    """Commit offsets for a group that has no members. Where there is metadata, confluent-kafka
    commits the end of the C string with it: a NUL."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": group})
    try:
        partitions = [
            TopicPartition(topic, partition, offset, metadata)
            for (topic, partition), offset in offsets.items()
        ]
        consumer.commit(offsets=partitions, asynchronous=False)
    finally:
        consumer.close()


def committed(servers: str, group: str) -> dict[TopicPartitionKey, int]:
    """What a group has committed; nothing for one that does not exist."""
    client = admin(servers)
    request = ConsumerGroupTopicPartitions(group)
    answer = client.list_consumer_group_offsets([request])[group].result(_TIMEOUT_S)
    return {(each.topic, each.partition): each.offset for each in answer.topic_partitions or ()}


def checkpoints(flow: MirroredFlow, group: str | None = None) -> list[Checkpoint]:
    """The checkpoints of a flow, or of one group of it, oldest first."""
    name = f"{flow.a}.checkpoints.internal"
    if name not in topic_names(flow.target_servers):
        return []
    found = [
        Checkpoint.decode(record.key or b"", record.value or b"")
        for record in read_partition(flow.target_servers, name)
    ]
    return [each for each in found if group in (None, each.group)]


def latest_checkpoints(flow: MirroredFlow, group: str) -> dict[TopicPartitionKey, tuple[int, int]]:
    """The last (upstream, downstream) of each of the group's partitions on the target."""
    return {
        (each.topic, each.partition): (each.upstream_offset, each.downstream_offset)
        for each in checkpoints(flow, group)
    }


@contextmanager
def member(servers: str, group: str, topic: str) -> Iterator[None]:
    """A member of the group, which has its partitions and commits nothing."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": group,
            "enable.auto.commit": False,
            "auto.offset.reset": "latest",
        }
    )
    stop = threading.Event()

    def run() -> None:
        while not stop.is_set():
            consumer.poll(0.1)

    thread = threading.Thread(target=run, daemon=True)
    try:
        consumer.subscribe([topic])
        wait_until(lambda: consumer.poll(0.1) is None and consumer.assignment(), 30, "assignment")
        thread.start()
        yield
    finally:
        stop.set()
        if thread.ident is not None:
            thread.join(10)
        consumer.close()
