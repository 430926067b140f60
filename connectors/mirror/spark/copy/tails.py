"""Finds records that executors left on the target before a crash, so that they are not copied
again.

The counterpart of `connectors/mirror/copy/positions/tail_checks.py` for the Spark engine. A
partition whose target may have more than was stored waits until its target's log end was compared
with the source, at most `_WITHIN_S`. Then it is copied again, which at-least-once allows. The ends
of all targets are listed first, so that a start after which nothing was left compares nothing.
Before the first shard of a partition whose target's end is not known, that end is listed only: what
a lost shard left is beyond it. Belongs to the task's thread.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol
from uuid import UUID

from connect.clients.cluster.list_offsets import OffsetResult
from connect.clock import Clock
from connect.protocol.messages import TopicPartition
from connectors.mirror.config.losses import Loss
from connectors.mirror.copy.positions.tail_checks import (
    MOST_OFFSETS,
    FoundTail,
    TailLookup,
    TailQuestion,
)
from connectors.mirror.spark.copy.partition import UNKNOWN, SparkPartition

__all__ = ["BoardTails", "EndsLookup"]

_LOG = logging.getLogger(__name__)

_WITHIN_S = 30.0

OnFound = Callable[[SparkPartition, FoundTail], None]


class EndsLookup(TailLookup, Protocol):
    """A `TailLookup` that also lists the ends of many target partitions at once."""

    def target_ends(
        self, targets: Collection[TopicPartition]
    ) -> Future[Mapping[TopicPartition, OffsetResult]]:
        """Start to list the log end offsets without blocking. The future completes on any
        thread."""

    @property
    def target_topic_ids(self) -> Mapping[str, UUID]:
        """Return the IDs of the targets' topics, as far as known."""


@dataclass(slots=True)
class _Waiting:
    """A partition that waits until the time `until` (monotonic seconds). `start`: from which source
    and target offset on it is compared; without a target offset: not at all. `loss`: the last one
    before. `answer`: of its comparison, once that has begun."""

    start: tuple[int, int]
    until: float
    loss: Loss | None
    answer: Future[FoundTail] | None = None


class BoardTails:
    """Compares the log ends of a board's partitions. `post`: runs a function on the task's thread,
    from any thread. `on_found`: called with the records found, before the partition continues."""

    def __init__(
        self,
        lookup: EndsLookup,
        clock: Clock,
        post: Callable[[Callable[[], None]], None],
        on_found: OnFound,
    ) -> None:
        self._lookup = lookup
        self._clock = clock
        self._post = post
        self._on_found = on_found
        self._waiting: dict[SparkPartition, _Waiting] = {}
        self._released = False

    def look(self, partitions: Iterable[SparkPartition]) -> None:
        """Compare these partitions from their `tail_start` on."""
        asked: list[SparkPartition] = []
        for partition in partitions:
            start, partition.tail_start = partition.tail_start, None
            if start is None or partition.leaving or partition.transformed:
                continue
            partition.comparing = True
            until = self._clock.monotonic() + _WITHIN_S
            self._waiting[partition] = _Waiting(start, until, partition.loss)
            asked.append(partition)
        if asked:
            ends = self._lookup.target_ends({partition.target for partition in asked})
            self._when_done(ends, partial(self._compare, asked, ends))

    def turn(self) -> bool:
        """Cancel lookups that take too long. Returns whether partitions continue since the last
        call."""
        now = self._clock.monotonic()
        late = [partition for partition, waits in self._waiting.items() if now >= waits.until]
        for partition in late:
            self._give_up(partition, "the comparison took too long")
        released, self._released = self._released, False
        return released

    def _when_done(self, future: Future[Any], then: Callable[[], None]) -> None:
        future.add_done_callback(lambda _: self._post(then))

    def _compare(
        self,
        partitions: Sequence[SparkPartition],
        listed: Future[Mapping[TopicPartition, OffsetResult]],
    ) -> None:
        failed = listed.cancelled() or listed.exception(timeout=0) is not None
        ends = {} if failed else listed.result(timeout=0)
        ids = self._lookup.target_topic_ids
        for partition in partitions:
            waits = self._waiting.get(partition)
            if waits is None:
                continue
            end = ends.get(partition.target)
            # Without an end, the comparison asks for it itself, and says why there is none.
            known = end if isinstance(end, int) else None
            same = partition.has_target(ids.get(partition.target[0]))
            if waits.start[1] == UNKNOWN:
                if same and known is not None and partition.loss is waits.loss:
                    partition.target_end = known
                self._release(partition)
                continue
            least, most = waits.start[1] + 1, waits.start[1] + MOST_OFFSETS
            if not same or not (known is None or least <= known <= most):
                self._release(partition)
                continue
            question = TailQuestion(partition.source, partition.target, *waits.start, known)
            waits.answer = answer = self._lookup.look(question)
            self._when_done(answer, partial(self._answered, partition, answer))

    def _answered(self, partition: SparkPartition, done: Future[FoundTail]) -> None:
        if partition not in self._waiting:
            return
        if done.cancelled():
            return
        error = done.exception(timeout=0)
        if error is not None:
            # After any error, copying again is always correct.
            self._give_up(partition, str(error) or type(error).__name__)
            return
        # After a loss, what was compared may be of an earlier log.
        if not partition.leaving and partition.loss is self._waiting[partition].loss:
            self._on_found(partition, done.result(timeout=0))
        self._release(partition)

    def _release(self, partition: SparkPartition) -> None:
        del self._waiting[partition]
        partition.comparing = False
        self._released = True

    def _give_up(self, partition: SparkPartition, why: str) -> None:
        answer = self._waiting[partition].answer
        if answer is not None:
            answer.cancel()
        self._release(partition)
        _LOG.warning(
            "%s-%d: the target's log end was not compared with the source: %s; records that a "
            "crash left there may be copied again",
            *partition.source,
            why,
        )
