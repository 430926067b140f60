"""A producer that writes at a steady rate until it is told to stop, in three manners at once."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Self

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from tests.support.records.topics import unique

__all__ = ["SteadyWriter"]

_TIMEOUT_S = 120.0
_PAUSE_S = 0.02


class SteadyWriter:
    """Writes rounds of records to a plain topic (2 partitions), a transactional one and one whose
    keys come again, about 30 rounds a second, while it is open. No two records of a partition have
    the same value. An error of producing is raised at the end.

    Brokers may go and come back meanwhile: what cannot be written waits.
    """

    def __init__(self, servers: str, plain: str, transactional: str, keyed: str) -> None:
        common = {
            "bootstrap.servers": servers,
            "enable.idempotence": True,
            "linger.ms": 2,
            "delivery.timeout.ms": int(_TIMEOUT_S * 1000),
            "reconnect.backoff.max.ms": 500,
            "log_level": 0,
        }
        self._plain = Producer({**common, "compression.type": "lz4"})
        self._transactional = Producer(
            {
                **common,
                "transactional.id": unique("steady"),
                "transaction.timeout.ms": int(_TIMEOUT_S * 1000),
            }
        )
        self._topics = (plain, transactional, keyed)
        self._stop = threading.Event()
        self._error: Exception | None = None
        self._delivery_error: KafkaError | None = None
        self._thread = threading.Thread(target=self._run, name="steady-writer")
        self.rounds = 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        self._thread.join(2 * _TIMEOUT_S)
        assert not self._thread.is_alive()
        for producer in (self._plain, self._transactional):
            producer.purge()
            producer.poll(0)
        if self._error is not None and error is None:
            raise self._error

    def _run(self) -> None:
        try:
            self._transactional.init_transactions(_TIMEOUT_S)
            while not self._stop.is_set():
                self._round(self.rounds)
                self.rounds += 1
                self._stop.wait(_PAUSE_S)
            if left := self._plain.flush(_TIMEOUT_S):
                raise TimeoutError(f"{left} records were not written")
            if self._delivery_error is not None:
                raise KafkaException(self._delivery_error)
        except Exception as error:  # noqa: BLE001 - raised again by the test's thread
            self._error = error

    def _round(self, n: int) -> None:
        plain, transactional, keyed = self._topics
        for k in range(30):
            self._send(self._plain, plain, k % 2, b"k%d" % k, b"%d-%d" % (n, k))
        for k in range(20):
            self._send(self._plain, keyed, 0, b"k%d" % k, b"%d-%d" % (n, k))
        self._transactional.begin_transaction()
        for k in range(5):
            self._send(self._transactional, transactional, 0, None, b"%d-%d" % (n, k))
        if n % 4 == 3:
            # Only what was flushed is in the log, to be left out by those who read it.
            self._transactional.flush(_TIMEOUT_S)
            self._transactional.abort_transaction(_TIMEOUT_S)
        else:
            self._transactional.commit_transaction(_TIMEOUT_S)

    def _send(
        self, producer: Producer, topic: str, partition: int, key: bytes | None, value: bytes
    ) -> None:
        while True:
            try:
                producer.produce(
                    topic, value=value, key=key, partition=partition, on_delivery=self._delivered
                )
            except BufferError:
                producer.poll(1.0)
                continue
            producer.poll(0)
            return

    def _delivered(self, error: KafkaError | None, _message: Message) -> None:
        self._delivery_error = self._delivery_error or error
