"""Consumer groups of tests: what they commit, and where they stand."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    TopicPartition,
)

from connect.clients.config.properties import wire_settings
from connect.clients.groups.fetch_offsets import fetch_committed
from connect.clock import Deadline
from connect.errors import ConnectError
from connectors.mirror.formats import Checkpoint
from tests.support.flows.mirrored import MirroredFlow
from tests.support.records.reading import read_partition
from tests.support.records.topics import has_topic
from tests.support.waiting import wait_until

__all__ = [
    "checkpoints",
    "commit",
    "committed",
    "consume",
    "latest_checkpoints",
    "member",
    "wait_group",
]

_TIMEOUT_S = 30.0
_SYNC_S = 120.0
_NOT_READY = {
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.NOT_COORDINATOR,
}


def commit(
    servers: str, group: str, offsets: Mapping[tuple[str, int], int], metadata: str = ""
) -> None:
    """Commit offsets for a group that has no members. Where there is metadata, confluent-kafka
    commits the end of the C string with it: a NUL."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": group})
    try:
        partitions = [
            TopicPartition(topic, partition, offset, metadata)
            for (topic, partition), offset in offsets.items()
        ]
        wait_until(lambda: _committed(consumer, partitions), _TIMEOUT_S, f"the commit of {group}")
    finally:
        consumer.close()


def _committed(consumer: Consumer, partitions: list[TopicPartition]) -> bool:
    """Commit. False: the coordinator is not ready yet, as on a cluster that has just started."""
    try:
        consumer.commit(offsets=partitions, asynchronous=False)
    except KafkaException as error:
        if error.args[0].code() in _NOT_READY:
            return False
        raise
    return True


def committed(servers: str, group: str) -> dict[tuple[str, int], int]:
    """What a group has committed; nothing for one that does not exist. Not through librdkafka: see
    `fetch_committed`."""
    settings = wire_settings({"bootstrap.servers": servers})
    found = fetch_committed(settings, [group], Deadline(_TIMEOUT_S))[group]
    if isinstance(found, ConnectError):
        raise found
    return {key: each.offset for key, each in found.items() if each.offset is not None}


def checkpoints(flow: MirroredFlow, group: str | None = None) -> list[Checkpoint]:
    """The checkpoints of a flow, or of one group of it, oldest first."""
    name = f"{flow.a}.checkpoints.internal"
    if not has_topic(flow.target_servers, name):
        return []
    found = [
        Checkpoint.decode(record.key or b"", record.value or b"")
        for record in read_partition(flow.target_servers, name)
    ]
    return [each for each in found if group in (None, each.group)]


def latest_checkpoints(flow: MirroredFlow, group: str) -> dict[tuple[str, int], tuple[int, int]]:
    """The last (upstream, downstream) of each of the group's partitions on the target."""
    return {
        (each.topic, each.partition): (each.upstream_offset, each.downstream_offset)
        for each in checkpoints(flow, group)
    }


def consume(
    servers: str, group: str, topics: Sequence[str], count: int | None = None
) -> list[bytes]:
    """Read on as a member of the group: `count` records, or all there are; commit, and leave.
    Where the group has no offset, that is an error, not a beginning anywhere."""
    deadline = Deadline(60)
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": group,
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
            "fetch.wait.max.ms": 50,
        }
    )
    values: list[bytes] = []
    ended: set[tuple[str | None, int | None]] = set()
    try:
        consumer.subscribe(list(topics))
        while (count is None or len(values) < count) and not deadline.expired():
            message = consumer.poll(0.2)
            if message is None:
                continue
            error = message.error()
            if error is None:
                value = message.value()
                assert value is not None
                values.append(value)
            elif error.code() == KafkaError._PARTITION_EOF:
                ended.add((message.topic(), message.partition()))
                if count is None and len(ended) == len(consumer.assignment()):
                    break
            else:
                raise KafkaException(error)
        if values:
            consumer.commit(asynchronous=False)
    finally:
        consumer.close()
    assert not deadline.expired(), f"{len(values)} records in time"
    return values


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


def wait_group(servers: str, group: str, topic: str, offset: int) -> None:
    """Until the group has this offset of the topic's only partition."""
    wait_until(
        lambda: committed(servers, group).get((topic, 0)) == offset,
        _SYNC_S,
        f"{group} at {offset} of {topic}",
    )
