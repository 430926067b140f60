"""One partition of a flow that Spark copies: where it stands, and why it does not move."""

from __future__ import annotations

from dataclasses import dataclass, field
from uuid import UUID

from connect.plugin import PartitionHealth
from connect.protocol.messages import TopicPartition
from connectors.mirror.config.losses import Loss
from connectors.mirror.copy.partition.offset_size import OffsetSize
from connectors.mirror.metrics import PartitionMetrics
from connectors.mirror.offsets.log_identity import LogIdentity

__all__ = ["UNKNOWN", "SparkPartition"]

UNKNOWN = -1
_ANCHORS = 4
_FIRST_GUESS_BYTES = 1024
"""Size of an offset before anything was measured. A wrong guess makes shards uneven."""


@dataclass(slots=True, eq=False)
class SparkPartition:
    """One partition. Offsets are the source's: everything before `position` is on the target or
    needs no copying, and `end` is the first that readers may not read yet."""

    source: TopicPartition
    target: TopicPartition
    metrics: PartitionMetrics
    position: int = UNKNOWN
    stored: int = UNKNOWN
    storing: int = UNKNOWN
    """The highest position that may be stored: a commit of it is open, or failed."""
    end: int = UNKNOWN
    log_start: int = UNKNOWN
    newest_timestamp: int = UNKNOWN
    topic_id: UUID | None = None
    former_ids: tuple[UUID, ...] = ()
    """Those of topics that were deleted. A broker that restarts may still answer one of them."""
    target_topic_id: UUID | None = None
    former_target_ids: tuple[UUID, ...] = ()
    target_end: int = UNKNOWN
    """The target offset after the last record that is known to be there."""
    anchors: tuple[tuple[int, int], ...] = ()
    """(position, target end) of the last commits."""
    tail_start: tuple[int, int] | None = None
    """(source offset, target offset) from which on the target may have more than was stored."""
    comparing: bool = False
    """The target's end is compared with the source: it waits for that."""
    learns: bool = False
    """What was known of its logs at the last commit is not looked up yet: it waits for that."""
    unbegun: bool = False
    """Nothing is stored of it, and whether it was begun before is not known yet."""
    unkept: bool = False
    """Where it begins is being kept: it waits for that."""
    loss: Loss | None = None
    """The last one that was told."""
    begin_again: bool = False
    """Its topic was created again: go on at the first record there is."""
    copy_error: str | None = None
    listing_error: str | None = None
    """Why the source does not tell its offsets."""
    failures: int = 0
    retry_at: float = 0.0
    busy: bool = False
    unsure: bool = False
    """What is stored is not known: somebody may have copied more."""
    leaving: bool = False
    limited_by: str | None = None
    """The limit because of which its records have waited lately."""
    held_since: float | None = None
    """Since when it is given to no shard because of that (monotonic seconds)."""
    since: int = 0
    size: OffsetSize = field(default_factory=OffsetSize)

    @property
    def error(self) -> str | None:
        """Why it does not move; None while it moves or is caught up."""
        return self.standing or self.copy_error or self.listing_error

    @property
    def standing(self) -> str | None:
        """Why it stands still until somebody decides: what was lost, and where."""
        return str(self.loss) if self.loss is not None and self.loss.resume is None else None

    @property
    def acked_position(self) -> int:
        return self.position

    @property
    def log_start_offset(self) -> int:
        return self.log_start

    @property
    def behind_stored(self) -> bool:
        """Whether a loss moved it back behind the source offset that is, or may be, stored."""
        return UNKNOWN < self.position < max(self.stored, self.storing)

    def forget_target(self) -> None:
        """The target lost records: where its log ends is known again after the next shard."""
        self.target_end = UNKNOWN
        self.anchors = ()

    def facts(self, position: int) -> LogIdentity:
        """What the next start, at this position, has to know to see what was lost meanwhile.
        Without leader epochs, which only executors see."""
        return LogIdentity(
            max(0, self.stored),
            position,
            self.target_end,
            self.topic_id,
            self.target_topic_id,
            (),
            self.anchors,
            self.former_ids,
            self.former_target_ids,
        )

    def committing(self) -> None:
        """Its position is about to be stored: the next start, after a crash, compares from here."""
        self.storing = max(self.storing, self.position)
        if self.target_end != UNKNOWN:
            self.anchors = (*self.anchors, (self.position, self.target_end))[-_ANCHORS:]

    @property
    def lag(self) -> int | None:
        if self.end == UNKNOWN or self.position == UNKNOWN:
            return None
        return max(0, self.end - self.position)

    def lag_ms(self, now_ms: int) -> int | None:
        """How old the newest copied record is while more wait; 0 when caught up."""
        lag = self.lag
        if lag is None or (lag > 0 and self.newest_timestamp == UNKNOWN):
            return None
        return max(0, now_ms - self.newest_timestamp) if lag else 0

    def weight(self, offsets: int) -> int:
        """The bytes of so many offsets, as far as they can be told."""
        measured = self.size.estimate(offsets)
        return offsets * _FIRST_GUESS_BYTES if measured is None else measured

    def hold(self, limit: str, now: float) -> None:
        """It has records, and may not be copied for now."""
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
            details={
                "state": "standing" if self.standing else "backoff" if self.failures else state,
                "position": self.position,
                "high_watermark": self.end,
                "limited_by": self.limited_by,
                "target": f"{self.target[0]}-{self.target[1]}",
                "engine": "spark",
            },
        )
