"""What becomes of each batch that was sent: acknowledged in order, or recovered.

`Deliveries` hears every result from the target nodes and drives the partition states of
`partition.py`. Runs on the copy engine's thread.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future

from connect.clients.cluster_access import ClusterAccess
from connect.clients.errors import code_facts
from connect.clients.selector_loop import SelectorLoop
from connect.clients.settings import WireSettings
from connect.errors import ConnectError, CorruptData
from connect.protocol.messages import ProducedPartition, TopicPartition
from connectors.mirror.copy import recovery
from connectors.mirror.copy.memory import MemoryBudget
from connectors.mirror.copy.partition import (
    UNKNOWN,
    CopyState,
    Failure,
    OffsetRun,
    Outgoing,
    PartitionCopy,
)
from connectors.mirror.copy.quarantine import (
    OnQuarantined,
    PutAside,
    Quarantine,
    refused_record,
)
from connectors.mirror.copy.transaction_hooks import Settled
from connectors.mirror.copy.transactions import Transactions

__all__ = ["Deliveries", "OnAcked"]

_LOG = logging.getLogger(__name__)

OnAcked = Callable[[PartitionCopy, Sequence[OffsetRun], int], None]
"""(partition, source offset runs, target offset of the first record)."""

_PIPELINED_S = 600.0
"""A target forgets an idle producer only after `producer.id.expiration.ms`, a day by default."""

_PRODUCER_RETRY_S = 1.0
_REPEAT_WARNING_EVERY = 20


class Deliveries:
    """See the module. `on_moved(partition)`: it may be sent or fetched again; `on_left(partition)`:
    nothing of a leaving partition is under way any more; `on_back(partition, offset)`: the target
    put a batch at this offset, before the end of what it had acknowledged."""

    def __init__(
        self,
        link: ClusterAccess,
        loop: SelectorLoop,
        settings: WireSettings,
        budget: MemoryBudget,
        on_acked: OnAcked,
        on_moved: Callable[[PartitionCopy], None],
        on_left: Callable[[PartitionCopy], None],
        on_back: Callable[[PartitionCopy, int], None],
        quarantine: Quarantine | None = None,
        on_quarantined: OnQuarantined | None = None,
    ) -> None:
        self._link = link
        self._loop = loop
        self._settings = settings
        self._budget = budget
        self._on_acked = on_acked
        self._on_moved = on_moved
        self._on_left = on_left
        self._on_back = on_back
        self._quarantine = quarantine
        self._on_quarantined = on_quarantined or (lambda *_: None)
        self._producer: tuple[int, int] | None = None
        self._producer_asked = False
        self._producerless: set[PartitionCopy] = set()
        self._served: set[TopicPartition] = set()
        self._retired: dict[TopicPartition, tuple[int, int, int]] = {}
        self.transactions: Transactions | None = None
        """Set before anything is sent, where batches are sent in transactions."""
        self._closed = False

    # Results.

    def on_result(
        self,
        partition: PartitionCopy,
        batch: Outgoing,
        result: ProducedPartition | ConnectError,
    ) -> None:
        """One batch was answered, or its connection was lost."""
        if not isinstance(result, ConnectError) and result.error == 0 and result.base_offset < 0:
            result = CorruptData(f"the target took a batch, and put it at {result.base_offset}")
        partition.unanswered -= 1
        if partition.unanswered == 0 and partition.awaits_answers:
            partition.awaits_answers = False
            self._loop.post(lambda: self._on_moved(partition))
        if isinstance(result, ConnectError):
            batch.maybe_written = True
            self._failed(partition, batch, Failure.RETRY, str(result))
        elif result.error in (0, recovery.DUPLICATE_SEQUENCE_NUMBER):
            batch.base_offset = result.base_offset
            batch.answered = True
            partition.pipelined_until = self._loop.now() + _PIPELINED_S
            self._advance(partition)
        elif self.transactions is not None and self.transactions.spoils(result):
            self._failed(partition, batch, Failure.ABORT, recovery.classify(batch, result)[1])
        else:
            batch.maybe_written |= not recovery.surely_refused(result.error)
            keep = self._quarantine is not None
            self._failed(partition, batch, *recovery.classify(batch, result, quarantine=keep))
        if partition.unanswered == 0 and partition.state is CopyState.RECOVERING:
            self._resolve(partition)
        if partition.leaving and not partition.in_flight:
            self._on_left(partition)
        if self.transactions is not None:
            self.transactions.answered(partition)

    def _advance(self, partition: PartitionCopy) -> None:
        now_ms = self._loop.now_ms()
        in_flight = partition.in_flight
        metrics = partition.metrics
        while in_flight and in_flight[0].answered:
            batch = in_flight.popleft()
            partition.acked_position = batch.resume
            if batch.max_timestamp > partition.acked_timestamp:
                partition.acked_timestamp = batch.max_timestamp
            partition.forget(batch)
            # A duplicate whose place the target forgot is not before the end of what came before.
            base = batch.base_offset if batch.base_offset >= 0 else partition.target_end
            if 0 <= base < partition.target_end:
                self._on_back(partition, base)
            if not (partition.standing or partition.searching):
                partition.target_end = UNKNOWN if base < 0 else base + batch.records
            settled = Settled(
                partition, batch.runs, base, batch.records, batch.max_timestamp, batch.shallow
            )
            if self.transactions is None:
                self.settle(settled)
            else:
                self.transactions.hold(settled)
        metrics.set_lag(partition.lag, partition.lag_ms(now_ms))
        failing = partition.failing
        if partition.state is CopyState.ACTIVE:
            partition.failures = 0
            partition.target_error = None
        if partition.held or failing:
            self._on_moved(partition)

    def settle(self, settled: Settled) -> None:
        """A batch is on the target for good."""
        metrics = settled.partition.metrics
        metrics.acked(settled.records, settled.max_timestamp, self._loop.now_ms())
        if settled.shallow:
            metrics.shallow(settled.records, 1)
        else:
            metrics.record_level(settled.records, 1)
        self._on_acked(settled.partition, settled.runs, settled.base_offset)

    def _failed(
        self, partition: PartitionCopy, batch: Outgoing, failure: Failure, reason: str
    ) -> None:
        batch.failure = failure
        batch.reason = reason
        if partition.state is CopyState.ACTIVE:
            partition.state = CopyState.RECOVERING
            self._on_moved(partition)

    # Recoveries.

    def _resolve(self, partition: PartitionCopy) -> None:
        """Everything sent was answered: act on the oldest failure."""
        if not partition.in_flight:
            partition.state = CopyState.ACTIVE
            self._on_moved(partition)
            return
        failure, reason = recovery.requeue(partition)
        if partition.leaving:
            if self.transactions is not None and partition.outcome_unknown:
                # What may be there is not to be committed without its source offset.
                self.transactions.spoil(partition, reason)
            partition.drop_all()
            return
        if failure is not Failure.SPLIT:
            partition.failures += 1
        partition.target_error = reason
        self._log(partition, failure, reason)
        if failure is Failure.SPLIT:
            failure = self._split(partition)
        if failure is Failure.ABORT and self.transactions is not None:
            self.transactions.spoil(partition, reason)
        if failure is Failure.SPLIT:
            self._activate(partition)
        elif failure is Failure.BLOCK:
            self._wait(partition, recovery.block(partition))
        elif failure is Failure.QUARANTINE:
            self._put_aside(partition, reason)
        elif failure is Failure.NEW_PRODUCER and not partition.failing:
            recovery.restart_sequence(partition)
            self._activate(partition)
        else:
            if failure is Failure.NEW_PRODUCER:
                recovery.restart_sequence(partition)
            elif partition.failing:
                recovery.shed(partition, self._budget)
            partition.state = CopyState.BACKOFF
            self._link.request_refresh((partition.target[0],))
            self._wait(partition, self._backoff(partition))

    def _split(self, partition: PartitionCopy) -> Failure:
        """Split the oldest batch. What cannot be split waits for the target's limit."""
        try:
            recovery.split_head(partition, self._budget)
        except CorruptData as error:
            partition.target_error = f"{partition.target_error}; it cannot be split: {error}"
            partition.failures += 1
            return Failure.BLOCK
        return Failure.SPLIT

    def refuse(self, partition: PartitionCopy, code: int) -> None:
        """The transaction does not take this partition; nothing of it is under way."""
        reason = f"the target does not take it into a transaction: {code_facts(code).name}"
        partition.failures += 1
        partition.target_error = reason
        if code_facts(code).retriable or not partition.queue:
            self._log(partition, Failure.RETRY, reason)
            partition.state = CopyState.BACKOFF
            self._link.request_refresh((partition.target[0],))
            self._wait(partition, self._backoff(partition))
        else:
            self._log(partition, Failure.BLOCK, reason)
            self._wait(partition, recovery.block(partition))

    def _put_aside(self, partition: PartitionCopy, reason: str) -> None:
        """Put the record of the oldest batch into the quarantine, then go on after it."""
        assert self._quarantine is not None
        partition.state = CopyState.BLOCKED
        self._on_moved(partition)
        head = partition.queue[0]
        try:
            aside = refused_record(partition, head, reason)
        except (CorruptData, ValueError) as error:
            partition.target_error = f"{reason}; it cannot be put aside: {error}"
            self._wait(partition, recovery.block(partition))
            return
        self._quarantine.put(aside).add_done_callback(
            lambda done: self._loop.post(lambda: self._put(partition, head, aside, done))
        )

    def _put(
        self, partition: PartitionCopy, head: Outgoing, aside: PutAside, done: Future[None]
    ) -> None:
        if self._closed or partition.state is not CopyState.BLOCKED:
            return
        if not partition.queue or partition.queue[0] is not head:
            # Its memory was needed: it is fetched, and put aside, again.
            self._activate(partition)
            return
        error = done.exception(timeout=0)
        if error is not None:
            partition.target_error = f"{aside.reason}; it cannot be put aside: {error}"
            self._wait(partition, recovery.block(partition))
            return
        recovery.skip_head(partition)
        partition.failures = 0
        partition.target_error = None
        self._on_quarantined(partition, aside)
        self._activate(partition)

    def relieve(self, partition: PartitionCopy) -> None:
        """Its target is silent or not known: hold no more memory for it than must be."""
        if partition.queue or partition.in_flight:
            recovery.evacuate(partition, self._budget)

    def _log(self, partition: PartitionCopy, failure: Failure, reason: str) -> None:
        repeated = partition.failures > 1 and partition.failures % _REPEAT_WARNING_EVERY
        level = logging.DEBUG if repeated or failure is Failure.SPLIT else logging.WARNING
        topic, number = partition.source
        _LOG.log(level, "%s-%d: %s (%s)", topic, number, reason, failure.value)

    def _backoff(self, partition: PartitionCopy) -> float:
        first = self._settings.retry_backoff_ms
        most = self._settings.retry_backoff_max_ms
        return float(min(most, first * 2 ** min(partition.failures - 1, 16))) / 1000

    def _wait(self, partition: PartitionCopy, seconds: float) -> None:
        partition.retry_at = self._loop.now() + seconds
        self._loop.after(seconds, lambda: self._waited(partition))
        self._on_moved(partition)

    def _waited(self, partition: PartitionCopy) -> None:
        if partition.state in (CopyState.BACKOFF, CopyState.BLOCKED) and not self._closed:
            self._activate(partition)

    def _activate(self, partition: PartitionCopy) -> None:
        partition.state = CopyState.ACTIVE
        self.equip(partition)
        self._on_moved(partition)

    # Producer ids.

    def equip(self, partition: PartitionCopy) -> None:
        """Give the partition a producer id, now or when there is one."""
        if partition.producer_id != UNKNOWN:
            return
        if self.transactions is not None:
            self.transactions.equip(partition)
            return
        before = self._retired.pop(partition.target, None)
        if before is not None:
            partition.producer_id, partition.producer_epoch, partition.next_sequence = before
            return
        self._producerless.add(partition)
        self._hand_out()

    def retire(self, partition: PartitionCopy) -> None:
        """It left. Should the target partition come back, its producer's sequence goes on: brokers
        remember every producer id for a day, so they must not get one for each coming."""
        settled = partition.state in (CopyState.ACTIVE, CopyState.BLOCKED)
        if settled and partition.producer_id != UNKNOWN and not partition.outcome_unknown:
            self._retired[partition.target] = (
                partition.producer_id,
                partition.producer_epoch,
                partition.next_sequence,
            )

    def _hand_out(self) -> None:
        """A producer id serves a target partition once: from sequence number 0 on again, the
        target would take new batches for duplicates of those it has."""
        if self._producer is None:
            self._ask_producer()
            return
        waiting, self._producerless = self._producerless, set()
        for partition in waiting:
            if partition.target in self._served:
                self._producerless.add(partition)
                continue
            self._served.add(partition.target)
            partition.producer_id, partition.producer_epoch = self._producer
            partition.target_error = None
            self._on_moved(partition)
        if self._producerless:
            self._producer = None
            self._ask_producer()

    def _ask_producer(self) -> None:
        if self._producer_asked or self._closed:
            return
        self._producer_asked = True
        future = self._link.init_producer_id()
        future.add_done_callback(lambda done: self._loop.post(lambda: self._got_producer(done)))

    def _got_producer(self, future: Future[tuple[int, int]]) -> None:
        self._producer_asked = False
        try:
            self._producer = future.result(timeout=0)
        except CancelledError:
            return
        except ConnectError as error:
            _LOG.warning("no producer id from the target: %s; trying again", error)
            for partition in self._producerless:
                partition.target_error = str(error)
            self._loop.after(_PRODUCER_RETRY_S, self._ask_producer)
            return
        self._served.clear()
        self._hand_out()

    def close(self) -> None:
        self._closed = True
