"""Runs a backfill: hands out pieces, stores their results, and meanwhile checks for conflicts.

One thread owns all state. Each piece is copied on its own thread, which passes back the outcome. A
partition is in at most one piece, and its next piece starts after the result of the previous one is
stored, so its records stay in order. After a kill, only unfinished pieces are repeated, and only
those of their records that are not found on the target.
"""

from __future__ import annotations

import logging
import queue
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from connect.clients.cluster.list_offsets import LATEST
from connect.clients.wire.one_shot_threads import OneShotThreads
from connect.clock import SYSTEM_CLOCK, Clock
from connect.errors import ConnectError, RetriableError
from connectors.mirror.backfill.cluster_facts import ClusterFacts
from connectors.mirror.backfill.engines import STALL_S, PieceEngine, PieceOutcome
from connectors.mirror.backfill.errors import LaterRecordsThere
from connectors.mirror.backfill.plan import BackfillPlan, Survey, weigh
from connectors.mirror.backfill.progress import Arrival, JobProgress
from connectors.mirror.backfill.progress_store import BackfillProgressStore
from connectors.mirror.backfill.scheduler import (
    BackfillScheduler,
    Chunk,
    ChunkProgress,
    PartitionJob,
)
from connectors.mirror.copy.copied_ranges import CopiedRange
from connectors.mirror.inspect.listed_offsets import listed
from connectors.mirror.offsets.source_offsets import Reached

__all__ = ["DRAIN_S", "BackfillJob", "JobOutcome"]

_LOG = logging.getLogger(__name__)

DRAIN_S = 12.0
"""Extra time after a piece's time limit, in which it waits for responses and sends nothing."""

_TURN_S = 0.2
_TELL_S = 1.0
_LOOK_S = 5.0
_WEIGH_S = 60.0
_LOST_IN_A_ROW = 5


class _Ended(NamedTuple):
    piece: Chunk
    outcome: PieceOutcome


@dataclass(slots=True)
class _Lost:
    """A piece whose result is unknown. Once it has surely ended, the target log shows what it
    copied."""

    piece: Chunk
    reason: str
    due: float


@dataclass(frozen=True, slots=True)
class JobOutcome:
    """The outcome of the job. `stopped`: it was stopped before everything was copied."""

    progress: JobProgress
    stopped: bool

    @property
    def complete(self) -> bool:
        return not self.stopped and not self.progress.failed


