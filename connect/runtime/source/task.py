"""Runs a `plugin.SourceTask` at least once: offsets are stored after their records are
acknowledged.

The task's thread does everything except acknowledgements, which arrive on the producer's thread,
and `stopping` and `wake`, which any thread may call.
"""

from __future__ import annotations

import logging
import threading
from concurrent.futures import Future

from connect.clock import Deadline
from connect.errors import BrokerError, ConnectError, TaskFailed
from connect.futures import done_future
from connect.metrics.client_metrics import ClientStatistics
from connect.metrics.source_task_metrics import SourceTotals
from connect.plugin import RecordMetadata, SourceRecord, StoredOffset
from connect.runtime.error_handling.tolerance import ErrorReport, Stage
from connect.runtime.source.loop import PAUSED_TURN_S, RecordTaskParts, SourceLoop
from connect.runtime.source.producer import OutgoingRecord, SourceProducer
from connect.runtime.source.submitted_records import SubmittedRecord, SubmittedRecords
from connect.runtime.tasks.offset_committer import OffsetCommitter
from connect.runtime.tasks.task import in_lines
from connect.storage.offset_writer import OffsetWriter

__all__ = ["WorkerSourceTask"]

_log = logging.getLogger(__name__)

# Kafka acknowledges within milliseconds, and within seconds when a leader moves.
_SILENT_S = 15.0
# The part of a stop's time for missing acknowledgements. The rest is for storing the offsets of the
# records that were acknowledged.
_WAIT_SHARE = 0.7
# The class that Java reports for a failed produce.
_PRODUCING_CLASS = "org.apache.kafka.connect.runtime.WorkerSourceTask"


class WorkerSourceTask(SourceLoop):
    """A record task with its producer and its commits."""

    def __init__(
        self,
        parts: RecordTaskParts,
        writer: OffsetWriter,
        *,
        commit_interval_s: float,
        commit_timeout_s: float,
    ) -> None:
        super().__init__(parts, transactions=False)
        context = parts.context
        self._commit_timeout_s = commit_timeout_s
        self._producer: SourceProducer | None = None
        self._statistics = ClientStatistics("producer", context.producer.get("client.id", ""))
        context.figures.add_client(self._statistics.read)
        self._submitted = SubmittedRecords()
        self._acknowledged = threading.Condition()
        self._sent = self._answered = 0
        # The last time when Kafka acknowledged a record, or when none was pending.
        self._heard_at = 0.0
        self._unsent = 0
        self._send_failure: ConnectError | None = None
        self._ending = False
        self._committer = OffsetCommitter(
            self._name,
            writer,
            self._gather,
            parts.task.commit,
            self.wake,
            interval_s=commit_interval_s,
            timeout_s=commit_timeout_s,
            metrics=context.figures,
            clock=parts.clock,
        )

    def start(self) -> None:
        self._context.open_offsets()
        self._need_brokers()
        self._producer = SourceProducer(
            self._context.producer,
            tolerant=self._errors.handling.tolerate,
            overrides=self._statistics.overrides(),
        )
        self._begin()

    def turn(self) -> None:
        self._raise_send_failure()
        if self._paused:
            self._wait(min(PAUSED_TURN_S, self._committer.next_turn_s()))
        else:
            if not self._batch:
                self._poll()
            self._send_batch()
        self._committer.turn()
        self._figures.turn()

    def trouble(self) -> str | None:
        return in_lines(super().trouble(), self._unanswered(), self._committer.trouble)

    def _unanswered(self) -> str | None:
        """Return a text for the status if acknowledgements are missing: the producer retries
        silently.
        """
        if self._sent == self._answered or self._clock.monotonic() - self._heard_at < _SILENT_S:
            return None
        return f"Kafka has not acknowledged any of the sent records for {_SILENT_S:g} s"

    def commit_soon(self) -> Future[None]:
        return self._committer.request()

    def finish(self, deadline: Deadline, *, failed: bool) -> bool:
        budget = min(self._commit_timeout_s, deadline.remaining() * _WAIT_SHARE)
        with self._acknowledged:
            arrived = self._acknowledged.wait_for(lambda: self._answered >= self._sent, budget)
        if not arrived:
            _log.warning(
                "%d records of %s were not acknowledged in %.1f s; they will be sent again after"
                " a restart",
                self._sent - self._answered,
                self._name,
                budget,
            )
        stored = self._committer.finish(deadline, self._wait)
        return arrived and stored

    def close(self) -> None:
        self._committer.abandon(ConnectError(f"Task {self._name} has ended"))
        self._ending = True
        try:
            self._close_loop()
        finally:
            if self._producer is not None:
                # The acknowledgements that could arrive were awaited already.
                self._producer.close(Deadline(0.0, self._clock))
            self._context.close_offsets()

    def _idle_s(self) -> float:
        return self._committer.next_turn_s()

    def _produce(self, record: SourceRecord, outgoing: OutgoingRecord) -> None:
        self._raise_send_failure()
        if self._sent == self._answered:
            self._heard_at = self._clock.monotonic()
        submitted = self._submitted.submit(record.source_partition, record.source_offset)

        def delivered(error: ConnectError | None, metadata: RecordMetadata | None) -> None:
            if error is None:
                self._context.topic_used(outgoing.topic)
            self._delivered(record, submitted, error, metadata)

        assert self._producer is not None
        try:
            self._producer.send(outgoing, delivered)
        except BrokerError as error:
            # For example a record that is too large. Java's producer reports it later, like a
            # broker.
            self._sent += 1
            delivered(error, None)
            return
        except ConnectError:
            self._submitted.withdraw(submitted)
            raise
        self._sent += 1

    def _leave_out(self, record: SourceRecord) -> None:
        """Skip a record. As in Java its offset is stored only with a later record."""
        self._commit_record(record, None)
        self._left_out += 1

    def _delivered(
        self,
        record: SourceRecord,
        submitted: SubmittedRecord,
        error: ConnectError | None,
        metadata: RecordMetadata | None,
    ) -> None:
        """Handle an acknowledgement or an error. Runs on the producer's thread."""
        self._heard_at = self._clock.monotonic()
        if error is None:
            if not self._ending:
                self._commit_record(record, metadata)
            submitted.ack()
            self._written += 1
        elif self._errors.handling.tolerate and not self._ending:
            self._skip_unsent(record, submitted, error)
        elif self._send_failure is None:
            self._send_failure = error
            self.wake()
        with self._acknowledged:
            self._answered += 1
            self._acknowledged.notify_all()

    def _skip_unsent(
        self, record: SourceRecord, submitted: SubmittedRecord, error: ConnectError
    ) -> None:
        """Skip a record that the target refused. Runs on the producer's thread."""
        _log.debug("Task %s skips a record that was not produced: %s", self._name, error)
        self._errors.failed(ErrorReport(record, Stage.KAFKA_PRODUCE, _PRODUCING_CLASS, error))
        self._commit_record(record, None)
        submitted.ack()
        self._unsent += 1

    def _raise_send_failure(self) -> None:
        if self._send_failure is not None:
            raise TaskFailed(
                f"Unrecoverable exception from producer send callback: {self._send_failure}"
            ) from self._send_failure

    def _gather(self) -> Future[list[StoredOffset]]:
        return done_future(self._submitted.take_committable())

    def _totals(self) -> SourceTotals:
        """Return the record counts. Called on any thread."""
        return SourceTotals(self._polled, self._written, self._left_out + self._unsent)
