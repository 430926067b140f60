"""Chooses the partitions that are checked every second: those that are not at rest.

A flow may have tens of thousands of partitions, of which nearly all are idle. A partition is at
rest if it is caught up, healthy, and waits for nothing, not even for the end of a transaction. It
is looked at again once a response, an event or a change of its brokers touched it
(`CopyContext.touched`), while its source broker is silent, and in any case every `SWEEP_S` seconds.
Belongs to the copy engine's thread, except for iterating over it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from connectors.mirror.copy.context import CopyContext
from connectors.mirror.copy.partition.partition import UNKNOWN, PartitionCopy
from connectors.mirror.copy.stall_detector import Commits

__all__ = ["FEW", "SWEEP_S", "WatchList", "at_rest"]

FEW = 500
"""Up to this number of partitions, all are looked at every second. That takes 5 ms."""

SWEEP_S = 30
"""In this number of seconds every partition is looked at once, a part of them each second."""


def at_rest(partition: PartitionCopy) -> bool:
    """Whether looking at the partition again would change nothing until something touches it.
    Where it is part of an open transaction, it would."""
    return (
        partition.lag == 0
        and partition.source_node != UNKNOWN
        and partition.target_node != UNKNOWN
        and not (
            partition.queue
            or partition.in_flight
            or partition.undecided
            or partition.leaving
            or partition.held
            or partition.held_back
            or partition.limited_by
        )
        and partition.error is None
    )


class WatchList:
    """The partitions of one engine that are not at rest. Call `take` and then `settle` every
    second."""

    def __init__(self, context: CopyContext, commits: Commits | None = None) -> None:
        """`commits` None: batches are not written in transactions."""
        self._context = context
        self._commits = commits
        self._watched: dict[PartitionCopy, None] = {}
        self._sweep: list[PartitionCopy] = []

    def __iter__(self) -> Iterator[PartitionCopy]:
        """Iterate over all partitions that may have an error or a lag. From any thread."""
        every = self._context.partitions
        if len(every) <= FEW:
            return iter(tuple(every.values()))
        # The engine's thread may touch partitions meanwhile, and replaces what is watched.
        found = dict.fromkeys((*self._watched, *tuple(self._context.touched)))
        return iter([each for each in found if isinstance(each, PartitionCopy)])

    def take(self, silent: Collection[int]) -> Collection[PartitionCopy]:
        """Return the partitions to look at now. `silent`: source brokers that do not respond."""
        context = self._context
        every = context.partitions
        touched, context.touched = context.touched, {}
        if len(every) <= FEW:
            self._watched = dict.fromkeys(every.values())
            return every.values()
        now = context.loop.now()
        watched = {p: None for p in self._watched if every.get(p.source) is p}
        for each in (*touched, *self._next_of_sweep(), *self._fetched_from(silent)):
            if (
                isinstance(each, PartitionCopy)
                and each not in watched
                and every.get(each.source) is each
            ):
                # Until now it was well.
                each.held_since = now
                each.progress = (each.copied(each.acked_position), now)
                watched[each] = None
        self._watched = watched
        return watched

    def settle(self) -> None:
        """Drop those of the last `take` that are at rest."""
        if len(self._context.partitions) > FEW:
            self._watched = {p: None for p in self._watched if not self._rests(p)}

    def _rests(self, partition: PartitionCopy) -> bool:
        return at_rest(partition) and (
            self._commits is None or self._commits.begun(partition) is None
        )

    def _next_of_sweep(self) -> list[PartitionCopy]:
        every = self._context.partitions
        if not self._sweep:
            self._sweep = list(every.values())
        count = -(-len(every) // SWEEP_S)
        part, self._sweep = self._sweep[-count:], self._sweep[:-count]
        return part

    def _fetched_from(self, brokers: Collection[int]) -> list[PartitionCopy]:
        if not brokers:
            return []
        return [p for p in self._context.partitions.values() if p.source_node in brokers]
