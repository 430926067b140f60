"""Copies bounded ranges of partitions as finite jobs, and returns where each range was written.

Used by callers that choose the ranges and store the progress: Spark tasks and backfills. Records
pass through this process as in a worker's task, and only the copied ranges are returned.
`copy_ranges` is one such job. A `RangeCopier` runs several jobs over the same connections. Under
exactly-once each job has its own transactions, which include the source offsets, and only committed
ranges are returned.
"""

from __future__ import annotations

import math
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from types import MappingProxyType

from connect.clock import SYSTEM_CLOCK, Clock, Deadline
from connect.errors import DeadlineExceeded, RetriableError
from connect.protocol.messages import TopicPartition
from connectors.mirror.config.losses import Loss
from connectors.mirror.config.rates import NO_LIMITS, FlowLimits
from connectors.mirror.copy.batches.transformed import ChangeRecord
from connectors.mirror.copy.context import CopyListener, EngineEnvironment
from connectors.mirror.copy.copied_ranges import CopiedRange, CopiedRanges
from connectors.mirror.copy.engine import CopyEngine
from connectors.mirror.copy.known_logs import KnownLogs
from connectors.mirror.copy.partition.partition import UNKNOWN, CopyState, PartitionCopy
from connectors.mirror.copy.settings import EngineSettings, TransactionPlan
from connectors.mirror.metrics import PartitionMetrics

__all__ = [
    "DRAIN_S",
    "CopyStopped",
    "OnProgress",
    "RangeCopier",
    "RangeProgress",
    "RangeReport",
    "SourceRange",
    "copy_ranges",
]

_TURN_S = 0.2
DRAIN_S = 10.0
"""At the end of a job, the maximum wait for responses to sent batches."""

_IDLE_S = 0.5
_CONNECT_S = 1.0
"""A job that follows has at least this time to copy something: it may have to connect first."""

_FLUSH_S = 1.0
"""When a job's time is over, the maximum wait for the acknowledgement of fetched batches."""

_NO_CHANGES: Mapping[TopicPartition, ChangeRecord] = MappingProxyType({})

_TOPICS_KEPT_S = 60.0
"""How long a `RangeCopier` keeps the metadata of topics that it copied. A longer time would request
metadata of deleted topics."""


@dataclass(frozen=True, slots=True)
class SourceRange:
    """Source offsets `start` (first) to `end` (exclusive) of a partition, to be copied to the
    partition `target`. `end` is not beyond the offsets that consumers can read. `known`: a
    `KnownLogs` as text; empty: the caller keeps none, and the logs as they are first seen are
    right."""

    source: TopicPartition
    target: TopicPartition
    start: int
    end: int
    known: str = ""


@dataclass(frozen=True, slots=True)
class RangeProgress:
    """Progress of one range: all records before source offset `position` are on the target or need
    no copying. `bytes`: of fetched batches. `lost`: source offsets that were deleted before they
    were copied. `records`: acknowledged ones; `shallow_records` of them were forwarded as bytes, in
    `shallow_batches`. `throttled_ms`: how long a rate limit delayed its records; `limited_by`: the
    last such limit. Offsets of the source and the newest timestamp are -1 if not known. `dropped`:
    records that transformations left out. `known`: as in `SourceRange`, at `position`."""

    range: SourceRange
    position: int
    bytes: int
    lost: int
    error: str | None
    records: int = 0
    shallow_records: int = 0
    shallow_batches: int = 0
    level_batches: int = 0
    high_watermark: int = -1
    log_start: int = -1
    newest_timestamp: int = -1
    throttled_ms: int = 0
    limited_by: str | None = None
    dropped: int = 0
    known: str = ""

    @property
    def done(self) -> bool:
        return self.position >= self.range.end


class CopyStopped(RetriableError):
    """A copy was stopped before all its ranges were done. The ranges reported so far are copied."""


OnProgress = Callable[[Sequence[RangeProgress], Sequence[CopiedRange]], None]


class RangeReport:
    """The report of a job: the last progress of each range, and all copied ranges."""

    def __init__(self) -> None:
        self.progress: Sequence[RangeProgress] = ()
        self.copied: list[CopiedRange] = []

    def add(self, progress: Sequence[RangeProgress], copied: Sequence[CopiedRange]) -> None:
        """Add a report (`OnProgress`)."""
        self.progress = progress
        self.copied += copied

    def records(self) -> Counter[TopicPartition]:
        """Return the number of copied records by partition of the source."""
        counts: Counter[TopicPartition] = Counter()
        for each in self.copied:
            counts[each.source] += each.records
        return counts


