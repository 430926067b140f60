"""Reads records of both clusters and compares them: key, value, timestamp and headers.

Offsets are not compared, because transactions and compaction leave gaps that a copy does not have.
Only committed records are read, as the mirror does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from confluent_kafka import Message, TopicPartition

from deploy.demo.reading import PartitionKey, committed_reader, read_partitions

__all__ = ["Comparison", "Content", "compare_records", "latest_by_key", "read"]


class Content(NamedTuple):
    """The parts of a record that a copy must preserve."""

    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    headers: tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True, slots=True)
class Comparison:
    """The result of a comparison. `equal`: number of records that are the same on both sides.
    `different`: describes the first difference."""

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
    """Read the committed records of each partition from its start to its current end, or at most
    `limit` of each. Raises `DeadlineExceeded`, or `BrokerUnavailable` for Kafka errors."""
    found: dict[PartitionKey, list[Content]] = {key: [] for key in starts}

    def take(key: PartitionKey, message: Message) -> bool:
        found[key].append(_content(message))
        return limit is not None and len(found[key]) >= limit

    with committed_reader(servers, "demo-comparison", "Records") as consumer:
        consumer.assign([TopicPartition(*key, start) for key, start in starts.items()])
        read_partitions(consumer, found, take, timeout_s)
    return found


def compare_records(
    where: str, source: list[Content], target: list[Content], *, from_end: bool = False
) -> Comparison:
    """Compare two runs of records one by one, aligned at their start or at their end, as far as
    both reach."""
    count = min(len(source), len(target))
    if from_end:
        source, target = source[len(source) - count :], target[len(target) - count :]
    for index in range(count):
        if source[index] != target[index]:
            return Comparison(
                index,
                f"{where}: source record {source[index]} differs from target record "
                f"{target[index]}",
            )
    return Comparison(count)


def latest_by_key(records: list[Content]) -> dict[bytes | None, Content]:
    """Return the last record of each key, which is what a compacted topic keeps."""
    return {record.key: record for record in records}
