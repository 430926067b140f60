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
One whose logs lost something stands still (`standing`) where the user's policy says so.
"""

from __future__ import annotations

import enum
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from uuid import UUID

from connect.plugin import PartitionHealth
from connect.protocol.messages import TopicPartition
from connectors.mirror.copy.epochs import EpochStarts
from connectors.mirror.copy.loss_forecast import LossForecast
from connectors.mirror.copy.memory import FetchBuffer
from connectors.mirror.log_facts import LogFacts
from connectors.mirror.losses import Loss, LossKind
from connectors.mirror.metrics import PartitionMetrics

__all__ = ["UNKNOWN", "CopyState", "Failure", "OffsetRun", "Outgoing", "PartitionCopy"]

OffsetRun = tuple[int, int]
"""(first source offset, count): so many consecutive source offsets."""

UNKNOWN = -1

_FAILING_AFTER = 2
_ANCHORS = 24


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
    QUARANTINE = "quarantine"
    """As BLOCK, but the record itself is at fault, and can be put aside."""


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
    standing: str | None = None
    """Why it stands still until somebody decides: what was lost, and where."""
    placement_error: str | None = None
    source_error: str | None = None
    target_error: str | None = None
    stall: str | None = None
    """That it does not move, though no error says so."""
    progress: tuple[int, float] = (UNKNOWN - 1, 0.0)
    """The acknowledged position, and since when it is that (monotonic seconds)."""
    held_since: float = float("inf")
    """Since when it is `held_back`; about now while it is not."""

    ledger: bool = False
    """One of the offsets topic: only written, together with what is copied."""
    end: int | None = None
    """Copy nothing at or after this source offset; None: there is no end."""
    position: int = UNKNOWN
    """Next source offset to fetch."""
    acked_position: int = UNKNOWN
    """Next source offset after the last one acknowledged: what is stored is one less."""
    stored_position: int = UNKNOWN
    """`acked_position` when it was last stored; not known after a loss for which it went back."""
    high_watermark: int = UNKNOWN
    log_start_offset: int = UNKNOWN
    acked_timestamp: int = UNKNOWN
    forecast: LossForecast = field(default_factory=LossForecast)
    lost_records: int = 0
    """Source offsets that were deleted before they were copied."""

    source_node: int = UNKNOWN
    source_epoch: int = UNKNOWN
    source_topic_id: UUID | None = None
    epochs: EpochStarts = field(default_factory=EpochStarts)
    """Of what was fetched."""
    source_checked: int = UNKNOWN
    """The leader epoch in which the source's log was last looked at."""
    checking: bool = False
    """Its logs are being looked at: it is not fetched meanwhile."""
    is_new: bool = False
    """No offset of it was stored when it was begun with."""
    unkept: bool = False
    """Where it begins is being kept: it is not fetched meanwhile."""
    target_checking: bool = False
    """The target's log is being looked at: nothing is sent meanwhile."""
    halted: bool = False
    """Nothing more is sent: what was fetched is not what the target is to get next."""
    quarantining: bool = False
    """A batch that cannot be read is being put aside: it is not fetched meanwhile."""
    searching: bool = False
    """Where it goes on is being found out: it is not fetched meanwhile."""
    preferred_replica: int = UNKNOWN
    preferred_until: float = 0.0
    """When to ask the leader again which replica to read from (monotonic seconds)."""
    source_retry_at: float = 0.0
    source_failures: int = 0
    fetching: bool = False
    paced: bool = False
    """Left out of fetches for now, as its topic is over its limit."""
    most_fetch_bytes: int = 0
    """What a fetch may ask for of it because of such a limit; 0: there is none."""
    batch_bytes: int = 0
    """The largest batch of the last fetch that a limit counted; 0: not known."""
    limited_by: str | None = None
    """The keys with the limit because of which records of it wait."""
    held: bool = False
    """Left out of fetches because enough of it waits to be produced."""
    undecided: int = 0
    """Offsets of the source from the first open transaction on, which are not to be read yet."""
    undecided_since: float = 0.0
    """When it was noticed that that transaction is open (monotonic seconds)."""

    target_node: int = UNKNOWN
    target_checked: int = UNKNOWN
    target_topic_id: UUID | None = None
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
    anchors: list[tuple[int, int]] = field(default_factory=list)
    """(source offset, target offset) pairs, ascending: where it was at times."""
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
        self.anchors = [anchor for anchor in self.anchors if anchor[0] <= offset]
        self.awaits_answers = False
        if self.state is CopyState.RECOVERING:
            self.state = CopyState.ACTIVE

    def assign_sequence(self, batch: Outgoing) -> None:
        """Give a batch its place in the producer's sequence, once."""
        if batch.sequence == UNKNOWN:
            batch.sequence = self.next_sequence
            self.next_sequence = (self.next_sequence + batch.records) & 0x7FFFFFFF

    def drop_anchor(self) -> None:
        """Note where it is on both sides. The older, the farther apart are those that are kept."""
        if self.target_end == UNKNOWN:
            return
        here = (self.acked_position, self.target_end)
        if self.anchors and self.anchors[-1][1] >= here[1]:
            return
        self.anchors.append(here)
        if len(self.anchors) > _ANCHORS:
            old = len(self.anchors) - _ANCHORS // 3
            self.anchors[:old] = self.anchors[:old:2]

    def forget_lost(self, loss: Loss) -> None:
        """What was lost is known, and it goes on at `loss.resume`: so this is not to be found
        again."""
        if loss.resume is not None and loss.resume < self.acked_position:
            # Should nothing be stored any more, the next start has to find it again.
            self.stored_position = UNKNOWN
        if loss.on_target:
            self.target_end = UNKNOWN
            self.anchors = [anchor for anchor in self.anchors if anchor[1] <= loss.first]
            if loss.kind is LossKind.TARGET_RECREATED:
                self.target_topic_id = None
                self.anchors.clear()
            return
        resume = 0 if loss.resume is None else loss.resume
        self.epochs.cut(resume)
        self.anchors = [anchor for anchor in self.anchors if anchor[0] <= resume]
        if loss.kind is LossKind.SOURCE_RECREATED:
            self.source_topic_id = None
            self.epochs = EpochStarts()
            self.anchors.clear()

    def forecast_loss(self, now: float) -> None:
        """Say when records will be lost that wait."""
        start, position = self.log_start_offset, self.acked_position
        if start == UNKNOWN or position == UNKNOWN:
            return
        self.forecast.note(now, start, position)
        seconds = self.forecast.seconds(now, start, position) if self.lag else float("inf")
        self.metrics.set_time_to_loss(max(0, position - start), seconds)

    def anchored(self, target_offset: int) -> tuple[int, int] | None:
        """The last known place on both sides that is not after `target_offset`."""
        found = [anchor for anchor in self.anchors if anchor[1] <= target_offset]
        return found[-1] if found else None

    def facts(self, position: int) -> LogFacts:
        """What the next start, at this position, has to know to see what was lost meanwhile."""
        return LogFacts(
            max(0, self.stored_position),
            position,
            self.target_end,
            self.source_topic_id,
            self.target_topic_id,
            self.epochs.starts,
            tuple(self.anchors),
        )

    def learn(self, facts: LogFacts) -> None:
        """What was known when this position was stored. Call before anything is compared, or
        later: what was seen since stays."""
        self.source_topic_id = facts.source_topic_id or self.source_topic_id
        self.target_topic_id = facts.target_topic_id or self.target_topic_id
        self.epochs.precede(facts.epochs)
        if self.target_end == UNKNOWN:
            self.target_end = facts.target_end
            self.anchors = list(facts.anchors)
        self.source_checked = self.target_checked = UNKNOWN

    @property
    def unstored(self) -> bool:
        """Whether it moved since its source offset was stored."""
        return self.acked_position > 0 and self.acked_position != self.stored_position

    @property
    def outcome_unknown(self) -> bool:
        """Whether the target has, or may have, batches that it did not acknowledge."""
        return bool(self.in_flight) or any(batch.maybe_written for batch in self.queue)

    @property
    def held_back(self) -> bool:
        """Whether it is not to be fetched for now, whatever else is the case."""
        return (
            bool(self.standing)
            or self.checking
            or self.searching
            or self.quarantining
            or self.unkept
        )

    @property
    def failing(self) -> bool:
        """Whether the target refused it more than once in a row: fetching more is no use then."""
        return self.failures >= _FAILING_AFTER

    @property
    def error(self) -> str | None:
        """Why it does not move; None while it moves or is caught up."""
        return (
            self.standing
            or self.placement_error
            or self.source_error
            or self.target_error
            or self.stall
        )

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
                "state": "standing" if self.standing else self.state.value,
                "position": self.acked_position,
                "high_watermark": self.high_watermark,
                "log_start": self.log_start_offset,
                "time_to_loss_ms": self.metrics.time_to_loss_ms(),
                "limited_by": self.limited_by,
                "undecided": self.undecided,
                "target": f"{self.target[0]}-{self.target[1]}",
            },
        )
