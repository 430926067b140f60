"""Runs a `plugin.SourceTask` exactly once (KIP-618).

Records and their source offsets are written in the same transactions, and an earlier run of the
task can no longer write. A reader of committed records sees each record once, even if the task
dies: uncommitted records are dropped, and the source reads again from the last committed offset.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from dataclasses import dataclass

from connect.clients.transactions.producer import KeepTrying, TransactionalProducer
from connect.clock import Deadline
from connect.errors import ConnectError, TaskFailed
from connect.futures import CommitRequests
from connect.plugin import RecordMetadata, SourceRecord, StoredOffset
from connect.runtime.error_handling.tolerance import RetriesInterrupted
from connect.runtime.offset_stores import TransactionalStore
from connect.runtime.source.loop import PAUSED_TURN_S, RecordTaskParts, SourceLoop
from connect.runtime.source.producer import OutgoingRecord
from connect.runtime.source.transaction_boundaries import Boundaries, Ending
from connect.storage.offset_writer import OffsetWriter

__all__ = ["ExactlyOncePlan", "ExactlyOnceSourceTask", "Transactions"]

_log = logging.getLogger(__name__)

_IDLE_S = 1.0
# The rest of a stopping task's time is for closing its clients.
_COMMIT_SHARE = 0.6


@dataclass(frozen=True, slots=True)
class ExactlyOncePlan:
    """The herder's checks for one run of a task.

    Both are called on the task's thread, may block, and raise an error that fails the task.
    """

    transactional_id: str
    pre_producer_check: Callable[[], None]
    """Called before the id is claimed: the leader fences the connector's earlier tasks."""
    post_producer_check: Callable[[], None]
    """Called after the claim: fails if the task was assigned to another worker meanwhile."""


@dataclass(frozen=True, slots=True)
class Transactions:
    """The transactional clients of a task, which opens and closes `producer`."""

    plan: ExactlyOncePlan
    producer: TransactionalProducer
    store: TransactionalStore
    boundaries: Boundaries


