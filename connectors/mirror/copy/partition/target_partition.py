"""The target side of a partition: queue, batches in flight, sequence numbers, recoveries.

A pure state machine: no clock, socket or callback. Brokers accept a producer's batches strictly by
sequence number, so after one failure every later batch in flight fails too, or its outcome is
unknown. So a recovery waits for the answers to all sent batches. Then the oldest failure decides.

Invariants (each step checks the cheap ones and raises `InvariantBroken`; tests check all):

* The batches in flight, then those queued, cover source offsets without gap or overlap, from
  `acked_position` on.
* Batches with a sequence number come first, and their numbers are consecutive up to
  `next_sequence`.
* At most `MOST_IN_FLIGHT` batches are in flight: brokers remember that many.
* A sequence number is used again only if its batch cannot be on the target.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import ClassVar

from connect.loop import backoff_s
from connect.protocol.messages import TopicPartition
from connectors.mirror.copy.batches.conversion import split_batch
from connectors.mirror.copy.batches.outgoing import UNKNOWN, Failure, Outgoing
from connectors.mirror.copy.memory import MemoryBudget
from connectors.mirror.copy.partition.states import CopyEvent, CopyLife, CopyState, InvariantBroken
from connectors.mirror.metrics import PartitionMetrics

__all__ = ["MOST_IN_FLIGHT", "SEQUENCE_MASK", "TargetPartition"]

MOST_IN_FLIGHT = 5
"""Brokers keep the sequence numbers of the last five batches of a producer (KIP-98)."""

SEQUENCE_MASK = 0x7FFFFFFF
"""Sequence numbers continue at 0 after this one."""

_FAILING_AFTER = 2
_FIRST_BLOCK_S = 1.0
_LONGEST_BLOCK_S = 60.0


@dataclass(slots=True, eq=False)
class TargetPartition:
    """The batches of one target partition. `source` and `target` are (topic, partition)."""

    source: TopicPartition
    target: TopicPartition
    metrics: PartitionMetrics
    life: CopyLife = field(default_factory=CopyLife)
    acked_position: int = UNKNOWN
    """Next source offset after the last acknowledged one; the stored offset is one less."""
    queue: deque[Outgoing] = field(default_factory=deque)
    """Batches to send, in order."""
    in_flight: list[Outgoing] = field(default_factory=list)
    """Batches sent, in order, until they and all before them are acknowledged or failed."""
    unanswered: int = 0
    """Number of batches in flight that await a response."""
    pending_bytes: int = 0
    """Bytes of the batches queued and in flight."""
    producer_id: int = UNKNOWN
    producer_epoch: int = UNKNOWN
    next_sequence: int = 0
    failures: int = 0
    """Failed attempts since the last success."""
    max_batch_bytes: int = 0
    """The target's `max.message.bytes`; 0: not known."""
    target_error: str | None = None
    """The target's last error; None: the last send succeeded, or nothing was sent yet."""
    unreachable: str | None = None
    """Why its leader on the target cannot be reached now; None: it can, or was not tried yet."""
    target_node: int = UNKNOWN
    """The leader on the target; UNKNOWN: the metadata has none."""
    target_epoch: int = UNKNOWN
    sent_node: int = UNKNOWN
    """The broker that everything in flight was sent to."""
    sent_epoch: int = UNKNOWN
    pipelined_until: float = 0.0
    """Until then the leader surely knows the producer's last sequence number, so several batches
    may be in flight (monotonic seconds)."""
    awaits_answers: bool = False
    """Has more to send, but must wait until the batches in flight are answered."""
    broken: str | None = None
    """The invariant that did not hold; None while all hold."""

    refetchable: ClassVar[bool] = True
    """Whether a batch that is dropped can be fetched again."""

    @property
    def state(self) -> CopyState:
        return self.life.state

    @property
    def name(self) -> str:
        return f"{self.source[0]}-{self.source[1]}"

    @property
    def resume(self) -> int:
        """Return the source offset after the last batch queued or in flight."""
        if self.queue:
            return self.queue[-1].resume
        return self.in_flight[-1].resume if self.in_flight else self.acked_position

    @property
    def outcome_unknown(self) -> bool:
        """Whether the target has, or may have, batches that are not acknowledged."""
        return bool(self.in_flight) or any(batch.maybe_written for batch in self.queue)

    @property
    def failing(self) -> bool:
        """Whether the target rejected it more than once in a row, so that more fetches are
        useless."""
        return self.failures >= _FAILING_AFTER

    @property
    def send_held(self) -> bool:
        """Whether something forbids sending now."""
        return self.broken is not None

    # Queueing.

    def enqueue(self, batch: Outgoing, start: int) -> None:
        """Add a batch that covers the source offsets from `start` up to its `resume`."""
        if start != self.resume or batch.resume < start:
            raise self._broken(
                f"a batch of offsets {start} to {batch.resume} was queued after offset "
                f"{self.resume}"
            )
        batch.start = start
        self.queue.append(batch)
        self._hold(batch)

    def skip_to(self, offset: int) -> None:
        """Skip the offsets from `resume` up to `offset`, which need no copying."""
        if offset < self.resume:
            raise self._broken(
                f"offsets up to {offset} were skipped, although {self.resume} was already reached"
            )
        if self.queue:
            self.queue[-1].resume = offset
        elif self.in_flight:
            self.in_flight[-1].resume = offset
        else:
            self.acked_position = offset

    def _hold(self, batch: Outgoing) -> None:
        self.pending_bytes += len(batch.data)
        self.metrics.waits(batch.records)
        batch.buffer.retain()

    def _let_go(self, batch: Outgoing) -> None:
        self.pending_bytes -= len(batch.data)
        self.metrics.waits(-batch.records)
        batch.buffer.release()

    # Sending.

    def take_next(self) -> Outgoing:
        """Move the oldest queued batch into flight, with its sequence number."""
        if len(self.in_flight) >= MOST_IN_FLIGHT or self.state is not CopyState.ACTIVE:
            raise self._broken(
                f"a batch was sent while {self.state.name}, with {len(self.in_flight)} in flight"
            )
        batch = self.queue.popleft()
        if batch.sequence == UNKNOWN:
            batch.sequence = self.next_sequence
            self.next_sequence = (self.next_sequence + batch.records) & SEQUENCE_MASK
        if self.in_flight:
            last = self.in_flight[-1]
            if (last.sequence + last.records) & SEQUENCE_MASK != batch.sequence:
                raise self._broken(
                    f"sequence number {batch.sequence} was sent after {last.sequence} with "
                    f"{last.records} records"
                )
        batch.awaits_answer = True
        batch.answered = False
        batch.failure = None
        self.in_flight.append(batch)
        self.unanswered += 1
        self.life.note("sent", batch.start, batch.resume, batch.sequence)
        return batch

    # Responses.

    def accepted(self, batch: Outgoing, base_offset: int) -> None:
        """Record that the target wrote this batch from `base_offset` on; below 0: the response has
        no offset."""
        self._answer(batch)
        batch.answered = True
        batch.base_offset = base_offset

    def failed(self, batch: Outgoing, failure: Failure, reason: str, *, maybe: bool) -> None:
        """Record that the target did not accept this batch. `maybe`: it may have written it."""
        self._answer(batch)
        batch.maybe_written |= maybe
        batch.failure = failure
        batch.reason = reason
        if self.state in (CopyState.ACTIVE, CopyState.RECOVERING):
            self.life.on(CopyEvent.FAILED, self.name)

    def _answer(self, batch: Outgoing) -> None:
        if not batch.awaits_answer:
            raise self._broken(f"the batch at {batch.start} was answered twice")
        batch.awaits_answer = False
        self.unanswered -= 1

    def next_acknowledged(self) -> Outgoing | None:
        """Take the oldest batch in flight if it is acknowledged, and move `acked_position`."""
        if not self.in_flight or not self.in_flight[0].answered:
            return None
        batch = self.in_flight.pop(0)
        if batch.start != self.acked_position:
            raise self._broken(
                f"the batch at {batch.start} was acknowledged when the acknowledged position was "
                f"{self.acked_position}"
            )
        self.acked_position = batch.resume
        self._let_go(batch)
        self.life.note("acknowledged", batch.start, batch.resume, "at", batch.base_offset)
        return batch

    @property
    def to_resolve(self) -> bool:
        """Whether a recovery has all its responses."""
        return self.state is CopyState.RECOVERING and not self.unanswered

    # Recoveries. Call `requeue` first, then the method for the failure that it returns.

    def requeue(self) -> tuple[Failure, str] | None:
        """Put all unacknowledged batches in flight back in front of the queue, in order.

        Returns the oldest batch's failure; None if nothing is left to do.
        """
        if not self.in_flight:
            self.life.on(CopyEvent.RECOVERED, self.name)
            return None
        head = self.in_flight[0]
        failure, reason = head.failure or Failure.RETRY, head.reason
        for batch in self.in_flight:
            batch.maybe_written |= batch.answered
        self.queue.extendleft(reversed(self.in_flight))
        self.in_flight.clear()
        self.life.note("requeued", failure.name, head.start)
        if failure in (Failure.SPLIT, Failure.BLOCK, Failure.QUARANTINE) and head.maybe_written:
            # An earlier attempt of it may be on the target. It may be converted again only in
            # another transaction or with another producer.
            failure = Failure.ABORT
        elif failure in (Failure.BLOCK, Failure.QUARANTINE) and any(
            batch.maybe_written for batch in self.queue
        ):
            # Later batches are not on the target because this one is not: their sequence numbers
            # follow its own. With another producer, they count as never sent.
            failure = Failure.NEW_PRODUCER
        return failure, reason

    def recovered(self) -> None:
        """Send the queued batches again at once."""
        self.life.on(CopyEvent.RECOVERED, self.name)

    def delay(self) -> None:
        """Send the queued batches again after a backoff."""
        self.life.on(CopyEvent.DELAYED, self.name)

    def waited(self) -> bool:
        """End the backoff. Returns False if there is none."""
        if self.state not in (CopyState.BACKOFF, CopyState.BLOCKED):
            return False
        self.life.on(CopyEvent.WAITED, self.name)
        return True

    def refuse_head(self) -> None:
        """Keep the oldest batch for now, although the target rejects it permanently."""
        self.life.on(CopyEvent.REFUSED, self.name)

    def block(self) -> float:
        """Drop everything because the target rejects the oldest batch permanently. It is fetched
        again after the returned seconds."""
        self.life.on(CopyEvent.REFUSED, self.name)
        self._drop_from(0)
        self.max_batch_bytes = 0
        return backoff_s(_FIRST_BLOCK_S, _LONGEST_BLOCK_S, self.failures - 1)

    def skip_head(self) -> None:
        """Continue after the oldest batch, which was quarantined. The rest is fetched again."""
        after = self.queue[0].resume
        self._drop_from(0)
        self.acked_position = after
        self.max_batch_bytes = 0

    def split_head(self, budget: MemoryBudget) -> None:
        """Replace the oldest batch with its halves. Later sequence numbers stay correct.

        Raises:
        CorruptData: its records cannot be parsed; nothing has changed.
        """
        head = self.queue[0]
        halves = split_batch(head, budget)
        self.queue.popleft()
        self.max_batch_bytes = max(1, len(head.data) - 1)
        start, sequence = head.start, head.sequence
        for half in halves:
            half.start, start = start, half.resume
            if sequence != UNKNOWN:
                half.sequence = sequence
                sequence = (sequence + half.records) & SEQUENCE_MASK
        for half in reversed(halves):
            self.queue.appendleft(half)
            self._hold(half)
        self._let_go(head)

    def restart_sequence(self) -> None:
        """Continue with a new producer, because the broker forgot or rejected this one. Batches
        that the target may have are sent again as new ones."""
        self.producer_id = UNKNOWN
        self.producer_epoch = UNKNOWN
        self.next_sequence = 0
        self.pipelined_until = 0.0
        for batch in self.queue:
            batch.sequence = UNKNOWN
            batch.maybe_written = False
        self.life.note("new producer")

    # Dropping.

    def drop_unsent(self) -> None:
        """Drop the batches that were never sent."""
        kept = len(self.queue)
        while kept and self.queue[kept - 1].sequence == UNKNOWN:
            kept -= 1
        self._drop_from(kept)

    def drop_surely_absent(self) -> None:
        """Drop every batch after the last one that the target may have."""
        self._drop_from(self._maybe_written_count())

    def shed(self, budget: MemoryBudget) -> None:
        """Keep only the batches that the target may have, and the oldest one to retry, in their own
        memory, because a blocked partition must not hold whole fetch responses. The rest is fetched
        again. If memory is short, the oldest is dropped too."""
        kept = self._maybe_written_count()
        sent = bool(self.queue) and self.queue[0].sequence != UNKNOWN
        if not kept and sent and 2 * budget.used < budget.limit:
            kept = 1
        self._drop_from(kept)
        for batch in self.queue:
            batch.move_to_own_memory(budget)

    def evacuate(self, budget: MemoryBudget) -> None:
        """Like `shed`, for a partition whose broker is silent: batches in flight also get their own
        memory. The socket may have sent half of the old memory, so it is not used again."""
        self.shed(budget)
        for batch in self.in_flight:
            batch.move_to_own_memory(budget)

    def go_back(self, offset: int) -> None:
        """Drop everything and continue at this source offset. No response may be outstanding,
        because a batch's memory would be reused while it is being sent."""
        self.drop_all()
        self.acked_position = offset
        self.awaits_answers = False
        self.life.on(CopyEvent.RESET, self.name)

    def drop_all(self) -> None:
        """Drop every batch, whether the target has it or not. The partition leaves, or its producer
        is replaced."""
        if self.unanswered:
            raise self._broken(f"{self.unanswered} unanswered batches were dropped")
        for batch in (*self.in_flight, *self.queue):
            self._let_go(batch)
        self.in_flight.clear()
        self.queue.clear()
        self.life.note("dropped all")

    def _maybe_written_count(self) -> int:
        return max((n for n, batch in enumerate(self.queue, 1) if batch.maybe_written), default=0)

    def _drop_from(self, kept: int) -> None:
        """Drop all but the first `kept` queued batches and give their sequence numbers back."""
        while len(self.queue) > kept:
            batch = self.queue.pop()
            if batch.maybe_written:
                self.queue.append(batch)
                raise self._broken(
                    f"the batch at {batch.start} was dropped, but the target may have written it"
                )
            if batch.sequence != UNKNOWN:
                self.next_sequence = batch.sequence
            self._let_go(batch)
            self.life.note("dropped", batch.start, batch.resume)

    def _broken(self, invariant: str) -> InvariantBroken:
        return self.life.broken(self.name, invariant)

    def stop_broken(self, why: str) -> None:
        self.broken = self.broken or (
            f"the copier stopped this partition because of a bug in the copier: {why}. Restart "
            "the task, and please report this text"
        )
        self.life.on(CopyEvent.BROKE, self.name)
