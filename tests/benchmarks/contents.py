"""Whether a copy has the contents of its source: keys, values, headers, timestamps and order."""

from __future__ import annotations

import zlib

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from connect.clock import Deadline
from connect.errors import DeadlineExceeded
from tests.support.records.topics import unique

__all__ = ["Digest", "count_records", "digest"]

Digest = dict[int, tuple[int, int]]
"""The records of each partition, and a checksum over them in their order."""

_READ = 10_000
_READ_S = 0.5
_LONGEST_S = 600.0


def digest(
    servers: str,
    topic: str,
    partitions: int,
    records: int,
    *,
    headers: bool = True,
    times: bool = True,
) -> Digest:
    """Read `records` records of a topic, with or without their headers and timestamps. Raises
    `DeadlineExceeded` if it does not have so many."""
    consumer = _consumer(servers)
    found: Digest = dict.fromkeys(range(partitions), (0, 0))
    deadline = Deadline(_LONGEST_S)
    left = records
    try:
        consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
        while left > 0:
            if deadline.expired():
                raise DeadlineExceeded(f"{topic}: {left} of {records} records could not be read")
            for message in consumer.consume(_READ, _READ_S):
                error, partition = message.error(), message.partition()
                if error is not None and error.code() == KafkaError._PARTITION_EOF:
                    continue
                if error is not None or partition is None:
                    raise KafkaException(error)
                count, total = found[partition]
                total = zlib.crc32(message.key() or b"", total)
                total = zlib.crc32(message.value() or b"", total)
                # Without its type: where the source's broker set it, the copy's producer does.
                time = message.timestamp()[1] if times else None
                about = (time, message.headers() if headers else None)
                found[partition] = (count + 1, zlib.crc32(repr(about).encode(), total))
                left -= 1
        return found
    finally:
        consumer.close()


def count_records(servers: str, topic: str, partitions: int) -> int:
    """Read a topic to its end. Returns how many committed records it has."""
    consumer = _consumer(servers)
    deadline = Deadline(_LONGEST_S)
    count = 0
    try:
        consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
        open_partitions = set(range(partitions))
        while open_partitions:
            if deadline.expired():
                raise DeadlineExceeded(f"{topic} could not be read to its end")
            for message in consumer.consume(_READ, _READ_S):
                error, partition = message.error(), message.partition()
                if error is None:
                    count += 1
                elif error.code() == KafkaError._PARTITION_EOF and partition is not None:
                    open_partitions.discard(partition)
                else:
                    raise KafkaException(error)
        return count
    finally:
        consumer.close()


def _consumer(servers: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": unique("contents"),
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "fetch.message.max.bytes": 8 * 1024 * 1024,
            "check.crcs": True,
        }
    )
