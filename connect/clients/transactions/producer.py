"""A transactional producer whose calls can be interrupted.

librdkafka's blocking calls are cut into slices, each of which continues the last one, so that the
caller decides how long to wait for an unreachable cluster.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future

import confluent_kafka

from connect.clients.errors import from_librdkafka, translated
from connect.clients.librdkafka.record_sender import (
    Delivered,
    RecordSender,
    transactional_properties,
)
from connect.clients.transactions.remedies import transaction_timeout, with_transaction_remedy
from connect.clock import SYSTEM_CLOCK, Clock, Deadline
from connect.errors import ConnectError, RetriableError
from connect.plugin import RecordMetadata
from connect.protocol.error_codes import ErrorCode

__all__ = ["KeepTrying", "ProducerFenced", "TransactionalProducer"]

_log = logging.getLogger(__name__)

KeepTrying = Callable[[], bool]
"""Returns whether to go on. Called every few seconds while the cluster does not answer."""

_SLICE_S = 0.5
# The time between two log lines about the same wait.
_SAY_S = 30.0
_FLUSH_S = 10.0
# The time to abort a transaction on close; otherwise it ends after transaction.timeout.ms.
_ABORT_AT_CLOSE_S = 2.0

_FENCED = frozenset(
    {
        confluent_kafka.KafkaError._FENCED,
        confluent_kafka.KafkaError.PRODUCER_FENCED,
        confluent_kafka.KafkaError.INVALID_PRODUCER_EPOCH,
    }
)


class ProducerFenced(ConnectError):
    """A newer producer has the transactional id, or the transaction timed out.

    Nothing of the open transaction was committed, and this producer can only be closed.
    """


class TransactionalProducer:
    """One producer, for one thread.

    `properties` are Java's; the transactional id, idempotence and delivery timeout are overridden.
    No connection is opened before `claim`. The owner calls `close` once.
    """

    def __init__(
        self, properties: Mapping[str, str], transactional_id: str, clock: Clock = SYSTEM_CLOCK
    ) -> None:
        given = properties.get("transactional.id", transactional_id)
        if given != transactional_id:
            _log.warning(
                "Ignoring transactional.id=%s: exactly-once uses %s",
                given,
                transactional_id,
            )
        self._id = transactional_id
        self._clock = clock
        self._properties = transactional_properties(properties, transactional_id)
        self._made: RecordSender | None = None
        self._open = False
        self._topics: set[str] = set()
        """The topics that the last transaction wrote to."""
        self._dead = False
        # An unfinished commit or abort; librdkafka accepts no other call until it is finished.
        self._ending = False

    @property
    def open(self) -> bool:
        """Whether a transaction is open."""
        return self._open

    def claim(self, keep_trying: KeepTrying) -> bool:
        """Fence earlier producers of the id and abort their open transactions. Call this first,
        once.

        Returns False if `keep_trying` ended the wait.
        """
        self._made = RecordSender(self._properties)
        return self._sliced(
            "Claiming the transactional id", self._sender.producer.init_transactions, keep_trying
        )

    def begin(self) -> None:
        """Begin a transaction, unless one is open. Raises `ProducerFenced`."""
        if self._open:
            return
        try:
            self._sender.producer.begin_transaction()
        except confluent_kafka.KafkaException as error:
            raise self._judged("Beginning a transaction", error) from error
        self._open = True
        self._topics.clear()

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
        """Queue a record of the open transaction, as `RecordSender.send` does."""
        self._topics.add(topic)
        try:
            self._sender.send(
                topic,
                key,
                value,
                delivered,
                partition=partition,
                timestamp_ms=timestamp_ms,
                headers=headers,
            )
        except ConnectError as error:
            cause = error.__cause__
            if isinstance(cause, confluent_kafka.KafkaException):
                raise self._judged(f"Producing to {topic}", cause) from error
            raise

    def send_future(
        self, topic: str, key: bytes | None, value: bytes | None
    ) -> Future[RecordMetadata]:
        """Wait for room in the queue, and queue a record of the open transaction."""
        self._topics.add(topic)
        try:
            return self._sender.send_future(topic, key, value)
        except RetriableError:
            self._sender.flush(Deadline(_FLUSH_S, self._clock))
            return self._sender.send_future(topic, key, value)

    def commit(self, keep_trying: KeepTrying) -> bool:
        """Wait for every record, and commit.

        Returns False if `keep_trying` ended the wait; the outcome is then unknown, and only
        `commit` may be called. Raises `ProducerFenced`, or the error that prevents the commit; then
        the transaction is aborted.
        """
        if self._sliced("Committing", self._sender.producer.commit_transaction, keep_trying):
            self._open = False
            return True
        return False

    def abort(self, keep_trying: KeepTrying) -> bool:
        """Abort the transaction. Returns False as `commit` does."""
        if self._sliced("Aborting", self._sender.producer.abort_transaction, keep_trying):
            self._open = False
            return True
        return False

    def close(self) -> None:
        """Close the connections, and abort an open transaction if that is possible at once."""
        if self._made is None:
            return
        if self._open and not self._dead and not self._ending:
            try:
                with translated(f"Aborting the last transaction of {self._id}"):
                    self._sender.producer.abort_transaction(_ABORT_AT_CLOSE_S)
            except ConnectError as error:
                _log.warning(
                    "%s; read_committed consumers wait until transaction.timeout.ms has passed",
                    error,
                )
        self._sender.close(Deadline(0.0, self._clock))

    @property
    def _sender(self) -> RecordSender:
        if self._made is None:
            raise ConnectError(f"The transactional id {self._id} was not claimed")
        return self._made

    def _sliced(self, what: str, call: Callable[[float], None], keep_trying: KeepTrying) -> bool:
        said = self._clock.monotonic()
        while True:
            try:
                call(_SLICE_S)
            except confluent_kafka.KafkaException as error:
                if not _resumable(error):
                    self._ending = False
                    raise self._judged(what, error) from error
                self._ending = True
                if not keep_trying():
                    return False
                if self._clock.monotonic() - said > _SAY_S:
                    said = self._clock.monotonic()
                    _log.warning("%s (%s) is still waiting: %s", what, self._id, error)
            else:
                self._ending = False
                return True

    def _judged(self, what: str, error: confluent_kafka.KafkaException) -> ConnectError:
        inner = error.args[0]
        if isinstance(inner, confluent_kafka.KafkaError):
            self._dead = self._dead or inner.fatal()
            if inner.code() in _FENCED:
                self._dead = True
                return ProducerFenced(
                    f"{what} failed: {inner.str()}. Another producer has claimed the transactional"
                    f" id {self._id}, as a newer run of the task does, or the transaction took"
                    f" longer than the producer's transaction.timeout.ms; in that case commit"
                    f" more often or raise the timeout"
                )
        told = from_librdkafka(error, f"{what} ({self._id})", self._needs(inner))
        return with_transaction_remedy(told, self._id, transaction_timeout(self._properties))

    def _needs(self, error: object) -> str | None:
        """Return what to grant if a topic was refused; the client does not say which."""
        if not isinstance(error, confluent_kafka.KafkaError) or not self._topics:
            return None
        if error.code() != ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            return None
        return f"Write on topic {' and on topic '.join(sorted(self._topics))}"


def _resumable(error: confluent_kafka.KafkaException) -> bool:
    inner = error.args[0]
    return isinstance(inner, confluent_kafka.KafkaError) and inner.retriable()
