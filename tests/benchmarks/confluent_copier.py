"""A peer of the mirrors: consume from one cluster, produce to another, with confluent-kafka.

    python -m tests.benchmarks.confluent_copier mm2.properties

What a careful engineer writes without a framework: partitions, keys, values, headers, timestamps
and order are kept; offsets are committed to a group on the source only once the target has
acknowledged everything before them (at least once). It has no topic discovery, no offset
translation and no metrics. One process, one thread beside librdkafka's.
"""

from __future__ import annotations

import signal
import sys
import time
from pathlib import Path
from types import FrameType

from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic

from connect.config.properties import load_properties

__all__ = ["main"]

_CONSUME = 10_000
_CONSUME_S = 0.1
_COMMIT_S = 5.0
_TIMEOUT_S = 60.0
_FETCH_BYTES = 8 * 1024 * 1024


class Copier:
    """One topic of one flow."""

    def __init__(self, alias: str, topic: str, source: str, target: str, codec: str) -> None:
        self._remote = f"{alias}.{topic}"
        self._topic = topic
        self._admin = AdminClient({"bootstrap.servers": target})
        self._failure: KafkaError | None = None
        self._stopping = False
        self._next: dict[int, int] = {}
        self._consumer = Consumer(
            {
                "bootstrap.servers": source,
                "group.id": f"{alias}-copier",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "fetch.message.max.bytes": _FETCH_BYTES,
                "queued.max.messages.kbytes": 65_536,
                "fetch.queue.backoff.ms": 10,
            }
        )
        self._producer = Producer(
            {
                "bootstrap.servers": target,
                "enable.idempotence": True,
                "linger.ms": 20,
                "batch.size": 262_144,
                "queue.buffering.max.kbytes": 131_072,
                "queue.buffering.max.messages": 500_000,
                "compression.type": codec,
                "delivery.report.only.error": True,
                "on_delivery": self._delivered,
            }
        )

    def stop(self, _signal: int, _frame: FrameType | None) -> None:
        self._stopping = True

    def run(self) -> None:
        """Copy until `stop`."""
        self._create()
        self._consumer.subscribe([self._topic])
        commit_at = time.monotonic() + _COMMIT_S
        while not self._stopping:
            for message in self._consumer.consume(_CONSUME, _CONSUME_S):
                self._copy(message)
            self._producer.poll(0)
            if time.monotonic() >= commit_at:
                self._commit()
                commit_at = time.monotonic() + _COMMIT_S
        self._commit()
        self._consumer.close()

    def _create(self) -> None:
        """Create the target's topic with the source's number of partitions."""
        found = self._consumer.list_topics(self._topic, timeout=_TIMEOUT_S).topics[self._topic]
        new = NewTopic(self._remote, len(found.partitions), 1)
        try:
            self._admin.create_topics([new])[self._remote].result(_TIMEOUT_S)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise

    def _copy(self, message: Message) -> None:
        error, partition, offset = message.error(), message.partition(), message.offset()
        if error is not None or partition is None or offset is None:
            raise KafkaException(error)
        while True:
            try:
                self._producer.produce(
                    self._remote,
                    value=message.value(),
                    key=message.key(),
                    partition=partition,
                    timestamp=message.timestamp()[1],
                    headers=message.headers() or [],
                )
                break
            except BufferError:
                self._producer.poll(_CONSUME_S)
        self._next[partition] = offset + 1

    def _delivered(self, error: KafkaError | None, _message: Message) -> None:
        self._failure = self._failure or error

    def _commit(self) -> None:
        if not self._next:
            return
        left = self._producer.flush(_TIMEOUT_S)
        if left or self._failure is not None:
            raise RuntimeError(f"{left} records were not delivered: {self._failure}")
        reached = [TopicPartition(self._topic, p, offset) for p, offset in self._next.items()]
        self._consumer.commit(offsets=reached, asynchronous=False)


def main(path: Path) -> None:
    properties = load_properties(path)
    alias = properties["clusters"].split(",")[0].strip()
    copier = Copier(
        alias,
        properties[f"{alias}->target.topics"],
        properties[f"{alias}.bootstrap.servers"],
        properties["target.bootstrap.servers"],
        properties.get("target.producer.compression.type", "none"),
    )
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, copier.stop)
    copier.run()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
