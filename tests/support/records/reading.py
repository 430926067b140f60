"""Reading partitions back as values that can be compared."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
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
from tests.support.records.topics import unique

__all__ = ["ReadRecord", "contents", "numbers", "read_partition"]

_BATCH = 10_000
# Of a source and a target, at both isolation levels.
_IDLE_CONSUMERS = 4
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


class _Consumers:
    """Consumers that wait for the next one who reads: to make one and to close it takes longer than
    to read a partition. From any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: list[tuple[tuple[str, str], Consumer]] = []

    @contextmanager
    def lent(self, servers: str, isolation: str) -> Iterator[Consumer]:
        """A consumer without partitions, for one reader at a time. One whose reader failed is not
        lent again."""
        consumer = self._taken((servers, isolation)) or _consumer(servers, isolation)
        try:
            yield consumer
            consumer.unassign()
        except BaseException:
            consumer.close()
            raise
        with self._lock:
            self._idle.append(((servers, isolation), consumer))
            beyond = self._idle.pop(0)[1] if len(self._idle) > _IDLE_CONSUMERS else None
        if beyond is not None:
            beyond.close()

    def _taken(self, kind: tuple[str, str]) -> Consumer | None:
        with self._lock:
            for place in reversed(range(len(self._idle))):
                if self._idle[place][0] == kind:
                    return self._idle.pop(place)[1]
        return None


_CONSUMERS = _Consumers()


def _consumer(servers: str, isolation: str) -> Consumer:
    return Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": unique("reader"),
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            "isolation.level": isolation,
            "fetch.wait.max.ms": 20,
            "fetch.error.backoff.ms": 50,
            "reconnect.backoff.ms": 50,
            "reconnect.backoff.max.ms": 200,
            "log_level": 0,
        }
    )


def _waiting(consumer: Consumer, deadline: Deadline) -> list[Message]:
    """What has arrived, or the next that does. To ask for many with a timeout would always take
    that long."""
    return consumer.consume(_BATCH, 0.0) or consumer.consume(1, min(_POLL_S, deadline.remaining()))


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
    records: list[ReadRecord] = []
    with _CONSUMERS.lent(servers, isolation) as consumer:
        consumer.assign([TopicPartition(topic, partition, start)])
        while not deadline.expired():
            for message in _waiting(consumer, deadline):
                error = message.error()
                if error is None:
                    records.append(_read(message))
                elif error.code() == KafkaError._PARTITION_EOF:
                    return records
                else:
                    raise KafkaException(error)
    raise DeadlineExceeded(
        f"The end of {topic}-{partition} was not reached within {timeout_s:g} s, after "
        f"{len(records)} records"
    )
