"""Archives partitions up to the ends of a plan: deals pieces, and commits each as it ends.

One thread owns the ledger. Each piece is archived on a thread of its own, which only waits for
Spark. A partition is in at most one piece, so its ranges are committed in order. After a kill, only
pieces that were not committed are read again.
"""

from __future__ import annotations

import logging
import queue
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import NamedTuple

from connect.clients.wire.one_shot_threads import OneShotThreads
from connect.clock import SYSTEM_CLOCK, Clock, Deadline
from connectors.archive.engine import ArchiveEngine, StagedPiece
from connectors.archive.store import ArchiveStore
from connectors.archive.survey import ArchivePlan
from connectors.mirror.backfill.job import JobOutcome
from connectors.mirror.backfill.progress import Arrival, JobProgress
from connectors.mirror.backfill.scheduler import (
    BackfillScheduler,
    Chunk,
    ChunkProgress,
    SchedulerOptions,
)

__all__ = ["ArchiveJob"]

_LOG = logging.getLogger(__name__)

_PIECE_SECONDS = 60.0
"""The scheduler's limit in time. Nothing enforces it here: a piece only reads, so it may be
repeated at any time."""

_TURN_S = 0.2
_TELL_S = 1.0
_STOP_S = 5.0
"""At a stop, pieces in flight have this long to end; then they are cancelled. What is not committed
is read again."""


class _Ended(NamedTuple):
    piece: Chunk
    done: Future[StagedPiece]


class ArchiveJob:
    """Archives one plan. `run` may be called once."""

    def __init__(
        self,
        plan: ArchivePlan,
        store: ArchiveStore,
        engine: ArchiveEngine,
        piece_bytes: int,
        *,
        slots: Callable[[], int],
        look: Callable[[], None],
        cancel: Callable[[], None],
        tell: Callable[[JobProgress], None],
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """`slots`: how many pieces may be in flight now. `look`: raises if the job must stop.
        `cancel`: ends the pieces in flight. `tell`: receives the progress about once a second."""
        self._plan = plan
        self._store = store
        self._engine = engine
        self._dealer = BackfillScheduler.of(
            plan.jobs, SchedulerOptions(piece_bytes, _PIECE_SECONDS)
        )
        self._slots, self._look, self._cancel, self._tell = slots, look, cancel, tell
        self._clock = clock
        self._threads = OneShotThreads("archive")
        self._ended: queue.Queue[_Ended] = queue.Queue()
        self._arrival = Arrival()
        self._stopping = False
        self._told_at = clock.monotonic()

    def run(self, stopping: Callable[[], bool]) -> JobOutcome:
        """Archive until everything is committed or `stopping` returns true. Errors of single pieces
        are retried; errors of the ledger are raised."""
        try:
            while not self._dealer.finished:
                if stopping():
                    self._let_end()
                    break
                self._look()
                self._deal()
                self._turn()
                if self._clock.monotonic() - self._told_at >= _TELL_S:
                    self._tell_now()
        except BaseException:
            self._cancel()
            raise
        return JobOutcome(self._tell_now(), stopped=not self._dealer.finished)

    def _deal(self) -> None:
        slots = self._slots()
        while (piece := self._dealer.next_piece(self._clock.monotonic(), slots)) is not None:
            done = self._threads.run(f"piece-{piece.number}", partial(self._engine, piece))
            done.add_done_callback(partial(self._pass_on, piece))

    def _pass_on(self, piece: Chunk, done: Future[StagedPiece]) -> None:
        """Pass on how a piece ended. Called on the piece's thread."""
        self._ended.put(_Ended(piece, done))

    def _turn(self) -> None:
        """Commit one piece that has ended; wait for it a little."""
        try:
            piece, done = self._ended.get(timeout=_TURN_S)
        except queue.Empty:
            return
        error = done.exception(timeout=0)
        if error is not None:
            self._failed(piece, error)
            return
        ranges, staged, folder, unparsed = done.result(timeout=0)
        topics = {each.topic: self._plan.topics[each.topic] for each in ranges}
        self._store.commit(ranges, topics, staged)
        self._store.files.delete(folder)
        advances = [
            ChunkProgress(each.key, each.end, each.records, each.bytes, each.lost)
            for each in ranges
        ]
        self._dealer.copied(piece, advances, self._clock.monotonic())
        if unparsed:
            _LOG.warning(
                "%s: %d keys or values do not parse by their schema; nothing has to be "
                "done, their bytes are archived, without columns",
                ", ".join(sorted(topics)),
                unparsed,
            )
        for each in ranges:
            if each.lost:
                _LOG.warning(
                    "%s-%d: offsets %d to %d were deleted from the source before they were "
                    "archived, and cannot be restored; archive more often, or raise "
                    "retention.ms of the topic",
                    *each.key,
                    each.start,
                    each.start + each.lost - 1,
                )

    def _failed(self, piece: Chunk, error: BaseException) -> None:
        now = self._clock.monotonic()
        self._dealer.copied(piece, (), now)
        for wanted in piece.ranges:
            if not self._stopping:  # A cancelled piece is no failure.
                _LOG.warning("%s-%d: %s", *wanted.source, error)
            self._dealer.failed(wanted.source, str(error), now)

    def _let_end(self) -> None:
        deadline = Deadline(_STOP_S, self._clock)
        while self._dealer.active and not deadline.expired():
            self._turn()
        if self._dealer.active:
            self._stopping = True
            self._cancel()
            cancelled = Deadline(_STOP_S, self._clock)
            while self._dealer.active and not cancelled.expired():
                self._turn()

    def _tell_now(self) -> JobProgress:
        self._told_at = self._clock.monotonic()
        progress = self._arrival.look(self._plan.jobs, self._told_at)
        self._tell(progress)
        return progress
