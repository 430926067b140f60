"""A client of the transaction coordinator for one transactional id. The caller writes the batches.

InitProducerId claims the id, AddPartitionsToTxn opens a transaction and adds partitions to it, and
EndTxn ends it. The versions are those before KIP-890's second part (AddPartitionsToTxn up to 3,
EndTxn up to 4): every broker supports them, and the producer's epoch stays the same between
commits. Current brokers verify each partition's first batch with the coordinator. After an abort
the epoch is bumped (KIP-360), so that no delayed batch gets into a later transaction.

Requests are made one after the other on a thread of its own. Retriable errors (a coordinator that
moves or is unreachable, a transaction whose markers are still being written) are retried without
end, and `trouble` holds the reason.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from kafka.protocol.producer import (
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    InitProducerIdRequest,
)

from connect.clients.config.settings import WireSettings
from connect.clients.errors import error_from_code
from connect.clients.transactions.producer import ProducerFenced
from connect.clients.transactions.remedies import with_transaction_remedy
from connect.clients.wire.api_versions import ApiNeed, BrokerApis
from connect.clients.wire.cancellation import Cancellation
from connect.clients.wire.connection import WireConnection, open_connection
from connect.clients.wire.find_coordinator import Coordinated, any_broker, coordinator_address
from connect.clock import SYSTEM_CLOCK, Clock, Deadline
from connect.errors import BrokerError, BrokerUnavailable, ConnectError, RetriableBrokerError
from connect.futures import run_into
from connect.log_fields import OwnedThread
from connect.loop import Backoff
from connect.protocol.error_codes import ErrorCode, code_facts
from connect.topic_partition import TopicPartition, by_topic

__all__ = ["CLAIM", "AbortableTransactionError", "ProducerIdentity", "TransactionCoordinator"]

T = TypeVar("T")
_log = logging.getLogger(__name__)

_ADD_VERSION, _END_VERSION, _INIT_VERSION = 3, 4, 5

CLAIM = ApiNeed(InitProducerIdRequest.API_KEY, "InitProducerId", 3, _INIT_VERSION)
"""The first InitProducerId version that carries the producer's epoch (KIP-360, Kafka 2.5). With an
older one, a fenced producer could take the id back from its successor after an abort, unnoticed.
"""


_FENCED = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED})
_OF_A_PARTITION = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.OPERATION_NOT_ATTEMPTED,
    }
)
_SPOILT = frozenset(
    {
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.TRANSACTION_ABORTABLE,
    }
)
_NOTHING_TO_ABORT = frozenset({ErrorCode.INVALID_TXN_STATE, *_SPOILT})
_ELSEWHERE = frozenset({ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR})

# A transaction's markers are written within milliseconds after its end; then the next can begin.
_MARKERS_FIRST_S, _MARKERS_CAP_S = 0.002, 0.05
_RETRY_FIRST_S, _RETRY_CAP_S = 0.05, 1.0
_TROUBLE_S, _SAY_S = 5.0, 30.0
# Any broker knows the coordinator, so one that is silent for this long is not waited for.
_FIND_S = 10.0
# The time to abort a transaction on close; otherwise it ends after transaction.timeout.ms.
_ABORT_AT_CLOSE_S = 2.0
_JOIN_S = 1.0


class AbortableTransactionError(ConnectError):
    """The open transaction was not committed, cannot be any more, and must be aborted."""

    abortable = True


@dataclass(frozen=True, slots=True)
class ProducerIdentity:
    """The producer id and epoch for record batches."""

    producer_id: int
    epoch: int


class TransactionCoordinator:
    """The transaction coordinator client. It opens no connection before `claim`.

    Public methods may be called from any thread. Only `close` blocks; futures complete on the
    client's own thread. A future fails with `ProducerFenced` if another producer has the id or the
    transaction timed out, and with `AbortableTransactionError` if the transaction must be aborted.
    Any other error is fatal.
    """

    def __init__(
        self,
        settings: WireSettings,
        transactional_id: str,
        timeout_ms: int,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self.transactional_id = transactional_id
        self._settings = settings
        self._timeout_ms = timeout_ms
        self._clock = clock
        self._cancellation = Cancellation()
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._connection: WireConnection | None = None
        self._rotation = 0
        self._identity: ProducerIdentity | None = None
        self._open = False
        self._closed = False
        self.trouble: str | None = None
        """Why the request in progress has no response yet; None if it has no problem."""

    @property
    def identity(self) -> ProducerIdentity:
        """The identity with the current epoch. Raises `ConnectError` before `claim` is done."""
        if self._identity is None:
            raise ConnectError(f"The transactional id {self.transactional_id} was not claimed")
        return self._identity

    def claim(self) -> Future[None]:
        """Fence earlier producers of the id and abort their open transactions."""
        return self._submit(lambda: self._init(None))

    def adopt(self, identity: ProducerIdentity) -> None:
        """Use a producer id and epoch from elsewhere, instead of calling `claim`.

        No transaction may be open.
        """
        self._identity = identity

    def confirm(self) -> Future[None]:
        """Check that no other producer has claimed the id; fails with `ProducerFenced` otherwise.

        `identity` changes. Call it only while no transaction is open.
        """
        return self._submit(lambda: self._init(self.identity))

    def add(self, partitions: Collection[TopicPartition]) -> Future[Mapping[TopicPartition, int]]:
        """Add partitions to the transaction; the first call begins it.

        Returns protocol error codes, 0 for success. If one partition is refused, none is added.
        """
        wanted = tuple(partitions)
        return self._submit(lambda: self._add(wanted))

    def commit(self) -> Future[None]:
        """Commit the transaction, after all of its batches were acknowledged."""
        return self._submit(self._commit)

    def abort(self) -> Future[None]:
        """Abort the transaction, if one is open. `identity` changes, and sequence numbers start
        again at 0.
        """
        return self._submit(self._abort)

    def close(self) -> None:
        """End the thread and close the connection, and abort an open transaction within two
        seconds.

        The abort saves consumers the wait for the transaction timeout. May be called again.
        """
        if self._closed:
            return
        self._closed = True
        self._cancellation.cancel()
        self._jobs.put(None)
        if self._thread is not None:
            self._thread.join(_ABORT_AT_CLOSE_S + _JOIN_S)
            if self._thread.is_alive():
                _log.warning(
                    "%s did not stop in time; nothing has to be done: it ends with the process",
                    self._thread.name,
                )
                return
        self._cancellation.close()

    # The coordinator's thread.

    def _submit(self, step: Callable[[], T]) -> Future[T]:
        future: Future[T] = Future()
        if self._closed:
            future.set_exception(BrokerUnavailable(f"{self.transactional_id} is closed"))
            return future
        if self._thread is None:
            self._thread = OwnedThread(self._run, f"transactions-{self.transactional_id}")
            self._thread.start()
        self._jobs.put(lambda: run_into(future, lambda: self._until_done(step)))
        return future

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()
        try:
            if self._open:
                self._abort_at_close()
        finally:
            self._disconnect()

    def _abort_at_close(self) -> None:
        self._disconnect()
        deadline = Deadline(_ABORT_AT_CLOSE_S, self._clock)
        try:
            with closing(self._connect(deadline, None)) as connection:
                connection.call(self._end_request(connection, committed=False), deadline)
        except ConnectError as error:
            _log.warning(
                "Cannot abort the last transaction of %s: %s; read_committed consumers wait"
                " until transaction.timeout.ms has passed",
                self.transactional_id,
                error,
            )

    def _until_done(self, step: Callable[[], T]) -> T:
        markers = Backoff(_MARKERS_FIRST_S, _MARKERS_CAP_S)
        others = Backoff(_RETRY_FIRST_S, _RETRY_CAP_S)
        began = said = self._clock.monotonic()
        while True:
            if self._closed:
                raise BrokerUnavailable(f"{self.transactional_id} is closed")
            try:
                result = step()
            except ConnectError as error:
                if not error.retriable:
                    self.trouble = None
                    raise
                code = error.code if isinstance(error, RetriableBrokerError) else None
                if code is None or code in _ELSEWHERE:
                    self._disconnect()
                now = self._clock.monotonic()
                if now - said > _SAY_S:
                    said = now
                    _log.warning("%s is still waiting: %s", self.transactional_id, error)
                if now - began > _TROUBLE_S:
                    self.trouble = str(error)
                waits = markers if code == ErrorCode.CONCURRENT_TRANSACTIONS else others
                self._cancellation.wait(waits.next())
            else:
                self.trouble = None
                return result

    # Requests, on the coordinator's thread.

    def _init(self, current: ProducerIdentity | None) -> None:
        connection = self._coordinator()
        lack = BrokerApis(str(connection), connection.api_versions).lacks(CLAIM)
        if lack is not None:
            raise BrokerError(
                f"Broker {connection} does not support exactly-once: it {lack} (KIP-360)."
                f" Upgrade the"
                " cluster to Kafka 2.5 or newer, or turn exactly.once.source.support off",
                ErrorCode.UNSUPPORTED_VERSION,
            )
        request = InitProducerIdRequest(
            version=connection.version_of(InitProducerIdRequest.API_KEY, _INIT_VERSION),
            transactional_id=self.transactional_id,
            transaction_timeout_ms=self._timeout_ms,
            producer_id=-1 if current is None else current.producer_id,
            producer_epoch=-1 if current is None else current.epoch,
        )
        answer = self._call(connection, request)
        self._judge(answer.error_code, "Claiming the transactional id")
        self._identity = ProducerIdentity(answer.producer_id, answer.producer_epoch)
        self._open = False

    def _add(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        connection = self._coordinator()
        identity = self.identity
        request = AddPartitionsToTxnRequest(
            version=connection.version_of(AddPartitionsToTxnRequest.API_KEY, _ADD_VERSION),
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=identity.producer_id,
            v3_and_below_producer_epoch=identity.epoch,
            v3_and_below_topics=[
                AddPartitionsToTxnRequest.AddPartitionsToTxnTopic(name=name, partitions=numbers)
                for name, numbers in by_topic(partitions).items()
            ],
        )
        # Set also if the response was lost, because the transaction may have begun.
        self._open = True
        answer = self._call(connection, request)
        codes = {
            (topic.name, result.partition_index): int(result.partition_error_code)
            for topic in answer.results_by_topic_v3_and_below
            for result in topic.results_by_partition
        }
        for code in codes.values():
            if code not in _OF_A_PARTITION:
                self._judge(code, "Adding partitions to the transaction")
        return codes

    def _commit(self) -> None:
        self._judge(self._end(committed=True), "Committing")
        self._open = False

    def _abort(self) -> None:
        if self._open:
            code = self._end(committed=False)
            if code not in _NOTHING_TO_ABORT:
                self._judge(code, "Aborting")
            self._open = False
        self._init(self.identity)

    def _end(self, *, committed: bool) -> int:
        connection = self._coordinator()
        return int(
            self._call(connection, self._end_request(connection, committed=committed)).error_code
        )

    def _end_request(self, connection: WireConnection, *, committed: bool) -> Any:
        return EndTxnRequest(
            version=connection.version_of(EndTxnRequest.API_KEY, _END_VERSION),
            transactional_id=self.transactional_id,
            producer_id=self.identity.producer_id,
            producer_epoch=self.identity.epoch,
            committed=committed,
        )

    def _judge(self, code: int, what: str) -> None:
        """Raise the exception for an error code; return for 0."""
        if code == 0:
            return
        what = f"{what} ({self.transactional_id})"
        if code in _FENCED:
            self._open = False
            raise ProducerFenced(
                f"{what} failed: {code_facts(code).name}. Another producer has claimed the"
                " transactional id, as a newer run of the task does, or the transaction took longer"
                " than the producer's transaction.timeout.ms"
            )
        if code in _SPOILT:
            raise AbortableTransactionError(f"{what} failed: {code_facts(code).name}")
        raise self._with_remedy(error_from_code(code, what))

    # The connection, on the coordinator's thread.

    def _call(self, connection: WireConnection, request: Any) -> Any:
        limit = Deadline(self._settings.request_timeout_ms / 1000, self._clock)
        return connection.call(request, limit)

    def _coordinator(self) -> WireConnection:
        if self._connection is None:
            limit = Deadline(self._settings.request_timeout_ms / 1000, self._clock)
            self._connection = self._connect(limit, self._cancellation)
        return self._connection

    def _connect(self, limit: Deadline, cancellation: Cancellation | None) -> WireConnection:
        servers = self._settings.bootstrap
        first = self._rotation % max(1, len(servers))
        self._rotation += 1  # The next attempt uses another broker.
        asked = replace(self._settings, bootstrap=(*servers[first:], *servers[:first]))
        soon = Deadline(min(_FIND_S, limit.remaining()), self._clock)
        with closing(any_broker(asked, soon, cancellation)) as connection:
            address = coordinator_address(
                connection, Coordinated.TRANSACTION, self.transactional_id, soon
            )
        return open_connection(*address, self._settings, limit, cancellation)

    def _with_remedy(self, error: ConnectError) -> ConnectError:
        return with_transaction_remedy(error, self.transactional_id, str(self._timeout_ms))

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
