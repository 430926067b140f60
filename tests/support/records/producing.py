"""Putting records into topics, in every form a batch can have."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from connect.errors import DeadlineExceeded
from tests.support.records.topics import unique

__all__ = ["COMPRESSIONS", "Record", "meanwhile", "numbered", "produce", "produce_transactions"]

COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")
_TIMEOUT_S = 60.0
_NOW = 0  # for librdkafka: the moment of producing


@dataclass(frozen=True, slots=True)
class Record:
    """What a producer is given. `timestamp_ms` None: now."""

    value: bytes | None = None
    key: bytes | None = None
    partition: int = 0
    timestamp_ms: int | None = None
    headers: Sequence[tuple[str, bytes | None]] = ()


def numbered(count: int, *, start: int = 0, size: int = 0, partition: int = 0) -> list[Record]:
    """Records that can be told apart: key `k<n>`, value `v<n>` padded with dots to `size` bytes."""
    return [
        Record(b"v%d" % n + b"." * (size - len(b"v%d" % n)), b"k%d" % n, partition)
        for n in range(start, start + count)
    ]


@contextmanager
def _producer(servers: str, settings: Mapping[str, str | int | bool]) -> Iterator[Producer]:
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 5, **settings})
    try:
        yield producer
    finally:
        producer.purge()
        producer.poll(0)


class _Outcome:
    """Collects delivery reports. They come on the thread that polls or flushes."""

    def __init__(self) -> None:
        self.error: KafkaError | None = None

    def delivered(self, error: KafkaError | None, _message: Message) -> None:
        self.error = self.error or error


def _send(producer: Producer, topic: str, record: Record, outcome: _Outcome) -> None:
    while True:
        try:
            producer.produce(
                topic,
                value=record.value,
                key=record.key,
                partition=record.partition,
                headers=list(record.headers),
                timestamp=_NOW if record.timestamp_ms is None else record.timestamp_ms,
                on_delivery=outcome.delivered,
            )
        except BufferError:
            producer.poll(1.0)
            continue
        producer.poll(0)
        return


def _flush(producer: Producer, topic: str, outcome: _Outcome) -> None:
    if left := producer.flush(_TIMEOUT_S):
        raise DeadlineExceeded(f"{left} records for {topic} were not acknowledged in time")
    if outcome.error is not None:
        raise KafkaException(outcome.error)


def produce(
    servers: str,
    topic: str,
    records: Iterable[Record],
    *,
    compression: str = "none",
    batch_records: int | None = None,
    settings: Mapping[str, str | int | bool] | None = None,
) -> None:
    """Produce `records` in order, idempotently, and wait until all are acknowledged.

    `batch_records`: at most that many records in a batch. `settings`: librdkafka's names.
    """
    own: dict[str, str | int | bool] = {
        "compression.type": compression,
        "enable.idempotence": True,
        **({} if batch_records is None else {"batch.num.messages": batch_records}),
        **(settings or {}),
    }
    outcome = _Outcome()
    with _producer(servers, own) as producer:
        for record in records:
            _send(producer, topic, record, outcome)
        _flush(producer, topic, outcome)


def produce_transactions(
    servers: str,
    topic: str,
    transactions: Iterable[tuple[Sequence[Record], bool]],
    *,
    compression: str = "none",
) -> None:
    """One transaction after the other; the flag says whether it is committed (True) or aborted.

    An aborted one is flushed before, so that its records are really in the log.
    """
    settings = {"transactional.id": unique("transactional"), "compression.type": compression}
    with _producer(servers, settings) as producer:
        producer.init_transactions(_TIMEOUT_S)
        for records, commit in transactions:
            outcome = _Outcome()
            producer.begin_transaction()
            for record in records:
                _send(producer, topic, record, outcome)
            _flush(producer, topic, outcome)
            if commit:
                producer.commit_transaction(_TIMEOUT_S)
            else:
                producer.abort_transaction(_TIMEOUT_S)


@contextmanager
def meanwhile(write: Callable[[], object], pause_s: float = 0.05) -> Iterator[None]:
    """Call `write` again and again on a thread of its own while the block runs."""
    stop = threading.Event()

    def run() -> None:
        while not stop.wait(pause_s):
            write()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
