"""Finds records that a crash left on the target beyond the stored offset, so that they are not
copied again.

At a start, the target's log end is compared with the one that was stored with the source offset. If
the target has more records, they are compared with the source's next records (`TailLookup`). Equal
records count as acknowledged and are skipped. From the first difference on, everything is copied as
usual. Meanwhile the partition is neither fetched nor sent. A lookup that takes too long or fails is
cancelled; the records are then copied again, which at-least-once allows.

Runs on the copy engine's thread.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from connect.protocol.messages import TopicPartition
from connectors.mirror.copy.context import CopyContext, TailCompared
from connectors.mirror.copy.partition.partition import PartitionCopy

__all__ = ["MOST_OFFSETS", "FoundTail", "TailChecks", "TailLookup", "TailQuestion", "spans_from"]

_LOG = logging.getLogger(__name__)

_WITHIN_S = 30.0
"""Time limit of a comparison. Copying again costs less than a partition that waits longer."""

MOST_OFFSETS = 20_000_000
"""A crash leaves the records of at most one offset.flush.interval.ms. A log end further away has
another cause."""


@dataclass(frozen=True, slots=True)
class TailQuestion:
    """Asks which of the source's records from `source_start` on are on the target from
    `target_start` to before `target_end` (None: to its end)."""

    source: TopicPartition
    target: TopicPartition
    source_start: int
    target_start: int
    target_end: int | None


class FoundTail(Protocol):
    """The result: equal records, in order."""

    @property
    def position(self) -> int:
        """Return the source offset after the last equal record."""

    @property
    def epochs(self) -> tuple[tuple[int, int], ...]:
        """Return the (leader epoch, first offset) pairs of the source's batches among them."""

    @property
    def spans(self) -> Sequence[tuple[int, int, int]]:
        """(source offset, target offset, count) of consecutive equal records."""


def spans_from(found: FoundTail, position: int) -> Iterator[tuple[int, int, int]]:
    """Return the spans from this source offset on. Earlier records were only compared, because
    their offsets are stored already."""
    for first, landed, count in found.spans:
        passed = max(0, position - first)
        if passed < count:
            yield first + passed, landed + passed, count - passed


class TailLookup(Protocol):
    """Reads both logs. Its owner closes it after the engine."""

    def look(self, question: TailQuestion) -> Future[FoundTail]:
        """Start a lookup without blocking. The future completes on any thread. It fails with a
        `ConnectError`."""


@dataclass(slots=True)
class _Waiting:
    """A lookup that is running. `end`: of the target's log. `moves`: the partition's number of
    moves when the lookup started."""

    question: TailQuestion
    end: int
    moves: int
    answer: Future[FoundTail] | None = None


class TailChecks:
    """Finds records that a crash left, which count as acknowledged. The partition continues after
    `TailCompared`."""

    def __init__(self, context: CopyContext, lookup: TailLookup) -> None:
        self._context = context
        self._lookup = lookup
        self._waiting: dict[PartitionCopy, _Waiting] = {}

    def look(self, partition: PartitionCopy, end: int) -> bool:
        """Start the comparison up to the target's log end `end`. Returns False if there is nothing
        to compare."""
        start, partition.tail_start = partition.tail_start, None
        if start is None or not start[1] < end <= start[1] + MOST_OFFSETS:
            return False
        if partition.change is not None:
            return False  # The copies differ from their records.
        question = TailQuestion(partition.source, partition.target, *start, end)
        waiting = self._waiting[partition] = _Waiting(question, end, partition.moves)
        partition.comparing = True
        self._context.loop.after(
            _WITHIN_S, lambda: self._give_up(partition, question, "the comparison took too long")
        )
        waiting.answer = self._lookup.look(question)
        self._context.when_done(waiting.answer, partial(self._answered, partition, question))
        return True

    def _answered(
        self, partition: PartitionCopy, question: TailQuestion, done: Future[FoundTail]
    ) -> None:
        if self._asked(partition) is not question:
            return
        if done.cancelled():
            return
        error = done.exception(timeout=0)
        if error is not None:
            # After any error copying again is always correct.
            self._give_up(partition, question, str(error) or type(error).__name__)
            return
        self._take(partition, self._waiting.pop(partition), done.result(timeout=0))

    def _asked(self, partition: PartitionCopy) -> TailQuestion | None:
        waiting = self._waiting.get(partition)
        return None if waiting is None else waiting.question

    def _take(self, partition: PartitionCopy, asked: _Waiting, found: FoundTail) -> None:
        partition.comparing = False
        position = partition.position
        records = 0
        usable = partition.moves == asked.moves and not (
            partition.leaving or partition.standing or partition.searching
        )
        if usable and not partition.queue and not partition.in_flight:
            for first, landed, count in spans_from(found, position):
                records += count
                self._context.listener.acked(partition, ((first, count),), landed)
            if found.position > position:
                partition.relocate(found.position)
                partition.epochs.follow(found.epochs)
            partition.target_end = max(partition.target_end, asked.end)
        if records:
            _LOG.info(
                "%s: %d records up to offset %d, after the stored offset, were on the target "
                "already; they are not copied again",
                partition.name,
                records,
                partition.position - 1,
            )
            partition.metrics.found_on_target(records)
            self._context.listener.found(partition, position, records)
        self._context.post(TailCompared(partition))

    def _give_up(self, partition: PartitionCopy, question: TailQuestion, why: str) -> None:
        if self._asked(partition) is not question:
            return
        asked = self._waiting.pop(partition)
        if asked.answer is not None:
            asked.answer.cancel()
        partition.comparing = False
        _LOG.warning(
            "%s: the target's records from offset %d to %d were not compared with the source: %s; "
            "records among them may be copied again",
            partition.name,
            question.target_start,
            asked.end - 1,
            why,
        )
        self._context.post(TailCompared(partition))
