"""Runs a `plugin.SourceTask`: poll, transform, convert, produce, and commit what was acknowledged.

Three parties share it: the task's thread does everything but acknowledgements, which come on the
producer's own thread, and `stopping`/`wake`, which come from anywhere.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass

from connect.clients.sender import RecordSender
from connect.clock import SYSTEM_CLOCK, Clock, Deadline
from connect.data.converters.base import Converter
from connect.data.record import as_header
from connect.data.transforms.chain import TransformChain
from connect.errors import ConnectError, TaskFailed
from connect.loop import Backoff
from connect.plugin import RecordMetadata, SourceRecord, SourceTask, StoredOffset
from connect.runtime.committer import OffsetCommitter
from connect.runtime.submitted import SubmittedRecord, SubmittedRecords
from connect.runtime.task import WorkerTask, WorkerTaskContext
from connect.storage.offset_writer import OffsetWriter

__all__ = ["RecordConverters", "WorkerSourceTask"]

_log = logging.getLogger(__name__)

# Java's wait before a record that could not be queued is tried again.
_SEND_RETRY_S = 0.1
# A poll that returns at once with nothing is not asked again before this.
_IDLE_S = 0.1
_PAUSED_TURN_S = 1.0
_POLL_BACKOFF_S, _POLL_BACKOFF_CAP_S = 0.1, 10.0

_METRICS_GROUP = "source-task-metrics"


@dataclass(frozen=True, slots=True)
class RecordConverters:
    """The converters of one task, one for each part of a record."""

    key: Converter
    value: Converter
    header: Converter


class WorkerSourceTask(WorkerTask):
    """One record task, its producer and its commits."""

    def __init__(
        self,
        task: SourceTask,
        context: WorkerTaskContext,
        config: Mapping[str, str],
        writer: OffsetWriter,
        converters: RecordConverters,
        transforms: TransformChain,
        *,
        commit_interval_s: float,
        commit_timeout_s: float,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._name = f"{context.connector_name}-{context.task_index}"
        self._task = task
        self._context = context
        self._config = config
        self._converters = converters
        self._transforms = transforms
        self._commit_timeout_s = commit_timeout_s
        self._clock = clock
        self._sender: RecordSender | None = None
        self._submitted = SubmittedRecords()
        self._batch: deque[SourceRecord] = deque()
        self._paused = False
        self._poll_backoff = Backoff(_POLL_BACKOFF_S, _POLL_BACKOFF_CAP_S)
        self._woken = threading.Event()
        self._acknowledged = threading.Condition()
        self._sent = self._answered = 0
        self._written = self._polled = self._dropped = 0
        self._send_failure: ConnectError | None = None
        self._send_refused = False
        self._remove_metrics: Callable[[], None] | None = None
        self._committer = OffsetCommitter(
            self._name,
            writer,
            self._gather,
            task.commit,
            self.wake,
            interval_s=commit_interval_s,
            timeout_s=commit_timeout_s,
            clock=clock,
        )

    def start(self) -> None:
        self._sender = RecordSender(self._context.producer)
        self._remove_metrics = self._context.metrics.register(
            _METRICS_GROUP,
            {
                "connector": self._context.connector_name,
                "task": str(self._context.task_index),
            },
            self._read_metrics,
        )
        self._task.initialize(self._context)
        self._task.start(self._config)

    def turn(self) -> None:
        self._raise_send_failure()
        if self._paused:
            self._wait(min(_PAUSED_TURN_S, self._committer.next_turn_s()))
        else:
            if not self._batch:
                self._poll()
            self._send_batch()
        self._committer.turn()

    def pause(self) -> None:
        self._paused = True

    def resume(self) -> None:
        self._paused = False

    def commit_soon(self) -> Future[None]:
        return self._committer.request()

    def finish(self, deadline: Deadline, *, failed: bool) -> bool:
        budget = min(self._commit_timeout_s, deadline.remaining())
        with self._acknowledged:
            arrived = self._acknowledged.wait_for(lambda: self._answered >= self._sent, budget)
        if not arrived:
            _log.warning(
                "%d records of %s were not acknowledged in %.1f s; they will be sent again",
                self._sent - self._answered,
                self._name,
                budget,
            )
        stored = self._committer.finish(deadline, self._wait)
        return arrived and stored

    def close(self) -> None:
        self._committer.abandon(ConnectError(f"Task {self._name} has ended"))
        if self._remove_metrics is not None:
            self._remove_metrics()
        try:
            self._task.stop()
        finally:
            self._transforms.close()
            if self._sender is not None:
                # What could be acknowledged was waited for already.
                self._sender.close(Deadline(0.0, self._clock))

    def wake(self) -> None:
        self._woken.set()

    def stopping(self) -> None:
        self.wake()
        self._task.stopping()

    def _wait(self, seconds: float) -> None:
        self._woken.wait(seconds)
        self._woken.clear()

    def _poll(self) -> None:
        began = self._clock.monotonic()
        try:
            records = self._task.poll()
        except ConnectError as error:
            if not error.retriable:
                raise
            wait = self._poll_backoff.next()
            _log.warning("Task %s has no records now: %s; next in %.1f s", self._name, error, wait)
            self._wait(wait)
            return
        self._poll_backoff.reset()
        if records:
            self._polled += len(records)
            self._batch.extend(records)
        elif self._clock.monotonic() - began < _IDLE_S:
            self._wait(min(_IDLE_S, self._committer.next_turn_s()))

    def _send_batch(self) -> None:
        while self._batch:
            self._raise_send_failure()
            try:
                self._send(self._batch[0])
            except ConnectError as error:
                if not error.retriable:
                    raise
                if not self._send_refused:
                    _log.warning("Task %s waits to send: %s", self._name, error)
                self._send_refused = True
                self._wait(_SEND_RETRY_S)
                return
            self._send_refused = False
            self._batch.popleft()

    def _send(self, record: SourceRecord) -> None:
        transformed = self._transforms.apply(record) if self._transforms else record
        if transformed is None:
            self._drop(record)
            return
        topic, converters = transformed.topic, self._converters
        headers = [
            (name, converters.header.to_bytes(topic, value, schema))
            for name, value, schema in map(as_header, transformed.headers)
        ]
        key = converters.key.to_bytes(topic, transformed.key, transformed.key_schema)
        value = converters.value.to_bytes(topic, transformed.value, transformed.value_schema)
        timestamp_ms = None if transformed.timestamp_ms == -1 else transformed.timestamp_ms
        if timestamp_ms is not None and timestamp_ms < 0:
            raise ConnectError(
                f"A record for topic {topic} has the timestamp {timestamp_ms}; allowed are -1"
                " (none) and milliseconds since 1970"
            )
        submitted = self._submitted.submit(record.source_partition, record.source_offset)

        def delivered(error: ConnectError | None, metadata: RecordMetadata | None) -> None:
            if error is None:
                self._context.topic_used(topic)
            self._delivered(record, submitted, error, metadata)

        assert self._sender is not None
        try:
            self._sender.send(
                topic,
                key,
                value,
                delivered,
                partition=transformed.partition,
                timestamp_ms=timestamp_ms,
                headers=headers,
            )
        except ConnectError:
            self._submitted.withdraw(submitted)
            raise
        self._sent += 1

    def _drop(self, record: SourceRecord) -> None:
        """A transformation dropped it. As in Java its offset is not kept, only that of the next
        record that is sent."""
        self._commit_record(record, None)
        self._dropped += 1

    def _commit_record(self, record: SourceRecord, metadata: RecordMetadata | None) -> None:
        try:
            self._task.commit_record(record, metadata)
        except Exception:  # noqa: BLE001 - plugin code; the record was dealt with all the same
            _log.exception("commit_record of task %s failed", self._name)

    def _delivered(
        self,
        record: SourceRecord,
        submitted: SubmittedRecord,
        error: ConnectError | None,
        metadata: RecordMetadata | None,
    ) -> None:
        """On the producer's thread."""
        if error is None:
            self._commit_record(record, metadata)
            submitted.ack()
            self._written += 1
        elif self._send_failure is None:
            self._send_failure = error
            self.wake()
        with self._acknowledged:
            self._answered += 1
            self._acknowledged.notify_all()

    def _raise_send_failure(self) -> None:
        if self._send_failure is not None:
            raise TaskFailed(
                f"Unrecoverable exception from producer send callback: {self._send_failure}"
            ) from self._send_failure

    def _gather(self) -> Future[list[StoredOffset]]:
        offsets: Future[list[StoredOffset]] = Future()
        offsets.set_result(self._submitted.take_committable())
        return offsets

    def _read_metrics(self) -> Mapping[str, float]:
        """On whatever thread exposes metrics."""
        return {
            "source-record-poll-total": float(self._polled),
            "source-record-write-total": float(self._written),
            "source-record-active-count": float(
                max(0, self._polled - self._written - self._dropped)
            ),
        }
