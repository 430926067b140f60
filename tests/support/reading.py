"""Reading partitions back as values that can be compared."""

from __future__ import annotations

from typing import NamedTuple

from confluent_kafka import (
    TIMESTAMP_CREATE_TIME,
    TIMESTAMP_LOG_APPEND_TIME,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)

from connect.clock import Deadline
from connect.errors import DeadlineExceeded
from tests.support.topics import unique

__all__ = ["ReadRecord", "contents", "numbers", "read_partition"]

_BATCH = 10_000
_POLL_S = 0.5
_TIMESTAMP_TYPES = {
    TIMESTAMP_CREATE_TIME: "CreateTime",
    TIMESTAMP_LOG_APPEND_TIME: "LogAppendTime",
}


class ReadRecord(NamedTuple):
    """A record as a consumer sees it. `timestamp_type`: CreateTime, LogAppendTime or None."""

    offset: int
    timestamp_type: str | None
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]

    def content(self) -> tuple[object, ...]:
        """Everything a mirror must keep: all but the offset and the timestamp's type."""
        return self[2:]


def contents(records: list[ReadRecord]) -> list[tuple[object, ...]]:
    """`content` of each."""
    return [record.content() for record in records]


def numbers(records: list[ReadRecord]) -> list[int]:
    """Of records that `numbered` made, the numbers in their values; -1 for those without one."""
    return [int((record.value or b"v-1").strip(b"v.")) for record in records]


def _bytes(value: object) -> bytes | None:
    assert value is None or isinstance(value, bytes), f"not bytes: {value!r}"
    return value


def _read(message: Message) -> ReadRecord:
    offset = message.offset()
    assert offset is not None
    kind, timestamp = message.timestamp()
    pairs: list[tuple[str, object]] = [*(message.headers() or ())]
    return ReadRecord(
        offset,
        _TIMESTAMP_TYPES.get(kind),
        timestamp,
        _bytes(message.key()),
        _bytes(message.value()),
        tuple((name, _bytes(value)) for name, value in pairs),
    )


def read_partition(
    servers: str,
    topic: str,
    partition: int = 0,
    *,
    isolation: str = "read_uncommitted",
    start: int = 0,
    timeout_s: float = 60.0,
) -> list[ReadRecord]:
    """All records of a partition from offset `start` to its end as it was reached.

    Under `read_committed` the end is the last stable offset. Raises `DeadlineExceeded`, or
    `KafkaException` for what the broker refuses.
    """
    deadline = Deadline(timeout_s)
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": unique("reader"),
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            "isolation.level": isolation,
            "fetch.wait.max.ms": 20,
        }
    )
    records: list[ReadRecord] = []
    try:
        consumer.assign([TopicPartition(topic, partition, start)])
        while not deadline.expired():
            for message in consumer.consume(_BATCH, min(_POLL_S, deadline.remaining())):
                error = message.error()
                if error is None:
                    records.append(_read(message))
                elif error.code() == KafkaError._PARTITION_EOF:
                    return records
                else:
                    raise KafkaException(error)
    finally:
        consumer.close()
    raise DeadlineExceeded(
        f"The end of {topic}-{partition} was not reached within {timeout_s:g} s, after "
        f"{len(records)} records"
    )