class BackfillJob:
    """Copies the partitions of one backfill. `run` may be called once."""

    def __init__(
        self,
        plan: BackfillPlan,
        facts: ClusterFacts,
        gatherer: Survey,
        dealer: BackfillScheduler,
        account: BackfillProgressStore,
        engine: PieceEngine,
        *,
        slots: Callable[[], int],
        look: Callable[[], None],
        tell: Callable[[JobProgress], None],
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """`slots`: how many pieces may be in flight now. `look`: raises if the backfill must stop;
        called every few seconds. `tell`: receives the progress about once a second."""
        self._plan = plan
        self._facts = facts
        self._gatherer = gatherer
        self._dealer = dealer
        self._account = account
        self._engine = engine
        self._slots = slots
        self._threads = OneShotThreads("backfill")
        self._look = look
        self._tell = tell
        self._clock = clock
        self._arrival = Arrival()
        self._ended: queue.Queue[_Ended] = queue.Queue()
        self._lost: list[_Lost] = []
        self._lost_in_a_row = 0
        self._began: dict[int, float] = {}
        now = clock.monotonic()
        self._told_at, self._looked_at, self._weighed_at = now - _TELL_S, now, now

    def run(self, stopping: Callable[[], bool]) -> JobOutcome:
        """Copy until everything is done or `stopping` returns true. Then wait for the pieces in
        flight.

        If the backfill has to stop, stores the results first and then raises the reason.
        """
        try:
            self._look()  # Facts may have changed since `prepare`.
            self._write_found()
            while not self._dealer.finished:
                if not stopping():
                    self._deal()
                elif not self._dealer.active:
                    break
                self._turn(_TURN_S)
                self._look_around()
        except BaseException:
            self._let_end()
            raise
        self._tell_now()
        progress = self._progress()
        return JobOutcome(progress, stopped=not self._dealer.finished)

    def _write_found(self) -> None:
        """Store the start offset of each partition, in case nothing is left to copy, and the
        records that an earlier backfill copied without storing them."""
        stored = {logs.source: logs.stored for logs in self._facts.logs}
        moved = [
            Reached(job.source, job.position, -1)
            for job in self._plan.jobs
            if job.position != stored[job.source]
        ]
        lines = [line for of_it in self._plan.found.values() for line in of_it]
        if moved:
            self._account.add(lines, moved)

    def _deal(self) -> None:
        slots = self._slots()
        while (piece := self._dealer.next_piece(self._clock.monotonic(), slots)) is not None:
            self._began[piece.number] = self._clock.monotonic()
            done = self._threads.run(f"piece-{piece.number}", partial(self._engine, piece))
            done.add_done_callback(partial(self._copied, piece))

    def _copied(self, piece: Chunk, done: Future[PieceOutcome]) -> None:
        """Pass on how a piece ended. Called on the piece's thread."""
        error = done.exception(timeout=0)
        if error is None:
            self._ended.put(_Ended(piece, done.result(timeout=0)))
            return
        _LOG.error(
            "copying a piece failed with an unexpected error; this is a defect: "
            "report it with the trace",
            exc_info=error,
        )
        reason = f"{type(error).__name__}: {error}"
        self._ended.put(_Ended(piece, PieceOutcome((), (), reason, sure=False)))

    def _turn(self, seconds: float) -> None:
        """Process one piece that has ended; wait up to `seconds` for it."""
        self._account.poll()
        try:
            ended = self._ended.get(timeout=seconds)
        except queue.Empty:
            ended = None
        if ended is not None:
            began = self._began.pop(ended.piece.number)
            if ended.outcome.sure:
                self._take(ended.piece, ended.outcome)
            else:
                self._lose(ended.piece, ended.outcome, began)
        now = self._clock.monotonic()
        for lost in [each for each in self._lost if each.due <= now]:
            self._lost.remove(lost)
            self._find(lost)

    def _take(self, piece: Chunk, outcome: PieceOutcome) -> None:
        self._lost_in_a_row = 0
        advances, reached = [], []
        for progress in outcome.progress:
            source = progress.range.source
            lines = [line for line in outcome.lines if line.source == source]
            self._note_strangers(self._dealer.jobs[source], lines)
            advances.append(
                ChunkProgress(
                    source,
                    progress.position,
                    sum(line.records for line in lines),
                    progress.bytes,
                    progress.lost,
                    lines[-1].target_start + lines[-1].records if lines else None,
                )
            )
            if progress.position != progress.range.start:
                # Also a lower one, to which a loss moved it back: a crash is not to go on beyond.
                reached.append(Reached(source, progress.position, progress.log_start))
        self._account.add(outcome.lines, reached)
        self._dealer.copied(piece, advances, self._clock.monotonic())
        for progress in outcome.progress:
            if not progress.done and progress.position == progress.range.start:
                reason = progress.error or outcome.error
                if reason is None and piece.rate is None:
                    reason = f"no record was copied in {piece.seconds:g} s"
                if reason is not None:
                    self._fail(progress.range.source, reason)
        if not outcome.progress and outcome.error is not None:
            for wanted in piece.ranges:
                self._fail(wanted.source, outcome.error)

    def _fail(self, source: tuple[str, int], reason: str) -> None:
        _LOG.warning("%s-%d: %s", *source, reason)
        self._dealer.failed(source, reason, self._clock.monotonic())

    def _note_strangers(self, job: PartitionJob, lines: list[CopiedRange]) -> None:
        """If the target has records of another producer between the copies, soon check which one
        writes."""
        landed = job.landed
        for line in lines:
            if line.target_start > landed:
                _LOG.warning(
                    "%s-%d: another producer wrote target offsets %d to %d; stop it, or audit"
                    " the copy when both have ended",
                    *job.target,
                    landed,
                    line.target_start - 1,
                )
                self._looked_at = 0.0
            landed = line.target_start + line.records

    # Pieces with an unknown result.

    def _lose(self, piece: Chunk, outcome: PieceOutcome, began: float) -> None:
        reason = outcome.error or "its executor was lost"
        _LOG.warning(
            "a piece of the copy failed, and it is unknown how many of its records the target has; "
            "reading the target's log: %s",
            reason,
        )
        self._lost_in_a_row += 1
        due = began + piece.seconds + DRAIN_S + outcome.late_s
        self._lost.append(_Lost(piece, reason, max(self._clock.monotonic(), due)))

    def _find(self, lost: _Lost) -> None:
        advances = []
        for wanted in lost.piece.ranges:
            job = self._dealer.jobs[wanted.source]
            end = listed(self._gatherer.target, [job.target], LATEST, 1)[job.target]
            topic = job.source[0]
            tail = self._gatherer.tails.look(
                job.source,
                job.target,
                (job.position, wanted.end),
                (job.landed, end),
                timestamps=topic not in self._facts.append_times,
            )
            if tail.odd is not None and topic not in self._facts.compacted:
                raise LaterRecordsThere(
                    f"{job.target[0]}-{job.target[1]}: the record at offset {tail.odd} is not "
                    f"the source's next one (offset {tail.position} of {topic}-{job.source[1]}), "
                    "so another producer writes to the partition. Stop it, then run "
                    "connect-mirror-audit to see what differs"
                )
            lines = tail.lines if tail.odd is None else ()
            if lines:
                self._account.add(lines, [Reached(job.source, tail.position, -1)])
                job.found_records += tail.records
                last = lines[-1]
                landed = last.target_start + last.records
                advances.append(ChunkProgress(job.source, tail.position, landed=landed))
            elif tail.odd is not None:
                advances.append(ChunkProgress(job.source, job.position, landed=end))
        self._dealer.copied(lost.piece, advances, self._clock.monotonic())
        if self._lost_in_a_row >= _LOST_IN_A_ROW:
            raise RetriableError(
                f"{_LOST_IN_A_ROW} pieces of the copy failed in a row: {lost.reason}"
            )

    # Checks during the copy.

    def _look_around(self) -> None:
        now = self._clock.monotonic()
        if now - self._told_at >= _TELL_S:
            self._tell_now()
        if now - self._looked_at >= _LOOK_S:
            self._look()
            self._looked_at = self._clock.monotonic()
        if now - self._weighed_at >= _WEIGH_S:
            self._weigh_anew()
            self._weighed_at = self._clock.monotonic()

    def _weigh_anew(self) -> None:
        try:
            weigh(self._plan, self._gatherer.looked_again(self._facts), self._gatherer)
            self._dealer.weighed()
        except ConnectError as error:
            if not error.retriable:
                raise
            _LOG.warning(
                "cannot update the order of partitions: the source did not answer: %s",
                error,
            )

    def _tell_now(self) -> None:
        self._told_at = self._clock.monotonic()
        self._tell(self._progress())

    def _progress(self) -> JobProgress:
        return self._arrival.look(self._plan.jobs, self._clock.monotonic())

    def _let_end(self) -> None:
        """Wait for the pieces in flight, and store their results if possible."""
        deadline = self._clock.monotonic() + self._dealer.dealing.piece_seconds + STALL_S
        while self._began and self._clock.monotonic() < deadline:
            try:
                self._turn(_TURN_S)
            except ConnectError as error:
                _LOG.warning(
                    "cannot store the result of a piece; the next backfill searches the target "
                    "log for its records: %s",
                    error,
                )
            except KeyboardInterrupt:
                return
