"""One partition on its way from source to target: positions, batches under way, and its state.

A `PartitionCopy` belongs to the copy engine's thread. Others see only `health()`'s values.

    source position ──fetch──> queue ──produce──> in flight ──ack──> acked position

The states, and who moves them (all in `engine.py` and `recovery.py`):

    STARTING    its first source offset is not known yet
    ACTIVE      fetched and produced
    RECOVERING  a produce failed: nothing is sent until all that was sent is answered
    BACKOFF     waiting for `retry_at`, then ACTIVE again with the same batches
    BLOCKED     a fatal answer for its oldest batch: waiting for `retry_at`, then fetched anew

A partition that is unassigned is `leaving` besides: what is in flight finishes, nothing starts.
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from uuid import UUID

from connect.plugin import PartitionHealth
from connect.protocol.messages import TopicPartition
from connectors.mirror.copy.memory import FetchBuffer
from connectors.mirror.metrics import PartitionMetrics

__all__ = ["UNKNOWN", "CopyState", "Failure", "OffsetRun", "Outgoing", "PartitionCopy"]

OffsetRun = tuple[int, int]
"""(first source offset, count): so many consecutive source offsets."""

UNKNOWN = -1

_FAILING_AFTER = 2


class CopyState(enum.Enum):
    STARTING = "starting"
    ACTIVE = "active"
    RECOVERING = "recovering"
    BACKOFF = "backoff"
    BLOCKED = "blocked"


class Failure(enum.Enum):
    """What to do about a batch that the target did not take."""

    RETRY = "retry"
    SPLIT = "split"
    NEW_PRODUCER = "new producer"
    BLOCK = "block"
    ABORT = "abort the transaction"


@dataclass(slots=True, eq=False)
class Outgoing:
    """One batch for the target, a whole magic-2 batch in `data`.

    `runs` are its records' source offsets in order; `resume` is the source offset to go on from
    once it is acknowledged (beyond skipped batches, if any followed).
    """

    data: memoryview
    records: int
    runs: Sequence[OffsetRun]
    resume: int
    max_timestamp: int
    shallow: bool
    buffer: FetchBuffer
    sequence: int = UNKNOWN
    """First sequence number; assigned when first sent, and kept: a resend must be the same."""
    answered: bool = False
    maybe_written: bool = False
    """Sent, and the target may have it, though it did not say so."""
    failure: Failure | None = None
    reason: str = ""
    base_offset: int = UNKNOWN


@dataclass(slots=True, eq=False)
class PartitionCopy:
    """See the module. `source` and `target` are (topic, partition)."""

    source: TopicPartition
    target: TopicPartition
    metrics: PartitionMetrics
    state: CopyState = CopyState.STARTING
    leaving: bool = False
    placement_error: str | None = None
    source_error: str | None = None
    target_error: str | None = None

    ledger: bool = False
    """One of the offsets topic: only written, together with what is copied."""
    end: int | None = None
    """Copy nothing at or after this source offset; None: there is no end."""
    position: int = UNKNOWN
    """Next source offset to fetch."""
    acked_position: int = UNKNOWN
    """Next source offset after the last one acknowledged: what is stored is one less."""
    stored_position: int = UNKNOWN
    high_watermark: int = UNKNOWN
    log_start_offset: int = UNKNOWN
    acked_timestamp: int = UNKNOWN
    lost_records: int = 0
    """Source offsets that were deleted before they were copied."""

    source_node: int = UNKNOWN
    source_epoch: int = UNKNOWN
    source_topic_id: UUID | None = None
    preferred_replica: int = UNKNOWN
    preferred_until: float = 0.0
    """When to ask the leader again which replica to read from (monotonic seconds)."""
    source_retry_at: float = 0.0
    source_failures: int = 0
    fetching: bool = False
    held: bool = False
    """Left out of fetches because enough of it waits to be produced."""

    target_node: int = UNKNOWN
    queue: deque[Outgoing] = field(default_factory=deque)
    in_flight: deque[Outgoing] = field(default_factory=deque)
    unanswered: int = 0
    pending_bytes: int = 0
    sent_node: int = UNKNOWN
    """The broker that everything in flight was sent to."""
    pipelined_until: float = 0.0
    """Until then the target surely knows the producer's last sequence number, so that several
    batches may be in flight (monotonic seconds)."""
    awaits_answers: bool = False
    """Has more to send, and must not before what is in flight is answered."""
    target_end: int = UNKNOWN
    """The target offset after the last one acknowledged."""
    producer_id: int = UNKNOWN
    producer_epoch: int = UNKNOWN
    next_sequence: int = 0
    failures: int = 0
    retry_at: float = 0.0
    max_batch_bytes: int = 0
    """The target's limit as far as known; 0: not known."""

    @property
    def fetched_all(self) -> bool:
        """Whether there is an end, and everything before it was fetched."""
        return self.end is not None and self.position >= self.end

    @property
    def done(self) -> bool:
        """Whether there is an end, and everything before it was acknowledged."""
        return self.end is not None and self.acked_position >= self.end

    def enqueue(self, batch: Outgoing) -> None:
        """Add a batch behind the others."""
        self.queue.append(batch)
        self.pending_bytes += len(batch.data)
        self.metrics.waits(batch.records)
        batch.buffer.retain()

    def forget(self, batch: Outgoing) -> None:
        """A batch left the pipeline: acknowledged, replaced or dropped."""
        self.pending_bytes -= len(batch.data)
        self.metrics.waits(-batch.records)
        batch.buffer.release()

    @property
    def resume(self) -> int:
        """The source offset after the last batch under way."""
        if self.queue:
            return self.queue[-1].resume
        return self.in_flight[-1].resume if self.in_flight else self.acked_position

    def skipped_to(self, offset: int) -> None:
        """Everything before `offset` that is not in a batch needs no copying."""
        if self.queue:
            self.queue[-1].resume = offset
        elif self.in_flight:
            self.in_flight[-1].resume = offset
        else:
            self.acked_position = offset

    def drop_all(self) -> None:
        """Forget every batch under way, none of which may still wait for an answer: its memory
        would be used again while it is being sent. The caller decides where to go on from."""
        assert self.unanswered == 0
        for batch in self.queue:
            self.forget(batch)
        for batch in self.in_flight:
            self.forget(batch)
        self.queue.clear()
        self.in_flight.clear()

    def go_back(self, offset: int) -> None:
        """Forget everything since this source offset, which is next again. Nothing of it may still
        wait for an answer."""
        self.drop_all()
        self.position = self.acked_position = offset
        self.awaits_answers = False
        if self.state is CopyState.RECOVERING:
            self.state = CopyState.ACTIVE

    def assign_sequence(self, batch: Outgoing) -> None:
        """Give a batch its place in the producer's sequence, once."""
        if batch.sequence == UNKNOWN:
            batch.sequence = self.next_sequence
            self.next_sequence = (self.next_sequence + batch.records) & 0x7FFFFFFF

    @property
    def unstored(self) -> bool:
        """Whether it moved since its source offset was stored."""
        return self.acked_position > 0 and self.acked_position != self.stored_position

    @property
    def outcome_unknown(self) -> bool:
        """Whether the target has, or may have, batches that it did not acknowledge."""
        return bool(self.in_flight) or any(batch.maybe_written for batch in self.queue)

    @property
    def failing(self) -> bool:
        """Whether the target refused it more than once in a row: fetching more is no use then."""
        return self.failures >= _FAILING_AFTER

    @property
    def error(self) -> str | None:
        """Why it does not move; None while it moves or is caught up."""
        return self.placement_error or self.source_error or self.target_error

    @property
    def lag(self) -> int | None:
        """Records between the source's end and what is acknowledged; None until known."""
        if self.high_watermark == UNKNOWN or self.acked_position == UNKNOWN:
            return None
        return max(0, self.high_watermark - self.acked_position)

    def lag_ms(self, now_ms: int) -> int | None:
        """How old the newest copied record is while more wait; 0 when caught up."""
        lag = self.lag
        if lag is None or (lag > 0 and self.acked_timestamp == UNKNOWN):
            return None
        return max(0, now_ms - self.acked_timestamp) if lag else 0

    def health(self, now_ms: int) -> PartitionHealth:
        return PartitionHealth(
            name=f"{self.source[0]}-{self.source[1]}",
            lag_records=self.lag,
            lag_ms=self.lag_ms(now_ms),
            error=self.error,
            details={
                "state": self.state.value,
                "position": self.acked_position,
                "high_watermark": self.high_watermark,
                "target": f"{self.target[0]}-{self.target[1]}",
            },
        )
