"""Producers of a trial, each on a thread of its own, that go on through everything.

Every record has a value that no other has; its content and what became of it are in the journal. A
record whose producing failed is never sent again: whether it is in the log is unknown.
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

from tests.support.chaos.journal import Fate, Journal, Written, fingerprint, identity
from tests.support.records.topics import unique

__all__ = ["FullRateWriter", "Writer", "full_rate", "idempotent", "plain", "transactional"]

_FLUSH_S = 60.0
_TRANSACTION_S = 20.0
_ROUND_S = 0.1
_PAUSE_AFTER_ERROR_S = 0.5
_ABORTED = 0.3
_KEYS = 25
_PADDING = b"abcdefghij" * 20
_RECORD_BYTES = 1_000
_NOISE = random.Random(0).randbytes(64 * 1024)
"""Long records are pieces of it, which do not compress."""
_QUEUE_KB = 16 * 1024
_POLL_EVERY = 200

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


def full_rate(servers: str) -> Settings:
    """Several large batches in flight for each partition."""
    own: Settings = {
        "enable.idempotence": True,
        "batch.size": 128 * 1024,
        "queue.buffering.max.kbytes": _QUEUE_KB,
    }
    return {**_common(servers), **own}


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
        self._fenced = False
        self._producer = self._new_producer()
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

    def add(self, topic: str, partition: int) -> None:
        """Write to this partition, too."""
        with self._gate:
            self._partitions.append((topic, partition))

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

    def _new_producer(self) -> Producer:
        """Without an `error_cb`, `poll` would raise a producer's fatal error, also in a writer that
        is about to replace it."""
        return Producer({**self._settings, "error_cb": self._note_error})

    def _note_error(self, error: KafkaError) -> None:
        self._fenced = self._fenced or error.fatal()

    def _renew(self) -> None:
        """Another producer, as an application that restarts has: until it can begin."""
        while not self._stop.is_set():
            self._producer.purge()
            self._producer.poll(0)
            self._producer = self._new_producer()
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
        value = self._value(topic, partition)
        key = b"k%d" % self._draw.randrange(_KEYS)
        headers = (("n", b"%d" % self._number),)
        now_ms = int(time.time() * 1000)
        written = Written(topic, partition, self.life, timestamp_ms=now_ms)
        written.content = fingerprint(key, value, now_ms, headers)
        self._journal.begin(identity(value), written)
        while not self._stop.is_set():
            try:
                self._producer.produce(
                    topic,
                    value=value,
                    key=key,
                    partition=partition,
                    headers=list(headers),
                    timestamp=now_ms,
                    on_delivery=lambda error, message: settle(written, error, message),
                )
                break
            except BufferError:
                self._producer.poll(0.5)
            except KafkaException:
                self._fenced = True
                break
        return written

    def _value(self, topic: str, partition: int) -> bytes:
        name = (self._name.encode(), topic.encode(), partition, self.life, self._number)
        return b"%s:%s-%d:%d:%d|" % name + self._padding()

    def _padding(self) -> bytes:
        return _PADDING[: self._draw.randrange(len(_PADDING))]

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


class FullRateWriter(Writer):
    """Writes as fast as the brokers take it, `burst_mb` at a time, every `every_s` seconds, until
    it has written `most_mb`: the target's disks are small."""

    def __init__(
        self,
        journal: Journal,
        settings: Settings,
        partitions: Sequence[tuple[str, int]],
        *,
        burst_mb: float,
        every_s: float,
        most_mb: float,
        seed: int = 0,
    ) -> None:
        super().__init__(journal, settings, partitions, seed=seed)
        self._records = int(burst_mb * 1e6 / _RECORD_BYTES)
        self._bursts = int(most_mb / burst_mb)
        self._every_s = every_s
        self._next = time.monotonic()

    def _plain_round(self) -> None:
        if self._bursts and time.monotonic() >= self._next:
            self._bursts -= 1
            self._next = time.monotonic() + self._every_s
            for number in range(self._records):
                if self._stop.is_set() or self._fenced:
                    break
                topic, partition = self._partitions[number % len(self._partitions)]
                self._send(topic, partition, self._settle)
                if number % _POLL_EVERY == 0:
                    self._producer.poll(0)
        self._producer.poll(0)
        if self._fenced:
            self._renew()

    def _padding(self) -> bytes:
        start = self._draw.randrange(len(_NOISE) - _RECORD_BYTES)
        return _NOISE[start : start + _RECORD_BYTES]