class RangeCopier:
    """Runs copy jobs one after the other. Connections, metadata and producer IDs are kept in
    between, when only the threads of the cluster links run. Belongs to one thread."""

    def __init__(
        self,
        settings: EngineSettings,
        clock: Clock = SYSTEM_CLOCK,
        transactions: TransactionPlan | None = None,
        *,
        starts_stored: bool = False,
    ) -> None:
        """`transactions`: for exactly-once; each job has another producer. `starts_stored`: the
        source offset before each range is stored. If a loss moves a partition back behind it, its
        range ends there: the caller stores that before it copies on. Else the job copies these
        records itself."""
        self._clock = clock
        self._starts_stored = starts_stored or transactions is not None
        self._copied = CopiedRanges()
        self.losses: list[Loss] = []
        """Losses of the source that the last `copy` found."""
        self._once = transactions is not None
        self._engine = CopyEngine(
            settings,
            CopyListener(
                acked=lambda partition, runs, base: self._copied.acked(partition, runs, base),
                lost=lambda partition, loss: self.losses.append(loss),
            ),
            EngineEnvironment(clock),
            transactions=transactions,
        )
        self._topics: dict[tuple[str, str], float] = {}
        self._limits = NO_LIMITS
        self.usable = True
        """Whether it may be used again: no batch with an unknown outcome is in flight."""

    def copy(
        self,
        ranges: Sequence[SourceRange],
        on_progress: OnProgress,
        *,
        stop: threading.Event,
        stall_s: float,
        report_s: float = 1.0,
        most_s: float = math.inf,
        follow: bool = False,
        limits: FlowLimits = NO_LIMITS,
        changes: Mapping[TopicPartition, ChangeRecord] = _NO_CHANGES,
    ) -> None:
        """Copy ranges like `copy_ranges`. After `most_s` seconds it ends early without an error.

        `follow`: copies the records after the ranges' ends, too, until there were none for
        `_IDLE_S`. `limits`: like those of a flow's task; one batch may exceed them, and a pause
        follows. `changes`: the transformations of partitions whose records do not stay as they
        are. Under exactly-once, an error may mean that the outcome of the last commit is not known:
        then read the stored offsets.
        """
        by_source = {wanted.source: wanted for wanted in ranges}
        if len(by_source) != len(ranges):
            raise ValueError("a partition is in more than one range")
        engine = self._engine
        self._copied = CopiedRanges()
        self.losses = []
        job = _Job(engine, self._copied, by_source, on_progress, self._clock, once=self._once)
        job.follow = follow
        job.starts_stored = self._starts_stored
        job.changes = changes
        try:
            if self._once:
                engine.renew_producer()
            # The limits count from the first requests on.
            engine.set_fetching(False)
            job.begin(self._used(ranges))
            if limits != NO_LIMITS or self._limits != NO_LIMITS:
                engine.limit(limits, 1.0)
                self._limits = limits
            engine.set_fetching(True)
            if not job.run(stop, stall_s, report_s, most_s) or self._once:
                self._drain()
            engine.note_limits()
            self._leave(by_source)
        except BaseException:
            self.usable = False
            if not self._once:  # With `_once`, open transactions are dropped.
                engine.drain(Deadline(DRAIN_S, self._clock))
            job.report()
            raise
        job.report()

    def _drain(self) -> None:
        self.usable = self._engine.drain(Deadline(DRAIN_S, self._clock))
        if self._once and not self.usable:
            raise DeadlineExceeded(
                f"the last transaction did not end within {DRAIN_S:g} s: {self._ailing()}"
            )

    def _ailing(self) -> str:
        reasons = [
            f"{p.source[0]}-{p.source[1]}: {p.error or 'not answered'}"
            for p in self._engine.partitions
            if p.error or p.outcome_unknown
        ]
        return "; ".join(sorted(reasons)) or "the transaction coordinator did not respond"

    def _used(self, ranges: Iterable[SourceRange]) -> Iterable[tuple[str, str]]:
        """Return the topics of these ranges and of recent ones."""
        now = self._clock.monotonic()
        self._topics.update({(each.source[0], each.target[0]): now for each in ranges})
        self._topics = {
            topics: at for topics, at in self._topics.items() if now - at < _TOPICS_KEPT_S
        }
        return self._topics

    def _leave(self, keys: Iterable[TopicPartition]) -> None:
        for key in keys:
            self._engine.remove(key)
        self._engine.take_departed()
        self.usable &= not any(self._engine.partitions)

    def close(self) -> None:
        """Close every connection and thread."""
        self._engine.close()


def copy_ranges(
    settings: EngineSettings,
    ranges: Sequence[SourceRange],
    on_progress: OnProgress,
    *,
    stop: threading.Event,
    stall_s: float,
) -> None:
    """Copy all ranges, at most one per partition. Returns when they are done.

    `on_progress` gets every range's progress and the new copied ranges: about every second, and
    once more at the end, also after an error. Raises `CopyStopped` after `stop` was set, and
    `DeadlineExceeded` if nothing moved for `stall_s` seconds; its message has each partition's
    reason. Blocks; everything happens on this thread.
    """
    with closing(RangeCopier(settings)) as copier:
        copier.copy(ranges, on_progress, stop=stop, stall_s=stall_s)


