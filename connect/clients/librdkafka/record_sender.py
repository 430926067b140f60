"""A producer with the thread that serves its callbacks.

librdkafka delivers acknowledgements only to a thread that polls. `RecordSender` owns that thread,
so that the sending thread may do other work and acknowledgements still arrive at once.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any

import confluent_kafka

from connect.clients.errors import from_librdkafka, translated
from connect.clients.librdkafka import factory
from connect.clients.librdkafka.login_refusals import LoginRefusals
from connect.clients.permissions import IDEMPOTENT_PRODUCER
from connect.clock import Deadline
from connect.errors import AuthenticationFailed, ConnectError
from connect.log_fields import OwnedThread
from connect.plugin import RecordMetadata

__all__ = ["Delivered", "RecordSender", "transactional_properties"]

_log = logging.getLogger(__name__)

Delivered = Callable[[ConnectError | None, RecordMetadata | None], None]
"""Called once for each record, on the sender's thread, with an error or the record's metadata."""

# The longest that the polling thread sleeps inside librdkafka; a delivery wakes it at once. When
# idle it sleeps longer: otherwise hundreds of idle tasks in one process use a fifth of a core.
_POLL_S = 0.1
_IDLE_POLL_S = 0.5
_ANY_PARTITION = -1
_PURGED = frozenset(
    {confluent_kafka.KafkaError._PURGE_QUEUE, confluent_kafka.KafkaError._PURGE_INFLIGHT}
)


def transactional_properties(
    properties: Mapping[str, str], transactional_id: str
) -> dict[str, str]:
    """Return a producer's Java properties with the settings that transactions require."""
    own = {
        **properties,
        "enable.idempotence": "true",
        "transactional.id": transactional_id,
    }
    # Deliveries end with their transaction: librdkafka refuses a longer delivery timeout.
    own.pop("delivery.timeout.ms", None)
    return own


