"""Produces numbered records at a steady rate, from a process of its own.

    python -m tests.benchmarks.pacer SERVERS TOPIC RATE COUNT

Each value begins with `number int64 | monotonic nanoseconds when it was given to the producer
int64`; Linux's monotonic clock is the same in all processes.
"""

from __future__ import annotations

import struct
import sys
import time

from confluent_kafka import KafkaError, Message, Producer

__all__ = ["STAMP"]

STAMP = struct.Struct(">qq")
VALUE_BYTES = 545
_FLUSH_S = 30.0


def main(servers: str, topic: str, rate: int, count: int) -> int:
    """Returns 1 if a record was not delivered."""
    failures: list[KafkaError] = []

    def delivered(error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            failures.append(error)

    producer = Producer(
        {
            "bootstrap.servers": servers,
            "linger.ms": 0,
            "socket.nagle.disable": True,
            "enable.idempotence": True,
        }
    )
    padding = b"." * (VALUE_BYTES - STAMP.size)
    producer.list_topics(topic, timeout=_FLUSH_S)
    start = time.monotonic()
    for number in range(count):
        pause = start + number / rate - time.monotonic()
        if pause > 0:
            time.sleep(pause)
        stamp = STAMP.pack(number, time.monotonic_ns())
        producer.produce(topic, stamp + padding, partition=0, on_delivery=delivered)
        producer.poll(0)
    left = producer.flush(_FLUSH_S)
    return 1 if left or failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
