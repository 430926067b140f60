"""Produces the demo's events, in its own process so that it does not disturb the demo.

    python -m deploy.demo.producer backlog BOOTSTRAP_SERVERS    all backlogs, then exit 0
    python -m deploy.demo.producer steady BOOTSTRAP_SERVERS     the steady rate, until SIGTERM

If the cluster does not acknowledge records within `_FLUSH_S`, the producer prints one line on
stderr and exits with status 1.
"""

from __future__ import annotations

import random
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from deploy.demo.events import TOPICS, DemoTopic

_FLUSH_S = 60.0
_TICK_S = 0.02
_TRANSACTION_S = 0.5
_TRANSACTION_RECORDS = 200
_ABORTED_OF_TEN = 1
BACKLOG_SPAN_MS = 30 * 60 * 1000
"""The backlog's timestamps cover the last half hour."""
_POLL_EVERY = 1_000


class _Feed:
    """One topic's producer and its next event. Used by one thread."""

    def __init__(self, topic: DemoTopic, servers: str, first: int, stop: threading.Event) -> None:
        self.topic = topic
        self._dice = random.Random(first)
        self._next = first
        self._stop = stop
        self._error: KafkaError | None = None
        settings: dict[str, str | int | bool] = {
            "bootstrap.servers": servers,
            "client.id": f"demo-{topic.name}",
            "compression.type": topic.compression,
            "enable.idempotence": True,
            "partitioner": "murmur2_random",
            "linger.ms": 5,
            "log_level": 3,
            "batch.size": 65_536,
            "queue.buffering.max.messages": 100_000,
        }
        if topic.transactional:
            settings["transactional.id"] = f"demo-{topic.name}-{first}"
        self._producer = Producer(settings)
        if topic.transactional:
            self._producer.init_transactions(_FLUSH_S)

    def _delivered(self, error: KafkaError | None, _message: Message) -> None:
        self._error = self._error or error

    def send(self, count: int, timestamp_ms: Callable[[int], int] | None = None) -> None:
        """Produce `count` events. `timestamp_ms` returns the timestamp of the i-th event."""
        for index in range(count):
            key, value = self.topic.make(self._next, self._dice)
            self._next += 1
            at = int(time.time() * 1000) if timestamp_ms is None else timestamp_ms(index)
            while True:
                try:
                    self._producer.produce(
                        self.topic.name,
                        value,
                        key,
                        timestamp=at,
                        on_delivery=self._delivered,
                    )
                    break
                except BufferError:
                    self._producer.poll(0.1)
            if index % _POLL_EVERY == 0:
                self._producer.poll(0)
                if self._stop.is_set():
                    break
        self._producer.poll(0)
        self._check()

    def transaction(self, count: int, timestamp_ms: Callable[[int], int] | None = None) -> None:
        """Produce `count` events in one transaction; one transaction in ten is aborted."""
        self._producer.begin_transaction()
        self.send(count, timestamp_ms)
        self.flush()
        if self._dice.randrange(10) < _ABORTED_OF_TEN:
            self._producer.abort_transaction(_FLUSH_S)
        else:
            self._producer.commit_transaction(_FLUSH_S)

    def flush(self) -> None:
        if left := self._producer.flush(_FLUSH_S):
            raise _Failed(f"the cluster did not acknowledge {left} records for {self.topic.name}")
        self._check()

    def _check(self) -> None:
        if self._error is not None:
            raise _Failed(f"{self.topic.name}: {self._error.str()}")


class _Failed(Exception):
    """The cluster did not accept a record."""


def _backlog(servers: str, stop: threading.Event) -> None:
    for topic in TOPICS:
        feed = _Feed(topic, servers, 0, stop)
        begin_ms = int(time.time() * 1000) - BACKLOG_SPAN_MS
        step_ms = BACKLOG_SPAN_MS / topic.backlog
        chunk = _TRANSACTION_RECORDS if topic.transactional else topic.backlog
        for first in range(0, topic.backlog, chunk):
            if stop.is_set():
                return
            send = feed.transaction if topic.transactional else feed.send
            send(min(chunk, topic.backlog - first), _timeline(begin_ms + first * step_ms, step_ms))
        feed.flush()


def _timeline(begin_ms: float, step_ms: float) -> Callable[[int], int]:
    return lambda index: int(begin_ms + index * step_ms)


def _steady(servers: str, stop: threading.Event) -> None:
    """Produce to every topic at its rate. Transactions have their own thread, because a commit
    blocks."""
    plain = [_Feed(t, servers, t.backlog, stop) for t in TOPICS if not t.transactional]
    failures: list[Exception] = []

    def transactions() -> None:
        try:
            for topic in (t for t in TOPICS if t.transactional):
                feed = _Feed(topic, servers, topic.backlog, stop)
                while not stop.wait(_TRANSACTION_S):
                    feed.transaction(round(topic.rate * _TRANSACTION_S))
        except (KafkaException, _Failed) as error:
            failures.append(error)
            stop.set()

    thread = threading.Thread(target=transactions, name="transactions")
    thread.start()
    began = time.monotonic()
    sent = [0] * len(plain)
    try:
        while not stop.wait(_TICK_S):
            elapsed = time.monotonic() - began
            for index, feed in enumerate(plain):
                due = int(elapsed * feed.topic.rate)
                feed.send(due - sent[index])
                sent[index] = due
    finally:
        stop.set()
        thread.join()
    for feed in plain:
        feed.flush()
    if failures:
        raise failures[0]


def main(arguments: Sequence[str]) -> int:
    mode, servers = arguments
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda _number, _frame: stop.set())
    signal.signal(signal.SIGINT, lambda _number, _frame: stop.set())
    try:
        {"backlog": _backlog, "steady": _steady}[mode](servers, stop)
    except (KafkaException, _Failed) as error:
        print(f"The demo's producer failed: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
