"""Handles Produce results: batches are acknowledged in order, or recovered.

`ProduceResponseHandler` receives every result from the target nodes and executes the decisions of
the partitions' state machine (`target_partition.py`): backoffs, splits, quarantine, log lines. It
handles all results of a response before anything is sent. Runs on the copy engine's thread.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Future

from connect.errors import ConnectError, CorruptData
from connect.protocol.error_codes import ErrorCode, code_facts
from connect.protocol.messages import ProducedPartition
from connectors.mirror.copy.brokers.target import ProduceResult
from connectors.mirror.copy.context import CopyContext, Left, Settled
from connectors.mirror.copy.partition.partition import (
    UNKNOWN,
    CopyState,
    Failure,
    Outgoing,
    PartitionCopy,
)
from connectors.mirror.copy.partition.produce_errors import (
    classify,
    surely_refused,
)
from connectors.mirror.copy.partition.states import InvariantBroken
from connectors.mirror.copy.partition.target_partition import TargetPartition
from connectors.mirror.copy.producer_ids import ProducerIds
from connectors.mirror.copy.quarantine import QuarantinedRecords, refused_record
from connectors.mirror.copy.transactions.manager import TransactionManager

__all__ = ["ProduceResponseHandler"]

_LOG = logging.getLogger(__name__)

_PIPELINED_S = 600.0
"""A target forgets an idle producer only after `producer.id.expiration.ms`, a day by default."""

_REPEAT_WARNING_EVERY = 20


class ProduceResponseHandler:
    """Applies Produce results to partitions."""

    def __init__(
        self,
        context: CopyContext,
        producers: ProducerIds,
        transactions: TransactionManager | None,
    ) -> None:
        """`transactions` None: batches are not sent in transactions."""
        self._context = context
        self._producers = producers
        self._transactions = transactions
        self._loop = context.loop
        self._budget = context.budget
        self._quarantine = context.quarantine

    # Results.

    def apply(self, results: Sequence[ProduceResult]) -> None:
        """Handle the results of one response, or of a lost connection."""
        some_idle = False
        for partition, batch, answer in results:
            try:
                self._take(partition, batch, answer)
                self._follow_up(partition)
            except InvariantBroken as error:  # Inlined, because this is the hot path.
                self._stop_broken(partition, error)
            some_idle |= not partition.queue and not partition.in_flight
        if self._transactions is not None:
            self._transactions.answered(some_idle=some_idle)

    def _take(
        self, partition: TargetPartition, batch: Outgoing, result: ProducedPartition | ConnectError
    ) -> None:
        """Apply one result to its partition."""
        if not isinstance(result, ConnectError) and result.error == 0 and result.base_offset < 0:
            result = CorruptData(f"the target appended a batch at offset {result.base_offset}")
        if isinstance(result, ConnectError):
            partition.failed(batch, Failure.RETRY, str(result), maybe=True)
        elif result.error in (0, ErrorCode.DUPLICATE_SEQUENCE_NUMBER):
            partition.accepted(batch, result.base_offset)
            if partition.sent_epoch == partition.target_epoch:
                partition.pipelined_until = self._loop.now() + _PIPELINED_S
        elif self._transactions is not None and self._transactions.aborts(result):
            _, reason = classify(batch, result, topic=partition.target[0])
            partition.failed(batch, Failure.ABORT, reason, maybe=False)
        else:
            keep = self._quarantine is not None and partition.refetchable
            topic = partition.target[0]
            failure, reason = classify(batch, result, topic=topic, quarantine=keep)
            partition.failed(batch, failure, reason, maybe=not surely_refused(result.error))

    def _follow_up(self, partition: TargetPartition) -> None:
        """Acknowledge and recover as far as the responses allow."""
        if isinstance(partition, PartitionCopy):
            self._advance(partition)
        else:
            while partition.next_acknowledged() is not None:
                pass
            self._note_success(partition)
        if partition.to_resolve and isinstance(partition, PartitionCopy):
            self._look_behind_failure(partition)
        if partition.to_resolve:
            self._resolve(partition)
        if isinstance(partition, PartitionCopy) and partition.may_leave:
            self._context.post(Left(partition))
        elif partition.awaits_answers and not partition.unanswered:
            partition.awaits_answers = False
            self._context.mark(partition)

    def _guarded(self, partition: TargetPartition, action: Callable[[], None]) -> None:
        """Run an action for a partition. A broken invariant stops only that partition."""
        try:
            action()
        except InvariantBroken as error:
            self._stop_broken(partition, error)

    def advance(self, partition: PartitionCopy) -> None:
        """Continue after `landed_early` was cleared."""
        self._guarded(partition, lambda: self._follow_up(partition))
        if self._transactions is not None:
            self._transactions.answered(some_idle=True)
        self._context.mark(partition)

    def _stop_broken(self, partition: TargetPartition, error: InvariantBroken) -> None:
        """Stop this partition. Under exactly-once its records share transactions with all others,
        so the whole task fails."""
        self._context.stop_broken(partition, error)
        if self._transactions is not None:
            self._transactions.fail(error)

    def _advance(self, partition: PartitionCopy) -> None:
        metrics = partition.metrics
        before = partition.acked_position
        while partition.in_flight and partition.in_flight[0].answered:
            head = partition.in_flight[0]
            # DUPLICATE_SEQUENCE_NUMBER without an offset: the batch was appended at or after the
            # known log end.
            base = head.base_offset if head.base_offset >= 0 else partition.target_end
            if 0 <= base < partition.target_end:
                self._note_early(partition, base)
            if partition.landed_early is not None:
                break
            batch = partition.next_acknowledged()
            if batch is None:
                break
            if batch.max_timestamp > partition.acked_timestamp:
                partition.acked_timestamp = batch.max_timestamp
            if not partition.halted and not 0 <= base < partition.target_end:
                # This log end later shows an early append that nothing could examine yet.
                partition.target_end = UNKNOWN if base < 0 else base + batch.records
            settled = Settled(
                partition, batch.runs, base, batch.records, batch.max_timestamp, batch.shallow
            )
            if self._transactions is None:
                self._context.settle(settled)
            else:
                self._transactions.hold(settled)
        if partition.acked_position == before:
            return
        metrics.set_lag(partition.lag, partition.lag_ms(self._loop.now_ms()))
        failing = partition.failing
        self._note_success(partition)
        if partition.held or failing:
            self._context.mark(partition)

    @staticmethod
    def _note_success(partition: TargetPartition) -> None:
        if partition.state is CopyState.ACTIVE:
            partition.failures = 0
            partition.target_error = None
            partition.unreachable = None  # Its leader has just responded.

    def _note_early(self, partition: PartitionCopy, base: int) -> None:
        """Handle the oldest batch in flight, which the target appended at `base`, before the known
        log end. Either the log was truncated, or its topic was re-created. Fresh metadata shows
        which (`LogValidation`)."""
        target = self._context.target
        if partition.appended_early(base, target.snapshot.version):
            target.request_refresh((partition.target[0],))

    # Recoveries.

    def _look_behind_failure(self, partition: PartitionCopy) -> None:
        """Look for a loss behind a failure. A target that lost its log may accept later batches
        than the one it refused. They are sent again, and would hide the loss."""
        bases = [each.base_offset for each in partition.in_flight if each.answered]
        early = min((base for base in bases if base >= 0), default=partition.target_end)
        if early < partition.target_end:
            self._note_early(partition, early)

    def _resolve(self, partition: TargetPartition) -> None:
        """Handle the oldest failure, now that all sent batches are answered."""
        found = partition.requeue()
        if found is None:
            self._context.mark(partition)
            return
        failure, reason = found
        if isinstance(partition, PartitionCopy) and partition.leaving:
            return  # None of its batches is sent any more; the rest is dropped when it leaves.
        if failure is Failure.ABORT and self._transactions is None:
            failure = Failure.NEW_PRODUCER
        if failure is not Failure.SPLIT:  # A batch that is split makes progress.
            partition.failures += 1
            partition.target_error = reason
        self._log(partition, failure, reason)
        if failure is Failure.SPLIT:
            failure = self._split(partition, reason)
        if failure is Failure.ABORT and self._transactions is not None:
            self._transactions.abort_for(partition, reason)
        if failure is Failure.SPLIT:
            self._recovered(partition)
        elif failure is Failure.BLOCK:
            self._wait(partition, partition.block())
        elif failure is Failure.QUARANTINE and isinstance(partition, PartitionCopy):
            self._quarantine_rejected(partition, reason)
        elif failure is Failure.NEW_PRODUCER and not partition.failing:
            partition.restart_sequence()
            self._recovered(partition)
        else:
            if failure is Failure.NEW_PRODUCER:
                partition.restart_sequence()
            elif partition.failing:
                partition.shed(self._budget)
            self._delay(partition)

    def _split(self, partition: TargetPartition, reason: str) -> Failure:
        """Split the oldest batch. If it cannot be split, wait until the target's limit is
        raised."""
        try:
            partition.split_head(self._budget)
        except CorruptData as error:
            partition.target_error = f"{reason}; it cannot be split: {error}"
            partition.failures += 1
            return Failure.BLOCK
        return Failure.SPLIT

    def refuse(self, partition: PartitionCopy, code: int) -> None:
        """Handle a partition that the transaction rejected. It has nothing in flight."""
        reason = f"the transaction coordinator rejected the partition: {code_facts(code).name}"
        if code == ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            reason += f"; grant Write on topic {partition.target[0]} at the target"
        partition.failures += 1
        partition.target_error = reason
        if code_facts(code).retriable or not partition.queue:
            self._log(partition, Failure.RETRY, reason)
            self._delay(partition)
        else:
            self._log(partition, Failure.BLOCK, reason)
            self._wait(partition, partition.block())

    def _quarantine_rejected(self, partition: PartitionCopy, reason: str) -> None:
        """Quarantine the record of the oldest batch, then continue after it."""
        assert self._quarantine is not None
        head = partition.queue[0]
        try:
            aside = refused_record(partition, head, reason)
        except (CorruptData, ValueError) as error:
            partition.target_error = f"{reason}; it cannot be quarantined: {error}"
            self._wait(partition, partition.block())
            return
        partition.refuse_head()
        self._context.mark(partition)
        self._context.when_done(
            self._quarantine.put(aside),
            lambda done: self._guarded(partition, lambda: self._put(partition, head, aside, done)),
        )

    def _put(
        self,
        partition: PartitionCopy,
        head: Outgoing,
        aside: QuarantinedRecords,
        done: Future[None],
    ) -> None:
        if partition.state is not CopyState.BLOCKED:
            return
        if not partition.queue or partition.queue[0] is not head:
            # Its memory was needed, so the batch is fetched and quarantined again.
            self._waited(partition)
            return
        error = done.exception(timeout=0)
        if error is not None:
            partition.target_error = f"{aside.reason}; it cannot be quarantined: {error}"
            self._wait(partition, partition.block())
            return
        partition.skip_head()
        partition.failures = 0
        partition.target_error = None
        self._context.listener.quarantined(partition, aside)
        self._waited(partition)

    def _log(self, partition: TargetPartition, failure: Failure, reason: str) -> None:
        repeated = partition.failures > 1 and partition.failures % _REPEAT_WARNING_EVERY
        level = logging.DEBUG if repeated or failure is Failure.SPLIT else logging.WARNING
        _LOG.log(level, "%s: %s (%s)", partition.name, reason, failure.value)

    def _delay(self, partition: TargetPartition) -> None:
        """Send the same batches again after a backoff, maybe to another leader."""
        partition.delay()
        self._context.target.request_refresh((partition.target[0],))
        backoff_s = self._context.settings.target.retry_backoff_s(partition.failures - 1)
        self._wait(partition, backoff_s)

    def _wait(self, partition: TargetPartition, seconds: float) -> None:
        if seconds < float("inf"):
            self._loop.after(
                seconds, lambda: self._guarded(partition, lambda: self._waited(partition))
            )
        self._context.mark(partition)

    def _waited(self, partition: TargetPartition) -> None:
        if partition.waited():
            self._equip_and_move(partition)

    def _recovered(self, partition: TargetPartition) -> None:
        partition.recovered()
        self._equip_and_move(partition)

    def _equip_and_move(self, partition: TargetPartition) -> None:
        if isinstance(partition, PartitionCopy):
            self._producers.equip(partition)
        self._context.mark(partition)
