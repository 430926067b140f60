"""The transactions of an exactly-once transfer task: implements `plugin.TransferTransactions`."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future

from connect.clients.transactions.coordinator import TransactionCoordinator
from connect.clients.transactions.producer import KeepTrying
from connect.clock import SYSTEM_CLOCK, Clock
from connect.errors import ConnectError
from connect.futures import done_future, settle
from connect.plugin import RecordMetadata, SourcePartition, StoredOffset, TopicPartition
from connect.runtime.offset_stores import TransactionalStore
from connect.runtime.source.exactly_once_task import ExactlyOncePlan
from connect.storage.offset_codec import encode_key, encode_value

__all__ = ["TaskTransactions", "TransactionalRecords"]

_LOOK_S = 0.1

_Records = list[tuple[bytes, bytes | None]]


class TransactionalRecords:
    """Replaces the producer of an offset store: keeps the records, which the task then writes."""

    def __init__(self) -> None:
        self._records: _Records = []

    def send(self, topic: str, key: bytes, value: bytes | None) -> Future[RecordMetadata]:
        self._records.append((key, value))
        return done_future(RecordMetadata(topic, -1, -1, -1))

    def take(self) -> _Records:
        taken, self._records = self._records, []
        return taken


class TaskTransactions:
    """The transactions of a transfer task. Opened by `claim`, closed once by its owner; both block.

    `measured` is called after each transaction with (milliseconds, records, whether it was
    committed).
    """

    def __init__(
        self,
        connector: str,
        plan: ExactlyOncePlan,
        coordinator: TransactionCoordinator,
        store: TransactionalStore,
        records: TransactionalRecords,
        *,
        timeout_s: float,
        boundary_s: float | None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self.transactional_id = plan.transactional_id
        self.offsets_topic = store.topic
        self.timeout_s = timeout_s
        self.boundary_s = boundary_s
        self.measured: deque[tuple[float, int, bool]] = deque()
        self._connector = connector
        self._plan = plan
        self._coordinator = coordinator
        self._store = store
        self._records = records
        self._clock = clock

    # Called by the worker.

    def claim(self, keep_trying: KeepTrying) -> bool:
        """Fence earlier runs and claim the id. Return False if `keep_trying` ended the wait."""
        self._plan.pre_producer_check()
        # A task that was told to stop must not fence its successor.
        if not keep_trying():
            return False
        claimed = self._coordinator.claim()
        while not _done(claimed):
            if not keep_trying():
                return False
        claimed.result(0)
        self._plan.post_producer_check()
        return True

    def close(self, reason: ConnectError) -> None:
        """Close the clients. An open transaction is aborted."""
        self._coordinator.close()
        self._store.offsets.aborted(reason)

    # Called by the task.

    @property
    def producer(self) -> tuple[int, int]:
        identity = self._coordinator.identity
        return identity.producer_id, identity.epoch

    @property
    def trouble(self) -> str | None:
        return self._coordinator.trouble

    def add(self, partitions: Sequence[TopicPartition]) -> Future[Mapping[TopicPartition, int]]:
        return self._coordinator.add(partitions)

    def offset_key(self, partition: SourcePartition) -> bytes:
        return encode_key(self._connector, partition)

    def offset_records(self, offsets: Sequence[StoredOffset]) -> _Records:
        self._store.store.set(
            {
                encode_key(self._connector, partition): encode_value(offset)
                for partition, offset in offsets
            }
        )
        return self._records.take()

    def notes(self, partitions: Sequence[SourcePartition]) -> list[bytes | None]:
        keys = [self.offset_key(partition) for partition in partitions]
        found = self._store.notes(keys)
        return [found.get(key) for key in keys]

    def commit(self, records: int) -> Future[None]:
        began = self._clock.monotonic()

        def ended() -> None:
            self.measured.append(((self._clock.monotonic() - began) * 1000, records, True))
            self._store.offsets.committed()

        return _followed(self._coordinator.commit(), ended)

    def abort(self, why: str) -> Future[None]:
        def ended() -> None:
            self.measured.append((0.0, 0, False))
            self._store.offsets.aborted(ConnectError(why))

        return _followed(self._coordinator.abort(), ended)

    def confirm(self) -> Future[None]:
        return self._coordinator.confirm()

    def note(self, records: int, ms: float) -> None:
        self.measured.append((ms, records, True))


def _followed(future: Future[None], then: Callable[[], None]) -> Future[None]:
    """Return a future that completes after `then`, which is called if `future` succeeds."""
    result: Future[None] = Future()

    def completed(done: Future[None]) -> None:
        error = done.exception()
        if error is None:
            then()
        settle(result, error)

    future.add_done_callback(completed)
    return result


def _done(future: Future[None]) -> bool:
    try:
        future.exception(_LOOK_S)
    except TimeoutError:
        return future.done()
    return True
