"""One mirrored partition on its way from source to target: the source's half.

A `PartitionCopy` belongs to the copy engine's thread. Other threads see only `health()`'s values.

    position ──fetch──> queue ──produce──> in flight ──ack──> acked position

The producing half is `target_partition.py`, its states are in `states.py`. `position` is
derived: it follows the last batch queued or in flight. Only `begin_at`, `go_back`, `relocate` and
acknowledgements move `acked_position`.

A partition that is unassigned is `leaving`: batches in flight finish, nothing new starts. A
partition whose logs lost something stands still (`standing`) where the user's policy says so.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from uuid import UUID

from connect.plugin import PartitionHealth
from connectors.mirror.config.losses import Loss, LossKind
from connectors.mirror.copy.batches.outgoing import UNKNOWN, Failure, Outgoing
from connectors.mirror.copy.partition.leader_epochs import EpochStarts
from connectors.mirror.copy.partition.retention_forecast import LossForecast
from connectors.mirror.copy.partition.states import CopyEvent, CopyState
from connectors.mirror.copy.partition.target_partition import TargetPartition
from connectors.mirror.offsets.log_identity import LogFacts, joined_by
from connectors.mirror.offsets.offset_map_pages import OffsetRun

__all__ = ["UNKNOWN", "CopyState", "Failure", "OffsetRun", "Outgoing", "PartitionCopy"]

_ANCHORS = 24


@dataclass(slots=True, eq=False)
class PartitionCopy(TargetPartition):
    """See the module. `source` and `target` are (topic, partition)."""

    leaving: bool = False
    standing: str | None = None
    """Why it stands still until somebody decides: what was lost, and where."""
    placement_error: str | None = None
    source_error: str | None = None
    stall: str | None = None
    """That it does not move, though no error says so."""
    progress: tuple[int, float] = (UNKNOWN - 1, 0.0)
    """The acknowledged position, and since when it is that (monotonic seconds)."""
    held_since: float = float("inf")
    """Since when it is `held_back`; about now while it is not."""

    end: int | None = None
    """Copy nothing at or after this source offset; None: there is no end."""
    moves: int = 0
    """How often it went on elsewhere than behind its last batch. An answer to a fetch from before a
    move may be of a log that is not there any more."""
    incoming: int | None = None
    """Where the fetched batches end that are not queued yet; None: there are none."""
    stored_position: int = UNKNOWN
    """`acked_position` when it was last stored; not known after a loss for which it went back."""
    lost_since_stored: bool = False
    """A loss sent it back behind its stored offset, and no offset was stored since. The facts that
    are kept beside the stored offset have to stay until one is: they find the loss again."""
    high_watermark: int = UNKNOWN
    log_start_offset: int = UNKNOWN
    acked_timestamp: int = UNKNOWN
    forecast: LossForecast = field(default_factory=LossForecast)
    lost_records: int = 0
    """Source offsets that were deleted before they were copied."""

    source_node: int = UNKNOWN
    source_epoch: int = UNKNOWN
    source_topic_id: UUID | None = None
    next_source_id: UUID | None = None
    """The id of the topic that took the place of the source's, until it goes on there."""
    former_source_ids: tuple[UUID, ...] = ()
    """Ids of deleted topics, newest last. A broker with old metadata may still name one."""
    epochs: EpochStarts = field(default_factory=EpochStarts)
    """Leader epochs of the batches that were fetched."""
    source_checked: int = UNKNOWN
    """The leader epoch in which the source's log was last looked at."""
    checking: bool = False
    """Its logs are being looked at: it is not fetched meanwhile."""
    comparing: bool = False
    """The target's end is compared with the source: it is neither fetched nor sent meanwhile."""
    tail_start: tuple[int, int] | None = None
    """(source offset, target offset) from which on the target may have more than was stored."""
    is_new: bool = False
    """No offset of it was stored when it was begun with."""
    unkept: bool = False
    """Where it begins is being kept: it is not fetched meanwhile."""
    target_checking: bool = False
    """The target's log is being looked at: nothing is sent meanwhile."""
    halted: bool = False
    """Nothing more is sent: the batches fetched are not those that the target needs next."""
    quarantining: bool = False
    """A batch that cannot be read goes to the quarantine: it is not fetched meanwhile."""
    searching: bool = False
    """The offset to go on from is being asked for: it is not fetched meanwhile."""
    preferred_replica: int = UNKNOWN
    preferred_until: float = 0.0
    """When to ask the leader again which replica to read from (monotonic seconds)."""
    source_retry_at: float = 0.0
    source_failures: int = 0
    paced: bool = False
    """Left out of fetches for now, as its topic is over its limit."""
    most_fetch_bytes: int = 0
    """The most that a fetch may ask for of it because of such a limit; 0: there is none."""
    batch_bytes: int = 0
    """The largest batch of the last fetch that a limit counted; 0: not known."""
    limited_by: str | None = None
    """The keys with the limit because of which records of it wait."""
    held: bool = False
    """Left out of fetches because enough of it waits to be produced."""
    undecided: int = 0
    """Offsets of the source from the first open transaction on, which are not to be read yet."""
    undecided_since: float = 0.0
    """When that transaction was first seen open (monotonic seconds)."""

    target_checked: int = UNKNOWN
    target_topic_id: UUID | None = None
    next_target_id: UUID | None = None
    former_target_ids: tuple[UUID, ...] = ()
    landed_early: int | None = None
    """The target put the oldest batch in flight at this offset, before the end of its log as far
    as known. It stays in flight until the cause is clear."""
    landed_version: int = 0
    """The version of the target's metadata when that happened."""
    target_end: int = UNKNOWN
    """The target offset after the last one acknowledged."""
    anchors: list[tuple[int, int]] = field(default_factory=list)
    """(source offset, target offset) pairs, ascending: where it was at times."""

    @property
    def position(self) -> int:
        """Next source offset to fetch; UNKNOWN before it is begun with."""
        return self.resume if self.incoming is None else self.incoming

    @property
    def fetched_all(self) -> bool:
        """Whether there is an end, and everything before it was fetched."""
        return self.end is not None and self.position >= self.end

    @property
    def done(self) -> bool:
        """Whether there is an end, and everything before it was acknowledged."""
        return self.end is not None and self.acked_position >= self.end

    # Where it is.

    def begin_at(self, offset: int) -> None:
        """Begin to copy at this source offset."""
        self.relocate(offset)
        self.started()

    def started(self) -> None:
        """Its first source offset is known."""
        if self.state is CopyState.STARTING:
            self.life.on(CopyEvent.STARTED, self.name)

    def relocate(self, offset: int) -> None:
        """Go on at another source offset. Nothing may be queued or in flight."""
        if self.queue or self.in_flight or self.incoming is not None:
            raise self._broken(f"it was moved to {offset} with batches under way")
        self.acked_position = offset
        self._moved()
        self.life.note("moved to", offset)

    def _moved(self) -> None:
        """It goes on elsewhere: nothing that was asked about the former place holds."""
        self.moves += 1
        self.tail_start = None

    def fetched_to(self, offset: int) -> None:
        """Batches up to this offset were fetched, and are queued next."""
        if self.incoming is not None or offset < self.resume:
            raise self._broken(f"batches up to {offset} were fetched behind {self.position}")
        self.incoming = offset

    def queued(self, offset: int) -> None:
        """The batches of the last fetch are queued; those up to `offset` that are not need no
        copying. Beyond `offset` it is fetched again."""
        self.incoming = None
        self.skip_to(offset)

    def fetch_again(self) -> None:
        """The batches of the last fetch are not queued: they are fetched again."""
        self.incoming = None

    def go_back(self, offset: int) -> None:
        """Drop everything since this source offset, which is next again. Nothing may await an
        answer."""
        self.incoming = None
        self.landed_early = None
        TargetPartition.go_back(self, offset)
        self._moved()
        self.anchors = [anchor for anchor in self.anchors if anchor[0] <= offset]

    def abandon(self) -> None:
        """Drop everything not acknowledged, whatever became of it: the next batch has another
        producer, which is to be asked for."""
        self.incoming = None
        self.landed_early = None
        self.drop_all()
        self.restart_sequence()
        self.life.on(CopyEvent.RESET, self.name)

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
        """The loss is reported, and it goes on at `loss.resume`: it must not be found again."""
        if loss.resume is not None and loss.resume < self.acked_position:
            # Should nothing be stored any more, the next start has to find it again.
            self.lost_since_stored = self.lost_since_stored or self.stored_position != UNKNOWN
            self.stored_position = UNKNOWN
        if loss.on_target:
            # The log may have lost what it knew of the producer, too.
            self.pipelined_until = 0.0
            self.target_end = loss.first
            self.anchors = [anchor for anchor in self.anchors if anchor[1] <= loss.first]
            if loss.kind is LossKind.TARGET_RECREATED:
                if self.target_topic_id is not None:
                    former = joined_by(self.former_target_ids, self.target_topic_id)
                    self.former_target_ids = former
                self.target_topic_id, self.next_target_id = self.next_target_id, None
                self.anchors.clear()
            return
        resume = 0 if loss.resume is None else loss.resume
        self.epochs.cut(resume)
        self.anchors = [anchor for anchor in self.anchors if anchor[0] <= resume]
        if loss.kind is LossKind.SOURCE_RECREATED:
            if self.source_topic_id is not None:
                former = joined_by(self.former_source_ids, self.source_topic_id)
                self.former_source_ids = former
            self.source_topic_id, self.next_source_id = self.next_source_id, None
            self.epochs = EpochStarts()
            self.anchors.clear()

    def forecast_loss(self, now: float) -> None:
        """Estimate when retention will delete records that are not copied yet."""
        start, position = self.log_start_offset, self.acked_position
        if start == UNKNOWN or position == UNKNOWN:
            return
        self.forecast.note(now, start, position)
        seconds = self.forecast.seconds(now, start, position) if self.lag else float("inf")
        self.metrics.set_time_to_loss(max(0, position - start), seconds)

    def anchored(self, target_offset: int) -> tuple[int, int] | None:
        """The last known (source offset, target offset) that is not after `target_offset`."""
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
            self.former_source_ids,
            self.former_target_ids,
        )

    def stored(self, position: int) -> None:
        """This position was stored as its source offset."""
        self.stored_position = position
        self.lost_since_stored = False

    def learn(self, facts: LogFacts) -> None:
        """What was known when this position was stored. Call before anything is compared, or
        later: what was seen since stays. Nothing of it holds once the partition was moved."""
        if self.moves > 1:
            return
        self.source_topic_id = facts.source_topic_id or self.source_topic_id
        self.target_topic_id = facts.target_topic_id or self.target_topic_id
        self.former_source_ids = facts.former_source_ids or self.former_source_ids
        self.former_target_ids = facts.former_target_ids or self.former_target_ids
        self.epochs.precede(facts.epochs)
        if self.target_end == UNKNOWN:
            self.target_end = facts.target_end
            self.anchors = list(facts.anchors)
            if not self.queue and not self.in_flight:
                self.tail_start = facts.reached(self.position)
        self.source_checked = self.target_checked = UNKNOWN

    @property
    def unstored(self) -> bool:
        """Whether it moved since its source offset was stored. Never of a broken partition: its
        positions cannot be trusted."""
        return (
            self.broken is None
            and self.acked_position > 0
            and self.acked_position != self.stored_position
        )

    @property
    def send_held(self) -> bool:
        """Whether nothing may be sent for now, whatever else is the case."""
        return (
            self.halted
            or self.target_checking
            or self.comparing
            or self.landed_early is not None
            or self.broken is not None
        )

    @property
    def to_resolve(self) -> bool:
        """Whether a recovery has all its answers, and none of them is in doubt."""
        recovering = self.state is CopyState.RECOVERING and not self.unanswered
        return recovering and self.landed_early is None

    @property
    def may_leave(self) -> bool:
        """Whether it is unassigned, and nothing of it is in flight any more."""
        in_flight = bool(self.in_flight) if self.broken is None else bool(self.unanswered)
        return self.leaving and not in_flight

    @property
    def held_back(self) -> bool:
        """Whether it must not be fetched for now, whatever else is the case."""
        return (
            bool(self.standing)
            or self.broken is not None
            or self.checking
            or self.comparing
            or self.searching
            or self.quarantining
            or self.unkept
        )

    @property
    def error(self) -> str | None:
        """Why it does not move; None while it moves or is caught up."""
        return (
            self.broken
            or self.standing
            or self.placement_error
            or self.source_error
            or self.target_error
            or self.unreachable
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
