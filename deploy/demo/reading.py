"""Reads the demo's topics: only committed records, up to the current end of the partitions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager

from confluent_kafka import Consumer, KafkaError, KafkaException, Message

from connect.clock import Deadline
from connect.errors import BrokerUnavailable, DeadlineExceeded

__all__ = ["PartitionKey", "Take", "committed_reader", "read_partitions"]

PartitionKey = tuple[str, int]

Take = Callable[[PartitionKey, Message], bool]
"""Receives a record. Returns whether its partition needs no more records."""

_BATCH = 5_000
_POLL_S = 0.2


@contextmanager
def committed_reader(servers: str, group: str, what: str) -> Iterator[Consumer]:
    """Yield a consumer without an assignment. Turns Kafka errors in the block into
    `BrokerUnavailable`, which says that `what` cannot be read."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": group,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "fetch.wait.max.ms": 20,
            "log_level": 0,
        }
    )
    try:
        yield consumer
    except KafkaException as error:
        raise BrokerUnavailable(f"Cannot read {what} of {servers}: {error}") from error
    finally:
        consumer.close()


def read_partitions(
    consumer: Consumer, keys: Collection[PartitionKey], take: Take, timeout_s: float
) -> None:
    """Read the assigned partitions until `take` needs no more records of each, or to their ends.

    Raises `DeadlineExceeded`.
    """
    deadline, waiting = Deadline(timeout_s), set(keys)
    while waiting:
        if deadline.expired():
            raise DeadlineExceeded(
                f"Timed out after {timeout_s:g} s, reading {len(waiting)} partitions to their ends"
            )
        for message in consumer.consume(_BATCH, min(_POLL_S, deadline.remaining())):
            key = _place(message)
            error = message.error()
            if error is not None:
                if error.code() != KafkaError._PARTITION_EOF:
                    raise KafkaException(error)
                waiting.discard(key)
            elif key in waiting and take(key, message):
                waiting.discard(key)


def _place(message: Message) -> PartitionKey:
    topic, partition = message.topic(), message.partition()
    assert topic is not None
    assert partition is not None
    return topic, partition