class _Job:
    """One call of `RangeCopier.copy`."""

    def __init__(
        self,
        engine: CopyEngine,
        copied: CopiedRanges,
        by_source: dict[TopicPartition, SourceRange],
        on_progress: OnProgress,
        clock: Clock,
        *,
        once: bool,
    ) -> None:
        self._once = once
        self._engine = engine
        self._copied = copied
        self._by_source = by_source
        self._on_progress = on_progress
        self._clock = clock
        self._partitions: dict[TopicPartition, PartitionCopy] = {}
        self.starts_stored = True
        self.follow = False
        self.changes = _NO_CHANGES

    def begin(self, topics: Iterable[tuple[str, str]]) -> None:
        for wanted in self._by_source.values():
            metrics = PartitionMetrics("", "", *wanted.target, clock=self._clock)
            partition = self._engine.add(
                wanted.source,
                wanted.target,
                wanted.start,
                metrics,
                end=None if self.follow else wanted.end,
                change=self.changes.get(wanted.source),
            )
            if wanted.known:
                partition.know(KnownLogs.of_text(wanted.known))
            if not self.starts_stored:
                partition.stored(UNKNOWN)
        self._engine.watch(topics)
        self._partitions = {partition.source: partition for partition in self._engine.partitions}

    def run(self, stop: threading.Event, stall_s: float, report_s: float, most_s: float) -> bool:
        """Run the job. Returns False if it stopped in the middle: the time was over before all
        ranges were done, or nothing follows them."""
        began = moved_at = reported_at = now = self._clock.monotonic()
        reached = first = sum(wanted.start for wanted in self._by_source.values())
        while True:
            ended = all(self._ended(partition) for partition in self._partitions.values())
            if ended and not self.follow:
                return True
            waits = self.follow and reached == first
            over = now - began >= (max(most_s, _CONNECT_S) if waits else most_s)
            if over or (ended and now - moved_at >= _IDLE_S):
                self._flush(_FLUSH_S)
                return False
            self._engine.step(_TURN_S)
            now = self._clock.monotonic()
            position = sum(partition.acked_position for partition in self._partitions.values())
            if position != reached:
                reached, moved_at = position, now
            elif now - moved_at > stall_s:
                raise DeadlineExceeded(_stalled(self._partitions, stall_s))
            if stop.is_set():
                raise CopyStopped("the copy was stopped before all its ranges were done")
            if now - reported_at >= report_s:
                reported_at = now
                self.report()

    def _ended(self, partition: PartitionCopy) -> bool:
        """Whether nothing more of it is copied in this job."""
        if partition.behind_stored and not self._once:
            return True
        return partition.acked_position >= self._by_source[partition.source].end

    def _flush(self, most_s: float) -> None:
        """Stop fetching and wait until fetched batches are acknowledged. (A drain would drop unsent
        ones.)"""
        self._engine.set_fetching(False)
        deadline = Deadline(most_s, self._clock)
        while not deadline.expired() and any(
            (partition.queue or partition.in_flight) and partition.state is CopyState.ACTIVE
            for partition in self._partitions.values()
        ):
            self._engine.step(min(_TURN_S, deadline.remaining()))

    def report(self) -> None:
        progress = [
            _progress(
                self._by_source[key],
                partition,
                partition.stored_position if self._once else partition.acked_position,
            )
            for key, partition in self._partitions.items()
        ]
        self._on_progress(progress, self._copied.take())


def _progress(wanted: SourceRange, partition: PartitionCopy, position: int) -> RangeProgress:
    figures = partition.metrics.read()
    return RangeProgress(
        wanted,
        position,
        partition.metrics.byte_count,
        partition.lost_records,
        partition.error,
        int(figures["record-count"]),
        int(figures["shallow-record-count"]),
        int(figures["shallow-batch-count"]),
        int(figures["record-level-batch-count"]),
        partition.high_watermark,
        partition.log_start_offset,
        partition.acked_timestamp,
        int(figures["throttle-time-ms"]),
        partition.limited_by,
        partition.metrics.dropped_count,
        partition.known(position).to_text() if wanted.known else "",
    )


def _stalled(partitions: dict[TopicPartition, PartitionCopy], stall_s: float) -> str:
    reasons = "; ".join(
        f"{key[0]}-{key[1]} at {partition.acked_position}: {partition.error or 'no response'}"
        for key, partition in sorted(partitions.items())
        if not partition.done
    )
    return f"nothing was copied for {stall_s:g} s: {reasons}"
