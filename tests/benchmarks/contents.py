"""Whether a copy has the contents of its source: keys, values, headers, timestamps and order."""

from __future__ import annotations

import zlib

from confluent_kafka import TIMESTAMP_CREATE_TIME, Consumer, KafkaException, TopicPartition

from connect.clock import Deadline
from connect.errors import DeadlineExceeded
from tests.support.records.topics import unique

__all__ = ["Digest", "digest"]

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
    appended: bool = False,
) -> Digest:
    """Read `records` records of a topic, with or without their headers and timestamps. `appended`:
    the broker set the timestamps, which a copy has as its producer's. Raises `DeadlineExceeded` if
    it does not have so many."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": unique("contents"),
            "enable.auto.commit": False,
            "fetch.message.max.bytes": 8 * 1024 * 1024,
            "check.crcs": True,
        }
    )
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
                if error is not None or partition is None:
                    raise KafkaException(error)
                count, total = found[partition]
                total = zlib.crc32(message.key() or b"", total)
                total = zlib.crc32(message.value() or b"", total)
                time = message.timestamp() if times else None
                if time is not None and appended:
                    time = (TIMESTAMP_CREATE_TIME, time[1])
                about = (time, message.headers() if headers else None)
                found[partition] = (count + 1, zlib.crc32(repr(about).encode(), total))
                left -= 1
        return found
    finally:
        consumer.close()
