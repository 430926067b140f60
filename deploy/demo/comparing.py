"""Reads records of both clusters and compares them: key, value, timestamp and headers.

Offsets are not compared, as transactions and compaction leave holes that a copy does not have.
Readers see committed records only, as the mirror does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from connect.clock import Deadline
from connect.errors import BrokerUnavailable, DeadlineExceeded

__all__ = ["Comparison", "Content", "PartitionKey", "compare_records", "latest_by_key", "read"]

PartitionKey = tuple[str, int]

_BATCH = 5_000
_POLL_S = 0.2


class Content(NamedTuple):
    """What a copy must keep of a record."""

    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    headers: tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True, slots=True)
class Comparison:
    """`equal` records were the same on both sides; `different` says where the first was not."""

    equal: int = 0
    different: str | None = None


def _content(message: Message) -> Content:
    pairs: list[tuple[str, object]] = [*(message.headers() or ())]
    return Content(
        _bytes(message.key()),
        _bytes(message.value()),
        message.timestamp()[1],
        tuple((name, _bytes(value)) for name, value in pairs),
    )


def _bytes(value: object) -> bytes | None:
    assert value is None or isinstance(value, bytes)
    return value


def read(
    servers: str,
    starts: Mapping[PartitionKey, int],
    timeout_s: float,
    limit: int | None = None,
) -> dict[PartitionKey, list[Content]]:
    """Committed records of each partition from its start to its end as it is met, or at most
    `limit` of each. Raises `DeadlineExceeded`, or `BrokerUnavailable` for what Kafka refuses."""
    deadline = Deadline(timeout_s)
    found: dict[PartitionKey, list[Content]] = {key: [] for key in starts}
    waiting = set(starts)
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "demo-comparison",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "fetch.wait.max.ms": 20,
            "log_level": 0,
        }
    )
    try:
        consumer.assign([TopicPartition(*key, start) for key, start in starts.items()])
        while waiting:
            if deadline.expired():
                raise DeadlineExceeded(
                    f"The end of {len(waiting)} partitions was not read within {timeout_s:g} s"
                )
            for message in consumer.consume(_BATCH, min(_POLL_S, deadline.remaining())):
                _take(message, found, waiting, limit)
    except KafkaException as error:
        raise BrokerUnavailable(f"Records of {servers} cannot be read: {error}") from error
    finally:
        consumer.close()
    return found


def _take(
    message: Message,
    found: dict[PartitionKey, list[Content]],
    waiting: set[PartitionKey],
    limit: int | None,
) -> None:
    topic, partition, error = message.topic(), message.partition(), message.error()
    assert topic is not None
    assert partition is not None
    key = (topic, partition)
    if error is not None:
        if error.code() != KafkaError._PARTITION_EOF:
            raise KafkaException(error)
        waiting.discard(key)
    elif key in waiting:
        found[key].append(_content(message))
        if limit is not None and len(found[key]) >= limit:
            waiting.discard(key)


def compare_records(
    where: str, source: list[Content], target: list[Content], *, from_end: bool = False
) -> Comparison:
    """Compare two runs of records one by one, from their beginning or their end on, as far as both
    reach."""
    count = min(len(source), len(target))
    if from_end:
        source, target = source[len(source) - count :], target[len(target) - count :]
    for index in range(count):
        if source[index] != target[index]:
            return Comparison(index, f"{where}: {source[index]} became {target[index]}")
    return Comparison(count)


def latest_by_key(records: list[Content]) -> dict[bytes | None, Content]:
    """What a compacted topic means: the last record of each key."""
    return {record.key: record for record in records}