class RecordSender:
    """Sends records through one librdkafka producer. Thread-safe.

    Callbacks run in the producer's order. The owner calls `close` once.
    """

    def __init__(
        self,
        props: Mapping[str, str],
        *,
        overrides: Mapping[str, Any] | None = None,
        needs_login: bool = False,
    ) -> None:
        """Create the producer. `props` are Java's, `overrides` librdkafka's.

        `needs_login`: records that wait while brokers refuse the login fail with
        `AuthenticationFailed`. Otherwise they wait for their delivery timeout.
        """
        client_id = props.get("client.id", "producer")
        self._refusals = LoginRefusals(props) if needs_login else None
        self._refusal: AuthenticationFailed | None = None
        self._fatal: confluent_kafka.KafkaException | None = None
        """Why the producer can send nothing more: its own errors say only that it cannot."""
        if self._refusals is not None:
            overrides = {**self._refusals.librdkafka_config(), **(overrides or {})}
        self._librdkafka_log = factory.LibrdkafkaLog(client_id)
        # Held while a record is queued, so that `close` flushes it or `send` raises.
        self._sending = threading.Lock()
        producer = factory.producer(props, overrides=overrides, log=self._librdkafka_log)
        self._producer: confluent_kafka.Producer | None = producer
        self._stopping = threading.Event()
        self._thread = OwnedThread(partial(self._serve, producer), f"sender-{client_id}")
        self._thread.start()

    @property
    def producer(self) -> confluent_kafka.Producer:
        """The producer, for transactions. This sender polls and closes it.

        Raises `ConnectError` after `close`.
        """
        producer = self._producer
        if producer is None:
            raise ConnectError(f"{self._thread.name} is closed")
        return producer

    def send(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        delivered: Delivered,
        *,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Sequence[tuple[str, bytes | None]] = (),
    ) -> None:
        """Queue one record.

        `partition` None lets the key decide, as in Java. `timestamp_ms` None means now, and
        librdkafka treats 0 as now, too. Raises `RetriableError` if the producer's queue is full,
        and errors that librdkafka reports at once; then `delivered` is not called.
        """

        def on_delivery(
            error: confluent_kafka.KafkaError | None, message: confluent_kafka.Message
        ) -> None:
            if error is not None:
                delivered(self._failure(error, topic), None)
            else:
                self._accepted()
                delivered(None, _metadata(message))

        with translated(f"Producing to {topic}"), self._sending:
            try:
                self.producer.produce(
                    topic,
                    value,
                    key,
                    partition=_ANY_PARTITION if partition is None else partition,
                    on_delivery=on_delivery,
                    timestamp=timestamp_ms or 0,
                    headers=list(headers) if headers else None,
                )
            except confluent_kafka.KafkaException as error:
                raise self._failure(error.args[0], topic) from error

    def send_future(
        self, topic: str, key: bytes | None, value: bytes | None, **place: Any
    ) -> Future[RecordMetadata]:
        """Queue one record. The future has its metadata or the error. Keywords are as in `send`."""
        future: Future[RecordMetadata] = Future()

        def delivered(error: ConnectError | None, metadata: RecordMetadata | None) -> None:
            if error is not None:
                future.set_exception(error)
            elif metadata is not None:
                future.set_result(metadata)

        self.send(topic, key, value, delivered, **place)
        return future

    def need_login(self) -> None:
        """Raise `AuthenticationFailed` if brokers refuse the login; takes a few seconds at most.

        For calls of the producer that wait for no record. Needs a sender with `needs_login`.
        """
        refusal = None if self._refusals is None else self._refusals.ask()
        if refusal is not None:
            raise refusal

    def flush(self, deadline: Deadline) -> bool:
        """Wait until everything queued was delivered or failed. Return False after the deadline."""
        return _flushed(self.producer, deadline.remaining())

    def close(self, deadline: Deadline) -> None:
        """Flush until the deadline, fail the rest, and close the connections.

        Callbacks of failed records get an error. If no time is left, the thread and the connections
        end a moment later. May be called again.
        """
        self._librdkafka_log.closing = True
        with self._sending:
            producer, self._producer = self._producer, None
        if producer is None:
            return
        delivered = _flushed(producer, deadline.remaining())
        if not delivered:
            producer.purge()
            _flushed(producer, _POLL_S)
        self._stopping.set()
        # librdkafka's threads and memory are freed with the last reference, which is the thread's.
        # The owner of this sender may be part of a reference cycle, which Python collects only now
        # and then.
        del producer
        self._thread.join(deadline.remaining() if delivered else 2 * _POLL_S)
        if not delivered and self._thread.is_alive():
            _log.warning(
                "%s did not stop, because a delivery callback is blocked; nothing has to "
                "be done: it ends with the process",
                self._thread.name,
            )

    def _serve(self, producer: confluent_kafka.Producer) -> None:
        pause_s = _POLL_S
        while not self._stopping.is_set():
            try:
                self._fail_refused(producer)
                pause_s = _POLL_S if producer.poll(pause_s) else _IDLE_POLL_S
            except confluent_kafka.KafkaException as error:
                # The error is fatal: the next call of the producer fails.
                _log.debug("%s: %s", self._thread.name, error)
                self._fatal = error
                self._stopping.wait(_POLL_S)
            except Exception:  # noqa: BLE001 - the top of a thread; a callback's error lands here
                _log.exception(
                    "%s: a delivery callback or the probe failed; this is a defect: report it with "
                    "the trace",
                    self._thread.name,
                )
        if self._refusals is not None:
            self._refusals.close()

    def _fail_refused(self, producer: confluent_kafka.Producer) -> None:
        """Fail all records that wait, if brokers refuse the login."""
        if self._refusals is None:
            return
        refusal = self._refusals.step(waiting=len(producer) > 0)
        if refusal is not None:
            self._refusal = refusal
            producer.purge()

    def _failure(self, error: confluent_kafka.KafkaError, topic: str) -> ConnectError:
        what = f"Producing to {topic}"
        if self._refusal is not None and error.code() in _PURGED:
            return AuthenticationFailed(f"{what} failed: {self._refusal}")
        if self._fatal is not None and error.code() == confluent_kafka.KafkaError._FATAL:
            cause = from_librdkafka(self._fatal, what, IDEMPOTENT_PRODUCER)
            return ConnectError(str(cause)) if cause.retriable else cause
        return from_librdkafka(error, what, f"Write on topic {topic}")

    def _accepted(self) -> None:
        self._refusal = None
        if self._refusals is not None:
            self._refusals.answered()


def _flushed(producer: confluent_kafka.Producer, seconds: float) -> bool:
    try:
        return bool(producer.flush(seconds) == 0)
    except confluent_kafka.KafkaException as error:
        # Any call of a transactional producer may raise its fatal error.
        _log.debug("Flushing: %s", error)
        return False


def _metadata(message: confluent_kafka.Message) -> RecordMetadata:
    offset = message.offset()
    return RecordMetadata(
        topic=message.topic() or "",
        partition=message.partition() or 0,
        offset=-1 if offset is None else offset,
        timestamp_ms=message.timestamp()[1],
    )
