"""One partition of a flow that Spark copies: its position and the reason why it does not
advance."""

from __future__ import annotations

from dataclasses import dataclass, field
from uuid import UUID

from connect.plugin import PartitionHealth
from connect.protocol.messages import TopicPartition
from connectors.mirror.config.losses import Loss, LossKind
from connectors.mirror.copy.known_logs import KnownLogs
from connectors.mirror.copy.partition.lag import lag_in_ms, lag_in_records
from connectors.mirror.copy.partition.leader_epochs import LeaderEpochCache
from connectors.mirror.copy.partition.offset_size import OffsetSize
from connectors.mirror.copy.partition.retention_forecast import LossForecast
from connectors.mirror.copy.partition.stored_facts import StoredFacts
from connectors.mirror.metrics import PartitionMetrics
from connectors.mirror.offsets.log_identity import LogIdentity, Pairs, anchored, joined_by

__all__ = ["UNKNOWN", "SparkPartition"]

UNKNOWN = -1
_ANCHORS = 4
_FIRST_GUESS_BYTES = 1024
"""Size of an offset before anything was measured. A wrong guess makes shards uneven."""


@dataclass(slots=True, eq=False)
class SparkPartition:
    """One partition. Offsets are the source's: everything before `position` is on the target or
    needs no copying, and `end` is the first offset that consumers cannot read yet."""

    source: TopicPartition
    target: TopicPartition
    metrics: PartitionMetrics
    position: int = UNKNOWN
    stored: int = UNKNOWN
    storing: int = UNKNOWN
    """The highest position that may be stored: a commit of it is open, or failed."""
    stored_facts: StoredFacts = field(default_factory=StoredFacts)
    end: int = UNKNOWN
    log_start: int = UNKNOWN
    newest_timestamp: int = UNKNOWN
    topic_id: UUID | None = None
    former_ids: tuple[UUID, ...] = ()
    """IDs of deleted topics. A broker that restarts may still return one of them."""
    next_id: UUID | None = None
    """The ID of the source's topic that was re-created, until copying continues there."""
    target_topic_id: UUID | None = None
    former_target_ids: tuple[UUID, ...] = ()
    next_target_id: UUID | None = None
    """The ID of the target's topic that was re-created, until that is reported."""
    epochs: Pairs = ()
    """(leader epoch, first offset) of the source's batches before `position`, as far as known."""
    source_checked: int = UNKNOWN
    """The leader epoch in which a shard last validated the source's log."""
    target_checked: int = UNKNOWN
    target_end: int = UNKNOWN
    """The target offset after the last record that is known to be there."""
    anchors: tuple[tuple[int, int], ...] = ()
    """(position, target end) of the last commits."""
    tail_start: tuple[int, int] | None = None
    """The (source offset, target offset) from which on the target may have more records than is
    known. It waits until they are compared. Without a target offset, it waits for the end of the
    target's log."""
    comparing: bool = False
    """Waits until the target's log end was listed, and compared with the source."""
    learns: bool = False
    """Waits until the facts about its logs at the last commit were read."""
    start_unknown: bool = False
    """No offset is stored, and it is not known yet whether there is an earlier start position."""
    start_unsaved: bool = False
    """Waits until its start position is stored."""
    loss: Loss | None = None
    """The last loss that was reported."""
    begin_again: LossKind | None = None
    """Its topic on the source or the target was re-created: start at the source's first record."""
    copy_error: str | None = None
    listing_error: str | None = None
    """Why the source does not return its offsets."""
    failures: int = 0
    retry_at: float = 0.0
    busy: bool = False
    unsure: bool = False
    """The stored offset is not known, because an executor may have copied more."""
    leaving: bool = False
    transformed: bool = False
    """Its copies differ from their records, so they cannot be compared."""
    sliced: bool = False
    """Its shards have a limited size, and a shard of a troubled partition has no other
    partition."""
    limited_by: str | None = None
    """The rate limit that recently delayed its records."""
    held_since: float | None = None
    """Since when the limit keeps it out of shards (monotonic seconds)."""
    copied_at: float = UNKNOWN
    """When its last result came (monotonic seconds)."""
    since: int = 0
    """When it began to wait for a shard: a higher number is later."""
    size: OffsetSize = field(default_factory=OffsetSize)
    forecast: LossForecast = field(default_factory=LossForecast)

    @property
    def error(self) -> str | None:
        """Return why it does not advance; None while it does or is caught up."""
        return self.standing or self.copy_error or self.listing_error

    @property
    def standing(self) -> str | None:
        """Return why it is stopped until a user acts: the lost records and their offsets."""
        return str(self.loss) if self.loss is not None and self.loss.resume is None else None

    @property
    def acked_position(self) -> int:
        return self.position

    @property
    def log_start_offset(self) -> int:
        return self.log_start

    @property
    def high_watermark(self) -> int:
        return self.end

    @property
    def behind_stored(self) -> bool:
        """Whether a loss moved it back behind the source offset that is, or may be, stored."""
        return UNKNOWN < self.position < max(self.stored, self.storing)

    def forget_target(self, loss: Loss) -> None:
        """Forget the end of the target's log, because the target lost records. It is known again
        after the next shard. If the topic was re-created and copying continues, the new topic is
        the target from now on."""
        self.target_end = self.target_checked = UNKNOWN
        self.anchors = tuple(anchor for anchor in self.anchors if anchor[1] <= loss.first)
        if loss.kind is LossKind.TARGET_RECREATED and loss.resume is not None:
            self.anchors = ()
            self.former_target_ids = joined_by(self.former_target_ids, self.target_topic_id)
            # None, if an executor noticed it: the ID that its shard brings, or else the metadata
            # shows next, is kept.
            self.target_topic_id, self.next_target_id = self.next_target_id, None

    def has_target(self, topic_id: UUID | None) -> bool:
        """Whether the target's topic, which has this ID (None: not known), is the one whose end is
        known. An ID that was not known before is kept."""
        if topic_id is None or topic_id in self.former_target_ids:
            return True  # A broker with old metadata may return a deleted topic's ID.
        self.target_topic_id = self.target_topic_id or topic_id
        return self.target_topic_id == topic_id

    def anchored(self, target_offset: int) -> tuple[int, int] | None:
        """Return the last known (source offset, target offset) pair up to `target_offset`."""
        return anchored(self.anchors, target_offset)

    def passed_epochs(self, epochs: Pairs) -> None:
        """Note the leader epochs of batches that need no copying, after the copied ones."""
        joined = LeaderEpochCache(self.epochs)
        joined.follow(epochs)
        self.epochs = joined.starts

    def is_another(self, topic_id: UUID) -> bool:
        """Whether the source's topic, which has this ID now, is another one than the copied one,
        and that is news. An ID that was not known before is kept."""
        if topic_id == self.topic_id or topic_id in self.former_ids:
            return False  # A broker with old metadata may return a deleted topic's ID.
        if self.topic_id is None or self.position == UNKNOWN:
            self.former_ids = joined_by(self.former_ids, self.topic_id)
            self.topic_id = topic_id
            return False
        before, self.next_id = self.next_id, topic_id
        return topic_id != before

    def follow_source(self) -> None:
        """Note that copying continues in the source topic that was re-created. Until then, the
        deleted one belongs to the position."""
        self.former_ids = joined_by(self.former_ids, self.topic_id)
        # None, if an executor noticed it: the ID that its shard brings, or else the metadata shows
        # next, is kept.
        self.topic_id, self.next_id = self.next_id, None

    def forget_source(self) -> None:
        """Forget what was known of the log of a source topic that was deleted."""
        self.epochs, self.source_checked = (), UNKNOWN

    def known(self) -> KnownLogs:
        """Return what the next shard has to know of the logs."""
        return KnownLogs(self.facts(self.position), self.source_checked, self.target_checked)

    def saw(self, known: KnownLogs | None) -> None:
        """Set what a shard, which has brought it to its position, knows of the logs."""
        if known is None:
            self.forget_source()
            return
        facts = known.facts
        if self.topic_id is None and facts.source_topic_id not in self.former_ids:
            self.topic_id = facts.source_topic_id
        if self.target_topic_id is None and facts.target_topic_id not in self.former_target_ids:
            self.target_topic_id = facts.target_topic_id
        if facts.source_topic_id == self.topic_id:
            self.epochs, self.source_checked = facts.epochs, known.source_checked
        else:
            self.forget_source()
        if facts.target_topic_id == self.target_topic_id:
            self.anchors, self.target_checked = facts.anchors[-_ANCHORS:], known.target_checked

    def moved_without_epochs(self) -> None:
        """Note that its position was set from elsewhere. The epochs that are known might be older
        than that of the last record before it, and would make the log look cut off."""
        self.epochs = ()

    def learn(self, known: LogIdentity) -> None:
        """Set the facts about the logs as they were when its position was stored. If the source's
        topic has another ID now, it was re-created."""
        self.topic_id = known.source_topic_id or self.topic_id
        self.target_topic_id = known.target_topic_id or self.target_topic_id
        self.former_ids = known.former_source_ids or self.former_ids
        self.former_target_ids = known.former_target_ids or self.former_target_ids
        self.epochs = self.epochs or known.epochs
        self.anchors = self.anchors or tuple(
            each for each in known.anchors if each[0] <= self.position
        )

    def facts(self, position: int) -> LogIdentity:
        """Return the facts that the next start at this position needs to detect losses since."""
        return LogIdentity(
            max(0, self.stored),
            position,
            self.target_end,
            self.topic_id,
            self.target_topic_id,
            self.epochs,
            self.anchors,
            self.former_ids,
            self.former_target_ids,
        )

    def committing(self) -> None:
        """Note that its position is about to be stored. After a crash, the next start compares the
        logs from here.
        """
        self.storing = max(self.storing, self.position)
        self.stored_facts.storing()
        if self.target_end != UNKNOWN:
            self.anchors = (*self.anchors, (self.position, self.target_end))[-_ANCHORS:]

    @property
    def facts_to_store(self) -> bool:
        return self.stored_facts.unstored and self.position != UNKNOWN

    def committed(self, position: int) -> None:
        """Note that this position was stored as its source offset."""
        self.stored = self.storing = position
        self.stored_facts.stored()

    @property
    def lag(self) -> int | None:
        return lag_in_records(self.end, self.position)

    def lag_ms(self, now_ms: int) -> int | None:
        """Return the age of the newest copied record while there is lag; 0 if caught up."""
        return lag_in_ms(self.lag, self.newest_timestamp, now_ms)

    def forecast_loss(self, now: float) -> float:
        """Return the seconds until retention may delete records that are not copied yet; infinite
        if no loss is expected."""
        if self.log_start == UNKNOWN or self.position == UNKNOWN:
            return float("inf")
        self.forecast.note(now, self.log_start, self.position)
        seconds = float("inf")
        if self.lag:
            seconds = self.forecast.seconds(now, self.log_start, self.position)
        self.metrics.set_time_to_loss(max(0, self.position - self.log_start), seconds)
        return seconds

    def weight(self, offsets: int) -> int:
        """Return the estimated bytes of this number of offsets."""
        measured = self.size.estimate(offsets)
        return offsets * _FIRST_GUESS_BYTES if measured is None else measured

    def hold(self, limit: str, now: float) -> None:
        """Note that a limit delays its records."""
        self.limited_by = limit
        if self.held_since is None:
            self.held_since = now

    def let_go(self, now: float) -> None:
        if self.held_since is not None:
            self.metrics.throttled(now - self.held_since)
            self.held_since = None

    def show_lag(self, now_ms: int) -> None:
        self.metrics.set_lag(self.lag, self.lag_ms(now_ms))

    def health(self, now_ms: int, engine_error: str | None) -> PartitionHealth:
        state = "starting" if self.position == UNKNOWN else "busy" if self.busy else "idle"
        return PartitionHealth(
            *self.source,
            lag_records=self.lag,
            lag_ms=self.lag_ms(now_ms),
            error=self.error or engine_error,
            lag_bytes=self.size.estimate(self.lag),
            time_to_loss_ms=self.metrics.time_to_loss_ms(),
            details={
                "state": "standing" if self.standing else "backoff" if self.failures else state,
                "position": self.position,
                "high_watermark": self.end,
                "limited_by": self.limited_by,
                "timestamps_ahead_ms": self.metrics.timestamps_ahead_ms(now_ms),
                "lost_lately": self.metrics.lost_lately(now_ms),
                "target": f"{self.target[0]}-{self.target[1]}",
                "engine": "spark",
            },
        )
