"""Producers of a trial, each on a thread of its own, that go on through everything.

Every record has a value that no other has; what became of it is written in the journal. A record
whose producing failed is never sent again: whether it is in the log is unknown.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Self

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from tests.support.chaos.journal import Fate, Journal, Written
from tests.support.topics import unique

__all__ = ["Writer", "idempotent", "plain", "transactional"]

_FLUSH_S = 60.0
_TRANSACTION_S = 20.0
_ROUND_S = 0.1
_PAUSE_AFTER_ERROR_S = 0.5
_ABORTED = 0.3
_KEYS = 25
_PADDING = b"abcdefghij" * 20

Settings = dict[str, str | int | float | bool]


def _common(servers: str) -> Settings:
    return {
        "bootstrap.servers": servers,
        "acks": "all",
        "linger.ms": 5,
        "topic.metadata.refresh.interval.ms": 2_000,
        "reconnect.backoff.max.ms": 500,
        "socket.timeout.ms": 5_000,
        "log_level": 0,
    }


def plain(servers: str) -> Settings:
    """One try for each record, one request at a time: not out of order, and doubled only where a
    leader refused what its followers had."""
    once: Settings = {"retries": 0, "max.in.flight": 1, "delivery.timeout.ms": 5_000}
    return {**_common(servers), **once, "request.timeout.ms": 4_000}


def idempotent(servers: str) -> Settings:
    return {**_common(servers), "enable.idempotence": True, "compression.type": "lz4"}


def transactional(servers: str) -> Settings:
    own: Settings = {"transactional.id": unique("chaos"), "transaction.timeout.ms": 30_000}
    return {**_common(servers), "enable.idempotence": True, **own}


class Writer:
    """Writes to `partitions` while it is open, `burst` records to each about ten times a second.
    Leaving it waits until every record's fate is known."""

    def __init__(
        self,
        journal: Journal,
        settings: Settings,
        partitions: Sequence[tuple[str, int]],
        *,
        burst: int = 3,
        seed: int = 0,
    ) -> None:
        self.life = 0
        self._journal = journal
        self._settings = settings
        self._partitions = list(partitions)
        self._burst = burst
        self._draw = random.Random(seed)
        self._name = unique("w")
        self._number = 0
        self._gate = threading.Lock()
        self._stop = threading.Event()
        self._producer = Producer(settings)
        self._fenced = False
        self._failure: Exception | None = None
        self._thread = threading.Thread(target=self._run, name=f"writer-{self._name}")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()
        if self._failure is not None and error is None:
            raise self._failure

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(2 * _FLUSH_S + _TRANSACTION_S)
        assert not self._thread.is_alive(), self._name
        self._producer.purge()
        self._producer.poll(0)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Writes nothing meanwhile, and has written what it began."""
        with self._gate:
            self._producer.flush(_FLUSH_S)
            yield

    def _run(self) -> None:
        try:
            one_round = self._plain_round
            if "transactional.id" in self._settings:
                one_round = self._transaction
                self._renew()
            while not self._stop.wait(_ROUND_S):
                with self._gate:
                    one_round()
            self._producer.flush(_FLUSH_S)
        except Exception as error:  # noqa: BLE001 - raised again by the trial's thread
            self._failure = error

    def _plain_round(self) -> None:
        for topic, partition in self._partitions:
            for _ in range(self._burst):
                self._send(topic, partition, self._settle)
        self._producer.poll(0)
        if self._fenced:
            self._renew()

    def _settle(self, written: Written, error: KafkaError | None, message: Message) -> None:
        if error is None:
            written.fate, written.offset = Fate.ACKNOWLEDGED, message.offset()
        elif error.fatal():
            self._fenced = True

    def _renew(self) -> None:
        """Another producer, as an application that restarts has: until it can begin."""
        while not self._stop.is_set():
            self._producer.purge()
            self._producer.poll(0)
            self._producer = Producer(self._settings)
            self._fenced = False
            if "transactional.id" not in self._settings:
                return
            with suppress(KafkaException):
                self._producer.init_transactions(_TRANSACTION_S)
                return
            self._stop.wait(_PAUSE_AFTER_ERROR_S)

    def _send(
        self,
        topic: str,
        partition: int,
        settle: Callable[[Written, KafkaError | None, Message], None],
    ) -> Written:
        self._number += 1
        value = b"%s:%s-%d:%d:%d|" % (
            self._name.encode(),
            topic.encode(),
            partition,
            self.life,
            self._number,
        )
        value += _PADDING[: self._draw.randrange(len(_PADDING))]
        written = Written(topic, partition, self.life)
        self._journal.begin(value, written)
        while not self._stop.is_set():
            try:
                self._producer.produce(
                    topic,
                    value=value,
                    key=b"k%d" % self._draw.randrange(_KEYS),
                    partition=partition,
                    headers=[("n", b"%d" % self._number)],
                    timestamp=int(time.time() * 1000),
                    on_delivery=lambda error, message: settle(written, error, message),
                )
                break
            except BufferError:
                self._producer.poll(0.5)
            except KafkaException:
                self._fenced = True
                break
        return written

    def _transaction(self) -> None:
        """One transaction, of which three in ten are aborted after all of it is in the log."""
        sent: list[Written] = []

        def settle(written: Written, error: KafkaError | None, message: Message) -> None:
            if error is None:
                written.offset = message.offset()

        try:
            self._producer.begin_transaction()
            for topic, partition in self._partitions:
                for _ in range(self._burst):
                    sent.append(self._send(topic, partition, settle))
            abort = self._draw.random() < _ABORTED
            if self._producer.flush(_TRANSACTION_S):
                abort = True
            self._end(abort, sent)
        except KafkaException:
            self._abandon(sent)

    def _end(self, abort: bool, sent: Sequence[Written]) -> None:
        """Try again what may be tried again; what then stays open is unknown."""
        while True:
            try:
                if abort:
                    self._producer.abort_transaction(_TRANSACTION_S)
                else:
                    self._producer.commit_transaction(_TRANSACTION_S)
            except KafkaException as error:
                if error.args[0].retriable() and not self._stop.is_set():
                    continue
                raise
            for written in sent:
                written.fate = Fate.ABORTED if abort else Fate.ACKNOWLEDGED
            return

    def _abandon(self, sent: Sequence[Written]) -> None:
        try:
            self._end(True, sent)
        except KafkaException:
            for written in sent:
                written.fate = Fate.UNKNOWN
            self._stop.wait(_PAUSE_AFTER_ERROR_S)
            self._renew()
