"""Finds records that executors left on the target before a crash, so that they are not copied
again.

The counterpart of `connectors/mirror/copy/positions/tail_checks.py` for the Spark engine. A
partition that starts with facts of its last commit waits until its target's log end was compared
with the source, at most `_WITHIN_S`. Then it is copied again, which at-least-once allows. Belongs
to the task's thread.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from concurrent.futures import Future

from connect.clock import Clock
from connectors.mirror.copy.positions.tail_checks import FoundTail, TailLookup, TailQuestion
from connectors.mirror.spark.copy.partition import SparkPartition

__all__ = ["BoardTails"]

_LOG = logging.getLogger(__name__)

_WITHIN_S = 30.0

OnFound = Callable[[SparkPartition, FoundTail], None]


class BoardTails:
    """Compares the log ends of a board's partitions. `post`: runs a function on the task's thread,
    from any thread. `on_found`: called with the records found, before the partition continues."""

    def __init__(
        self,
        lookup: TailLookup,
        clock: Clock,
        post: Callable[[Callable[[], None]], None],
        on_found: OnFound,
    ) -> None:
        self._lookup = lookup
        self._clock = clock
        self._post = post
        self._on_found = on_found
        self._waiting: dict[SparkPartition, float] = {}

    def look(self, partitions: Iterable[SparkPartition]) -> None:
        """Compare partitions whose last commit recorded the target's log end."""
        for partition in partitions:
            start, partition.tail_start = partition.tail_start, None
            if start is None or partition.leaving or partition.transformed:
                continue
            partition.comparing = True
            self._waiting[partition] = self._clock.monotonic() + _WITHIN_S
            question = TailQuestion(partition.source, partition.target, *start, None)
            self._lookup.look(question).add_done_callback(
                lambda done, partition=partition: self._post(  # type: ignore[misc]
                    lambda: self._answered(partition, done)
                )
            )

    def turn(self) -> bool:
        """Cancel lookups that take too long. Returns whether there were any."""
        now = self._clock.monotonic()
        late = [partition for partition, until in self._waiting.items() if now >= until]
        for partition in late:
            self._give_up(partition, "the comparison took too long")
        return bool(late)

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
        found = done.result(timeout=0)
        del self._waiting[partition]
        self._on_found(partition, found)
        partition.comparing = False

    def _give_up(self, partition: SparkPartition, why: str) -> None:
        del self._waiting[partition]
        partition.comparing = False
        _LOG.warning(
            "%s-%d: the target's log end was not compared with the source: %s; records that a "
            "crash left there may be copied again",
            *partition.source,
            why,
        )
