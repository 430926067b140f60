"""The loop of both kinds of record tasks: poll, transform, convert, and pass on each record.

Subclasses produce the record and store its source offset: after the acknowledgement
(`source.task`), or in the same transaction (`source.exactly_once_task`).
"""

from __future__ import annotations

import logging
import threading
from abc import abstractmethod
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass

from connect.clients.wire.bootstrap_probe import need_resolvable
from connect.clock import Clock, Deadline
from connect.data.transforms.chain import TransformChain
from connect.errors import ConnectError
from connect.loop import Backoff
from connect.metrics.source_task_metrics import (
    SOURCE_TASK_GROUP,
    SourceTaskMetrics,
    SourceTotals,
)
from connect.plugin import RecordMetadata, SourceRecord, SourceTask
from connect.runtime.error_handling.metrics import ERROR_GROUP
from connect.runtime.error_handling.tolerance import (
    RecordErrors,
    RecordSkipped,
    RetriesInterrupted,
)
from connect.runtime.source.outgoing import OutgoingRecords
from connect.runtime.source.producer import OutgoingRecord
from connect.runtime.source.topic_creator import TopicCreator
from connect.runtime.tasks.record_converters import RecordConverters
from connect.runtime.tasks.task import RESOLVE_S, WorkerTask, WorkerTaskContext, in_lines

__all__ = ["PAUSED_TURN_S", "RecordTaskParts", "SourceLoop"]

_log = logging.getLogger(__name__)

PAUSED_TURN_S = 1.0
# Java's wait before it retries a record that could not be queued.
_SEND_RETRY_S = 0.1
# The pause after a poll that returned at once without records.
_IDLE_S = 0.1
_POLL_BACKOFF_S, _POLL_BACKOFF_CAP_S = 0.1, 10.0


@dataclass(frozen=True, slots=True)
class RecordTaskParts:
    """A record task's plugin and what the worker gives it. `topics` None: brokers create new
    topics."""

    task: SourceTask
    context: WorkerTaskContext
    config: Mapping[str, str]
    converters: RecordConverters
    transforms: TransformChain
    errors: RecordErrors[SourceRecord]
    topics: TopicCreator | None
    clock: Clock


class SourceLoop(WorkerTask):
    """A record task. Only `stopping` and `wake` are called from other threads."""

    def __init__(self, parts: RecordTaskParts, *, transactions: bool) -> None:
        """Create the task. `transactions`: measure their sizes."""
        context, clock = parts.context, parts.clock
        self._name = f"{context.connector_name}-{context.task_index}"
        self._task = parts.task
        self._context = context
        self._config = parts.config
        self._errors = parts.errors
        self._outgoing = OutgoingRecords(parts.transforms, parts.converters, parts.errors)
        self._transforms = parts.transforms
        self._topics = parts.topics
        self._clock = clock
        self._batch: deque[SourceRecord] = deque()
        self._paused = self._initialized = self._begun = False
        self._poll_backoff = Backoff(_POLL_BACKOFF_S, _POLL_BACKOFF_CAP_S)
        self._woken = threading.Event()
        self._written = self._polled = self._left_out = 0
        self._waits_because: str | None = None
        self._figures = SourceTaskMetrics(self._totals, clock, transactions=transactions)
        context.figures.add(SOURCE_TASK_GROUP, self._figures.read)
        context.figures.add(ERROR_GROUP, parts.errors.metrics.read)

    @abstractmethod
    def _produce(self, record: SourceRecord, outgoing: OutgoingRecord) -> None:
        """Produce `outgoing`, made from `record`. After a retriable error the same record is
        retried.
        """

    @abstractmethod
    def _leave_out(self, record: SourceRecord) -> None:
        """Handle a record that a transformation dropped or that failed and is skipped."""

    @abstractmethod
    def _idle_s(self) -> float:
        """Return the seconds until there is other work than polling."""

    def pause(self) -> None:
        self._paused = True

    def resume(self) -> None:
        self._paused = False

    def wake(self) -> None:
        self._woken.set()

    def stopping(self) -> None:
        self._errors.stop()
        self.wake()
        if self._begun:
            self._task.stopping()

    def _begin(self) -> None:
        """Start the plugin.

        It is told of a stop only after its start: before that it may have nothing to stop, and it
        is not polled any more.
        """
        self._initialized = True
        self._task.initialize(self._context)
        self._task.start(self._config)
        self._begun = True

    def _need_brokers(self) -> None:
        """Raise `ConfigError` if the producer's brokers cannot be looked up."""
        need_resolvable(self._context.producer, Deadline(RESOLVE_S, self._clock))

    def trouble(self) -> str | None:
        return in_lines(self._task.trouble(), self._waits_because)

    def _wait(self, seconds: float) -> None:
        self._woken.wait(seconds)
        self._woken.clear()

    def _close_loop(self) -> None:
        """Stop the plugin, unless it was never initialized, and close the loop's resources."""
        try:
            if self._initialized:
                self._task.stop()
        finally:
            self._transforms.close()
            if self._topics is not None:
                self._topics.close()

    def _poll(self) -> None:
        began = self._clock.monotonic()
        try:
            records = self._task.poll()
        except ConnectError as error:
            if not error.retriable:
                raise
            wait = self._poll_backoff.next()
            _log.warning("poll of task %s failed: %s; retrying in %.1f s", self._name, error, wait)
            self._waits_because = f"poll failed and will be retried: {error}"
            self._wait(wait)
            return
        self._poll_backoff.reset()
        self._waits_because = None
        if records:
            self._polled += len(records)
            self._figures.polled((self._clock.monotonic() - began) * 1000)
            self._context.figures.batch(len(records))
            self._batch.extend(records)
        elif self._clock.monotonic() - began < _IDLE_S:
            self._wait(min(_IDLE_S, self._idle_s()))

    def _send_batch(self) -> bool:
        """Produce the batch. Return False if a part of it remains for the next turn."""
        while self._batch:
            try:
                self._send(self._batch[0])
            except RetriesInterrupted:
                # The task is stopping. The record is read again, because its offset is not stored.
                return False
            except ConnectError as error:
                if not error.retriable:
                    raise
                if self._waits_because is None:
                    _log.warning("Task %s cannot send, retrying: %s", self._name, error)
                self._waits_because = f"The task cannot send: {error}"
                self._wait(_SEND_RETRY_S)
                return False
            self._waits_because = None
            self._batch.popleft()
        return True

    def _send(self, record: SourceRecord) -> None:
        try:
            outgoing = self._outgoing.of(record)
        except RecordSkipped:
            outgoing = None
        if outgoing is None:
            self._leave_out(record)
            return
        if self._topics is not None:
            self._topics.ensure(outgoing.topic)
        self._produce(record, outgoing)

    def _commit_record(self, record: SourceRecord, metadata: RecordMetadata | None) -> None:
        try:
            self._task.commit_record(record, metadata)
        except Exception:  # noqa: BLE001 - plugin code; the record was dealt with all the same
            _log.exception(
                "commit_record of task %s failed; the record was sent all the same; this "
                "is a defect of the plugin: report it to its author, with the trace",
                self._name,
            )

    def _totals(self) -> SourceTotals:
        """Return the record counts. Called on any thread."""
        return SourceTotals(self._polled, self._written, self._left_out)