class ExactlyOnceSourceTask(SourceLoop):
    """One record task that writes in transactions.

    `stopping` and `wake` come from any thread, acknowledgements from the producer's.
    """

    def __init__(self, parts: RecordTaskParts, transactions: Transactions) -> None:
        super().__init__(parts, transactions=True)
        self._plan = transactions.plan
        self._producer = transactions.producer
        self._store = transactions.store
        self._boundaries = transactions.boundaries
        self._writer = OffsetWriter(transactions.store.store, parts.context.connector_name)
        self._stop_asked = threading.Event()
        self._claimed = False
        self._aborted = 0
        self._unfinished = Ending.NONE
        self._committing_since: float | None = None
        self._size = 0
        self._offsets: dict[Hashable, StoredOffset] = {}
        self._settled: list[tuple[SourceRecord, RecordMetadata | None]] = []
        self._send_failure: ConnectError | None = None
        self._asked = CommitRequests()

    def start(self) -> None:
        self._need_brokers()
        self._plan.pre_producer_check()
        # A task that was told to stop must not fence its successor.
        if self._stop_asked.is_set() or not self._producer.claim(self._wanted):
            return
        self._plan.post_producer_check()
        self._context.open_offsets()
        self._claimed = True
        self._begin()
        self._boundaries.begin()

    def turn(self) -> None:
        self._raise_send_failure()
        if self._paused:
            self._wait(PAUSED_TURN_S)
        else:
            if not self._batch:
                self._poll()
            if self._send_batch():
                self._end_transaction(self._after_batch(), self._wanted)
        self._figures.turn()

    def pause(self) -> None:
        """End the open transaction, which would block readers and could time out."""
        self._end_transaction(self._boundaries.at_end(), self._wanted)
        super().pause()

    def resume(self) -> None:
        self._boundaries.begin()
        super().resume()

    def commit_soon(self) -> Future[None]:
        return self._asked.add()

    def finish(self, deadline: Deadline, *, failed: bool) -> bool:
        """Finish. If a commit is impossible, the open transaction is aborted, so nothing is copied
        twice.
        """
        if failed or not self._claimed:
            return True
        ending = self._unfinished
        if ending is Ending.NONE:
            ending = self._boundaries.at_end()
        most = Deadline(deadline.remaining() * _COMMIT_SHARE, self._clock)
        return self._end_transaction(ending, lambda: not most.expired())

    def close(self) -> None:
        ended = ConnectError(f"Task {self._name} has ended")
        self._asked.end_all(ended)
        self._aborted += 1
        try:
            self._close_loop()
        finally:
            self._producer.close()
            self._store.offsets.aborted(ended)
            self._context.close_offsets()

    def stopping(self) -> None:
        self._stop_asked.set()
        super().stopping()

    def _wanted(self) -> bool:
        return not self._stop_asked.is_set()

    def _idle_s(self) -> float:
        return _IDLE_S

    def _after_batch(self) -> Ending:
        ending = self._boundaries.after_batch()
        if ending is Ending.NONE and self._asked and self._boundaries.may_end_early:
            return Ending.COMMIT
        return ending

    def _produce(self, record: SourceRecord, outgoing: OutgoingRecord) -> None:
        self._raise_send_failure()
        if outgoing.topic == self._store.topic:
            # A read of offsets waits for all open transactions on that topic, including this one.
            raise TaskFailed(
                "Source tasks may not produce to their own offsets topics when exactly-once support"
                " is enabled"
            )

        aborted = self._aborted

        def delivered(error: ConnectError | None, metadata: RecordMetadata | None) -> None:
            if error is None:
                self._delivered(record, outgoing.topic, metadata)
            elif aborted == self._aborted and self._send_failure is None:
                self._send_failure = error
                self.wake()

        self._producer.begin()
        self._producer.send(
            outgoing.topic,
            outgoing.key,
            outgoing.value,
            delivered,
            partition=outgoing.partition,
            timestamp_ms=outgoing.timestamp_ms,
            headers=outgoing.headers,
        )
        key = tuple(record.source_partition.items())
        self._offsets[key] = (record.source_partition, record.source_offset)
        self._size += 1
        self._end_after(record)

    def _leave_out(self, record: SourceRecord) -> None:
        """Skip a record. As in Java its offset is stored only with a later record."""
        self._settled.append((record, None))
        self._left_out += 1
        self._end_after(record)

    def _end_after(self, record: SourceRecord) -> None:
        if not self._end_transaction(self._boundaries.after_record(record), self._wanted):
            # The task is stopping; the open transaction is finished then.
            raise RetriesInterrupted(f"Task {self._name} is stopping")

    def _delivered(self, record: SourceRecord, topic: str, metadata: RecordMetadata | None) -> None:
        """Handle an acknowledgement. Runs on the producer's thread."""
        self._context.topic_used(topic)
        self._settled.append((record, metadata))
        self._written += 1

    def _raise_send_failure(self) -> None:
        if self._send_failure is not None:
            raise TaskFailed(
                f"Unrecoverable exception trying to send: {self._send_failure}"
            ) from self._send_failure

    def _end_transaction(self, ending: Ending, keep_trying: KeepTrying) -> bool:
        """End the transaction. Return False if the result is unknown and the wait was ended."""
        if ending is Ending.NONE:
            return True
        self._unfinished = ending
        if ending is Ending.ABORT and self._producer.open:
            _log.info("Task %s aborts its transaction at the connector's request", self._name)
            if not self._abort(keep_trying):
                return False
            self._unfinished = Ending.COMMIT
        if not self._commit(keep_trying):
            return False
        self._unfinished = Ending.NONE
        return True

    def _abort(self, keep_trying: KeepTrying) -> bool:
        # The abort fails records that were not sent yet; this is not an error.
        self._aborted += 1
        if not self._producer.abort(keep_trying):
            return False
        self._size = 0
        return True

    def _commit(self, keep_trying: KeepTrying) -> bool:
        try:
            if self._committing_since is None and not self._prepare():
                self._tell_committed()
                return True
            if not self._producer.commit(keep_trying):
                return False
        except ConnectError as error:
            self._commit_failed(error)
            # The error of a delivery explains more than that of the transaction it fails.
            cause = self._send_failure or error
            raise TaskFailed(
                f"Failed to flush offsets and/or records for task {self._name}: {cause}"
            ) from error
        self._committed()
        return True

    def _prepare(self) -> bool:
        """Add the source offsets to the transaction. Return False if the transaction would be
        empty.
        """
        self._writer.add(self._offsets.values())
        self._offsets.clear()
        if not self._producer.open and not self._writer.waiting:
            return False
        self._committing_since = self._clock.monotonic()
        self._producer.begin()
        if self._writer.waiting:
            stored = self._writer.flush()
            if stored.done():
                stored.result()
        failure = self._store.offsets.failure()
        if failure is not None:
            raise ConnectError(f"Cannot write the task's source offsets: {failure}") from failure
        return True

    def _commit_failed(self, error: ConnectError) -> None:
        self._note_commit(success=False)
        self._store.offsets.aborted(error)
        self._writer.failed()

    def _committed(self) -> None:
        self._note_commit(success=True)
        self._store.offsets.committed()
        self._writer.flushed()
        self._figures.transaction(self._size)
        self._size = 0
        self._tell_committed()

    def _note_commit(self, *, success: bool) -> None:
        began, self._committing_since = self._committing_since, None
        if began is not None:
            took_ms = (self._clock.monotonic() - began) * 1000
            self._context.figures.committed(took_ms, success=success)

    def _tell_committed(self) -> None:
        settled, self._settled = self._settled, []
        for record, metadata in settled:
            self._commit_record(record, metadata)
        try:
            self._task.commit()
        except Exception:  # noqa: BLE001 - plugin code; the transaction is committed all the same
            _log.exception(
                "commit of task %s failed; its records are committed all the same; this "
                "is a defect of the plugin: report it to its author, with the trace",
                self._name,
            )
        self._asked.end_all()
