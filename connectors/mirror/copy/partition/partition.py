"""The source side of one mirrored partition.

Belongs to the copy engine's thread. Other threads see only its health (`CopyEngine.health`).

    position ──fetch──> queue ──produce──> in flight ──ack──> acked position

`target_partition.py` has the target side, `stored_partition.py` what is stored,
`tracked_partition.py` what is known of both logs, `states.py` the states. `position` is derived: it
follows the last batch queued or in flight. Only `begin_at`, `go_back`, `relocate` and
acknowledgements move `acked_position`.

An unassigned partition is `leaving`: batches in flight finish, nothing new starts. A partition
whose logs lost records stops (`standing`) if the user's loss policy is `fail`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count

from connect.protocol.small_batches import MAX_BATCH_BYTES
from connectors.mirror.copy.batches.outgoing import UNKNOWN, Failure, Outgoing
from connectors.mirror.copy.batches.transformed import ChangeRecord
from connectors.mirror.copy.partition.lag import lag_in_ms, lag_in_records
from connectors.mirror.copy.partition.offset_size import OffsetSize
from connectors.mirror.copy.partition.retention_forecast import LossForecast
from connectors.mirror.copy.partition.states import CopyEvent, CopyState
from connectors.mirror.copy.partition.target_partition import TargetPartition
from connectors.mirror.copy.partition.tracked_partition import TrackedPartition
from connectors.mirror.offsets.offset_map_pages import OffsetRun

__all__ = ["UNKNOWN", "CopyState", "Failure", "OffsetRun", "Outgoing", "PartitionCopy"]

_ENOUGH_SMALL = 4
"""The number of small queued batches that is enough."""

_log_numbers = count()


@dataclass(slots=True, eq=False)
class PartitionCopy(TrackedPartition):
    """One mirrored partition. `source` and `target` are (topic, partition)."""

    leaving: bool = False
    standing: str | None = None
    """Why it is stopped until a user acts: the lost records and their offsets."""
    placement_error: str | None = None
    source_error: str | None = None
    stall: str | None = None
    """Why it makes no progress although there is no error."""
    progress: tuple[tuple[int, int], float] = ((UNKNOWN - 1, 0), 0.0)
    """What was `copied` at the last look, and when that last grew (monotonic seconds)."""
    held_since: float = float("inf")
    """Since when it is `held_back`; approximately now while it is not."""

    change: ChangeRecord | None = None
    """The transformation of each record; None: batches are copied as they are."""
    end: int | None = None
    """The first source offset not to copy; None: no end."""
    log_number: int = field(default_factory=_log_numbers.__next__)
    """A number that changes with each move and is used by no other partition: a fetch response from
    before a move, or to a partition that left and came back, may be of an earlier log."""
    high_watermark: int = UNKNOWN
    log_start_offset: int = UNKNOWN
    acked_timestamp: int = UNKNOWN
    forecast: LossForecast = field(default_factory=LossForecast)
    size: OffsetSize = field(default_factory=OffsetSize)
    lost_records: int = 0
    """Source offsets that were deleted before they were copied."""

    source_node: int = UNKNOWN
    far_behind: bool = False
    """Whether its last fetch response left more records than a few fetches return."""
    in_backlog: bool = False
    """Whether it is fetched with the others that are far behind, apart from the rest."""
    source_epoch: int = UNKNOWN
    learning: bool = False
    """The facts that were stored with its position are not read yet: meanwhile it is not fetched,
    and its logs are not compared with anything."""
    checking: bool = False
    """Not fetched, because its logs are being validated."""
    comparing: bool = False
    """Neither fetched nor sent, because the target's log end is being compared with the source."""
    is_new: bool = False
    """Whether it started without a stored offset."""
    start_unsaved: bool = False
    """Not fetched, because its start position is being stored."""
    target_checking: bool = False
    """The target's log is being validated: nothing is sent meanwhile."""
    halted: bool = False
    """Nothing more is sent, because the fetched batches are not those that the target needs
    next."""
    quarantining: bool = False
    """Not fetched, because an unreadable batch is being quarantined."""
    searching: bool = False
    """Not fetched, because a ListOffsets request for its next position is in flight."""
    preferred_replica: int = UNKNOWN
    preferred_until: float = 0.0
    """When to ask the leader again for a preferred read replica (monotonic seconds)."""
    source_retry_at: float = 0.0
    source_failures: int = 0
    paced: bool = False
    """Left out of fetches because its topic is over its rate limit."""
    most_fetch_bytes: int = 0
    """The largest fetch size that a rate limit allows; 0: no limit."""
    batch_bytes: int = 0
    """The largest batch of the last fetch under a limit; 0: not known."""
    limited_by: str | None = None
    """The keys of the rate limit that delays its records."""
    held: bool = False
    """Left out of fetches because enough of its batches wait to be produced."""
    undecided: int = 0
    """Source offsets from the first open transaction on, which cannot be read yet."""
    undecided_since: float = 0.0
    """When that transaction was first seen open (monotonic seconds)."""

    landed_early: int | None = None
    """The target appended the oldest batch in flight at this offset, before the known log end. The
    batch stays in flight until the cause is known."""
    landed_version: int = 0
    """The version of the target's metadata at that time."""

    def copied(self, position: int) -> tuple[int, int]:
        """Return two numbers, of which one grows when something is copied up to this `position`.
        To go on after a loss is to copy nothing, so lost records do not count. The position goes
        back where the target lost what was just copied; the number of records never does."""
        return position - self.lost_records, self.metrics.counts()[0]

    @property
    def source_key(self) -> tuple[int, bool]:
        """Return the key of its fetch session in `SourceNodes`."""
        return self.source_node, self.in_backlog

    @property
    def fetched_all(self) -> bool:
        """Whether there is an end, and everything before it was fetched."""
        return self.end is not None and self.position >= self.end

    def has_enough_pending(self, most_bytes: int) -> bool:
        """Whether nothing more should be fetched until the target acknowledges some batches: they
        take `most_bytes`, or several are queued that are small on average. A request carries one
        batch of a partition, so small ones that are fetched one by one would only become a long
        queue. Left at the source, they come in one response and are merged. If the partition is far
        behind, responses are full anyway."""
        if self.pending_bytes >= most_bytes:
            return True
        pending = len(self.queue) + len(self.in_flight)
        return (
            len(self.queue) >= _ENOUGH_SMALL
            and self.pending_bytes < pending * MAX_BATCH_BYTES
            and not self.far_behind
        )

    @property
    def done(self) -> bool:
        """Whether there is an end, and everything before it was acknowledged."""
        return self.end is not None and self.acked_position >= self.end

    @property
    def source_watched(self) -> bool:
        """Whether a change of the source's log that is found now would be new."""
        return not (self.searching or self.leaving or self.standing or self.position == UNKNOWN)

    @property
    def target_watched(self) -> bool:
        """Whether a change of the target's log that is found now would be new. Also while the
        source's loss is examined (`searching`), because the next acknowledgement would hide it."""
        return not (self.halted or self.leaving or self.standing or self.position == UNKNOWN)

    # Position.

    def begin_at(self, offset: int) -> None:
        """Start copying at this source offset."""
        self.relocate(offset)
        self.started()

    def started(self) -> None:
        if self.state is CopyState.STARTING:
            self.life.on(CopyEvent.STARTED, self.name)

    def relocate(self, offset: int) -> None:
        """Continue at another source offset. No batch may be queued or in flight."""
        if self.queue or self.in_flight or self.incoming is not None:
            raise self._broken(f"it was moved to {offset} with batches queued or in flight")
        self.acked_position = offset
        self._moved()
        self.life.note("moved to", offset)

    def _moved(self) -> None:
        """Reset the state that depended on the previous position."""
        self.moves += 1
        self.log_number = next(_log_numbers)
        self.tail_start = None

    def fetched_to(self, offset: int) -> None:
        """Record that batches up to this offset were fetched and are queued next."""
        if self.incoming is not None or offset < self.resume:
            raise self._broken(
                f"batches up to {offset} were fetched, although {self.position} was already reached"
            )
        self.incoming = offset

    def queued(self, offset: int) -> None:
        """Record that the batches of the last fetch are queued. Offsets up to `offset` that are in
        none of them need no copying. The next fetch starts at `offset`."""
        self.incoming = None
        self.skip_to(offset)

    def fetch_again(self) -> None:
        """Drop the last fetch, so that its batches are fetched again."""
        self.incoming = None

    def go_back(self, offset: int) -> None:
        """Drop everything from this source offset on, and fetch from it again. No response may be
        outstanding."""
        self.incoming = None
        self.landed_early = None
        TargetPartition.go_back(self, offset)
        self._moved()
        self.anchors = [anchor for anchor in self.anchors if anchor[0] <= offset]

    def abandon(self) -> None:
        """Drop everything not acknowledged, whatever its outcome. The next batch needs a new
        producer ID, which must be requested."""
        self.incoming = None
        self.landed_early = None
        self.drop_all()
        self.restart_sequence()
        self.life.on(CopyEvent.RESET, self.name)

    def appended_early(self, offset: int, version: int) -> bool:
        """Note that the target appended the oldest batch in flight at `offset`, before the known
        log end. `version`: of the target's metadata. Returns whether the cause must be found."""
        if not self.target_watched or self.landed_early is not None:
            return False
        self.landed_early, self.landed_version = offset, version
        return True

    def forecast_loss(self, now: float) -> None:
        """Estimate when retention will delete records that are not copied yet."""
        start, position = self.log_start_offset, self.acked_position
        if start == UNKNOWN or position == UNKNOWN:
            return
        self.forecast.note(now, start, position)
        seconds = self.forecast.seconds(now, start, position) if self.lag else float("inf")
        self.metrics.set_time_to_loss(max(0, position - start), seconds)

    @property
    def send_held(self) -> bool:
        """Whether the source side forbids sending now."""
        return (
            self.halted
            or self.target_checking
            or self.comparing
            or self.landed_early is not None
            or self.broken is not None
        )

    @property
    def to_resolve(self) -> bool:
        """Whether a recovery has all its responses, and none of them is in doubt."""
        recovering = self.state is CopyState.RECOVERING and not self.unanswered
        return recovering and self.landed_early is None

    @property
    def may_leave(self) -> bool:
        """Whether it is unassigned and has nothing in flight."""
        in_flight = bool(self.in_flight) if self.broken is None else bool(self.unanswered)
        return self.leaving and not in_flight

    @property
    def held_back(self) -> bool:
        """Whether it must not be fetched now, for any reason."""
        return (
            bool(self.standing)
            or self.broken is not None
            or self.checking
            or self.learning
            or self.comparing
            or self.searching
            or self.quarantining
            or self.start_unsaved
            or self.behind_stored
        )

    @property
    def error(self) -> str | None:
        """Return why it makes no progress; None while it does or is caught up."""
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
        """Return the lag in records; None until it is known."""
        return lag_in_records(self.high_watermark, self.acked_position)

    def lag_ms(self, now_ms: int) -> int | None:
        """Return the age of the newest copied record while there is lag; 0 if caught up."""
        return lag_in_ms(self.lag, self.acked_timestamp, now_ms)
