"""A copy as runs: each goes through the source's records one by one, and begins where a worker
began.

Without exactly-once a copy may begin again at a stored offset. It must then go on record by record:
a range that comes again in reverse, or with records left out, is no run.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from enum import Enum

from tests.support.chaos.evidence import Place

__all__ = ["Runs", "Step"]

_OVERLAPPING = 2


class Step(Enum):
    """How a record of the copy follows those before it."""

    ON = "goes on"
    AGAIN = "begins again"
    GAP = "leaves out records of a range that comes again"


class Runs:
    """Follows one copy. `order`: all places of the source, ascending. `required`: those that a run
    must not leave out. `overlapping`: whether two workers may have copied at the same time."""

    def __init__(
        self, order: Sequence[Place], required: Iterable[Place], *, overlapping: bool
    ) -> None:
        self._order = order
        wanted = set(required)
        self._before = [-1] * len(order)
        """The last record before this one, of the same life, that must not be left out."""
        last, life = -1, -1
        for rank, place in enumerate(order):
            if place[0] != life:
                last, life = -1, place[0]
            self._before[rank] = last
            if place in wanted:
                last = rank
        self._most = _OVERLAPPING if overlapping else 1
        self._heads: list[int] = []
        """Where runs stand that may go on; the one that copied last is the last."""
        self._highest = -1
        self.again = 0

    def follows(self, place: Place) -> bool:
        """Whether a run that may go on can go on with it."""
        return self._head(self._rank(place)) is not None

    def step(self, place: Place) -> Step:
        rank = self._rank(place)
        head = self._head(rank)
        highest, self._highest = self._highest, max(self._highest, rank)
        if head is not None:
            self._heads.remove(head)
            self._heads.append(rank)
            return Step.ON
        last = self._heads[-1] if self._heads else -1
        if not self._heads or (rank > highest and last == highest):
            # Records that are left out here are lost, or come too late: both show elsewhere.
            self._heads[-1:] = [rank]
            return Step.ON
        self.again += 1
        self._heads = [*self._heads, rank][-self._most :]
        return Step.GAP if rank > last else Step.AGAIN

    def _rank(self, place: Place) -> int:
        return bisect_left(self._order, place)

    def _head(self, rank: int) -> int | None:
        before = self._before[rank]
        found = [head for head in self._heads if before <= head < rank]
        return max(found, default=None)
