"""Decides which piece of the backfill is copied next, and at which rate. Pure: the time is a
parameter.

A piece is copied by one task. It is either `piece_bytes` of a large partition or the remaining
records of several small ones. A partition is in at most one piece, so that its records stay in
order. The partition that would lose records soonest comes first, then the largest. Results are
stored after each piece, so other partitions get their turn once they are more urgent.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import islice

from connect.loop import backoff_s
from connect.protocol.messages import TopicPartition
from connectors.mirror.config.rates import FlowLimits, RateLimit
from connectors.mirror.copy.range_copier import SourceRange
from connectors.mirror.copy.rate_shares import RateShares, Share
from connectors.mirror.retention.deadline import NEVER

__all__ = [
    "BackfillScheduler",
    "Chunk",
    "ChunkProgress",
    "PartitionJob",
    "PartitionState",
    "SchedulerOptions",
    "urgent_first",
]


MOST_RANGES = 64
"""Maximum number of ranges of one piece; they share its connections."""

GIVE_UP_AFTER = 5
"""A partition is given up after this many consecutive failures without a copied record."""

RETRY_FIRST_S, RETRY_CAP_S = 1.0, 30.0


class PartitionState(Enum):
    """States of a partition. Transitions: WAITING -> COPYING -> WAITING, DONE or FAILED."""

    WAITING = "waiting"
    COPYING = "copying"
    DONE = "done"
    FAILED = "failed"


@dataclass(slots=True)
class PartitionJob:
    """One partition of the job. `offset_bytes`: measured bytes per offset. `loss_at_ms`: when it
    may start to lose records (`urgency`)."""

    source: TopicPartition
    target: TopicPartition
    begin: int
    end: int
    position: int
    offset_bytes: float
    landed: int = 0
    """The expected target offset of the next record."""
    loss_at_ms: float = NEVER
    copied_bytes: int = 0
    copied_records: int = 0
    found_records: int = 0
    """Records that were on the target already and were not copied again."""
    lost: int = 0
    note: str = ""
    error: str | None = None
    failures: int = 0
    retry_at: float = 0.0
    state: PartitionState = PartitionState.WAITING

    @property
    def left(self) -> int:
        """Number of source offsets still to process."""
        return max(0, self.end - self.position)

    @property
    def left_bytes(self) -> int:
        return round(self.left * self.offset_bytes)


@dataclass(frozen=True, slots=True)
class ChunkProgress:
    """Progress of one range of a piece: all records before `position` are stored."""

    source: TopicPartition
    position: int
    records: int = 0
    bytes: int = 0
    lost: int = 0
    landed: int | None = None


@dataclass(frozen=True, slots=True)
class Chunk:
    """The work of one task: at most one range per partition, for at most `seconds`, at `rate` bytes
    per second in total (None: unlimited)."""

    number: int
    ranges: tuple[SourceRange, ...]
    rate: float | None
    seconds: float

    @property
    def pace(self) -> FlowLimits:
        """Return the limits that its copier keeps to."""
        return FlowLimits(RateLimit(bytes=self.rate))


@dataclass(frozen=True, slots=True)
class SchedulerOptions:
    """Settings of the scheduler. `rate`: bytes per second of the whole job."""

    piece_bytes: int
    piece_seconds: float
    rate: float | None = None


@dataclass(slots=True)
class BackfillScheduler:
    """Chooses pieces and tracks the state of each partition. For one thread."""

    dealing: SchedulerOptions
    jobs: dict[TopicPartition, PartitionJob] = field(default_factory=dict)
    _waiting: list[PartitionJob] = field(default_factory=list)
    """Waiting partitions, most urgent first; may include some that were given up since. The order
    is kept because sorting all partitions of a large job for every piece takes longer than copying
    the piece."""
    _active: dict[int, Share | None] = field(default_factory=dict)
    _shares: RateShares | None = None
    _dealt: int = 0

    @classmethod
    def of(cls, jobs: Iterable[PartitionJob], dealing: SchedulerOptions) -> BackfillScheduler:
        dealer = cls(dealing, {job.source: job for job in jobs})
        if dealing.rate is not None:
            dealer._shares = RateShares(dealing.rate, 0.0, burst_s=0.0)
        for job in dealer.jobs.values():
            if job.position >= job.end:
                job.state = PartitionState.DONE
        dealer.weighed()
        return dealer

    def weighed(self) -> None:
        """Sort again, because the urgency of partitions has changed."""
        waiting = [job for job in self.jobs.values() if job.state is PartitionState.WAITING]
        self._waiting = urgent_first(waiting)

    @property
    def active(self) -> int:
        """Number of pieces in flight."""
        return len(self._active)

    @property
    def finished(self) -> bool:
        """Whether no partition is left to copy."""
        waits = any(job.state is PartitionState.WAITING for job in self._waiting)
        return not self._active and not waits

    def next_piece(self, now: float, slots: int) -> Chunk | None:
        """Return a piece for a free slot, if there are this many slots; None if there is none now.
        `now`: monotonic seconds."""
        free = slots - len(self._active)
        if free <= 0:
            return None
        ready = self._ready(MOST_RANGES * free, now)
        if not ready:
            return None
        share, size = None, self.dealing.piece_bytes
        if self._shares is not None:
            share = self._shares.take(min(free, len(ready)), now)
            if share is None:
                return None
            # Keep pieces short, so that the rate limit is divided again soon and stored offsets
            # keep up.
            size = max(1, min(size, round(share.rate * self.dealing.piece_seconds / 2)))
        chosen = self._choose(ready, size, free)
        self._dealt += 1
        piece = Chunk(
            self._dealt,
            tuple(wanted for wanted, _ in chosen),
            None if share is None else share.rate,
            self.dealing.piece_seconds,
        )
        for wanted in piece.ranges:
            self.jobs[wanted.source].state = PartitionState.COPYING
        self._take_out(self.jobs[piece.ranges[-1].source])
        self._active[piece.number] = share
        return piece

    def _ready(self, most: int, now: float) -> list[PartitionJob]:
        """Return the most urgent waiting partitions, as many as the next piece can need."""
        ready = (
            job
            for job in self._waiting
            if job.retry_at <= now and job.state is PartitionState.WAITING
        )
        return list(islice(ready, most))

    def _take_out(self, last: PartitionJob) -> None:
        """Remove partitions that no longer wait, up to and including `last`."""
        end = self._waiting.index(last) + 1
        left = [job for job in self._waiting[:end] if job.state is PartitionState.WAITING]
        self._waiting[:end] = left

    @staticmethod
    def _choose(
        ready: Sequence[PartitionJob], size: int, free: int
    ) -> list[tuple[SourceRange, int]]:
        """Return the most urgent partition. If little of it is left, add the next partitions of
        which little is left."""
        chosen: list[tuple[SourceRange, int]] = []
        room = size
        # Limit the partitions per piece, so that the other slots have work.
        most = min(MOST_RANGES, -(-len(ready) // free))
        for job in ready:
            weight = job.left_bytes
            if chosen and weight > room:
                break
            end = job.end
            if weight > room:
                offsets = max(1, int(room / max(job.offset_bytes, 1e-9)))
                end = min(job.end, job.position + offsets)
                weight = round((end - job.position) * job.offset_bytes)
            chosen.append((SourceRange(job.source, job.target, job.position, end), weight))
            room -= weight
            if room <= 0 or len(chosen) >= most:
                break
        return chosen

    def copied(self, piece: Chunk, advances: Iterable[ChunkProgress], now: float) -> None:
        """Record that a piece has ended and its result is stored. Ranges without a `ChunkProgress`
        made no progress."""
        share = self._active.pop(piece.number)
        by_source = {each.source: each for each in advances}
        if self._shares is not None and share is not None:
            self._shares.give_back(share, sum(each.bytes for each in by_source.values()), now)
        for wanted in piece.ranges:
            job = self.jobs[wanted.source]
            job.state = PartitionState.WAITING
            if (advance := by_source.get(wanted.source)) is not None:
                _advance(job, advance)
            if job.position >= job.end:
                job.state = PartitionState.DONE
            else:
                insort(self._waiting, job, key=_urgency)

    def failed(self, source: TopicPartition, reason: str, now: float) -> None:
        """Record that a partition made no progress. After `GIVE_UP_AFTER` failures it is given
        up."""
        job = self.jobs[source]
        if job.state is PartitionState.DONE:
            return
        job.error = reason
        job.failures += 1
        job.retry_at = now + backoff_s(RETRY_FIRST_S, RETRY_CAP_S, job.failures - 1)
        if job.failures >= GIVE_UP_AFTER:
            job.state = PartitionState.FAILED


def urgent_first(jobs: Iterable[PartitionJob]) -> list[PartitionJob]:
    """Return the jobs sorted: the one that would lose records soonest first, then the largest."""
    return sorted(jobs, key=_urgency)


def _urgency(job: PartitionJob) -> tuple[float, int, TopicPartition]:
    return job.loss_at_ms, -job.left_bytes, job.source


def _advance(job: PartitionJob, advance: ChunkProgress) -> None:
    offsets = advance.position - job.position
    job.lost += advance.lost
    job.copied_records += advance.records
    job.copied_bytes += advance.bytes
    if advance.landed is not None:
        job.landed = advance.landed
    if not offsets:
        return
    job.position = advance.position
    job.failures, job.error, job.retry_at = 0, None, 0.0
    if offsets > 0 and advance.bytes and offsets > advance.lost:
        job.offset_bytes = advance.bytes / (offsets - advance.lost)
