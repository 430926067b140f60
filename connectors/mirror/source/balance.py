"""Assigns partitions to tasks by load, with as few moves as possible. Pure.

A partition stays with its task. New ones go to the least loaded task, the heaviest first. Others
move only if moves are allowed, if one task carries clearly more than its share, and if the move
reduces the load of the heavier task. So balancing ends, and no partition moves back and forth.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import fsum

from connect.protocol.messages import TopicPartition

__all__ = ["EVEN", "UNEVEN", "Balance", "balance"]

UNEVEN = 1.3
"""Partitions move once a task carries this many times the mean of all tasks ..."""
EVEN = 1.1
"""... and until none carries more than this, or no move helps."""
_WORTH = 0.25
"""The partitions that leave the heaviest task must carry at least this share of its lead over the
lightest. Otherwise many idle partitions would move without a visible effect."""


@dataclass(frozen=True, slots=True)
class Balance:
    """The partitions of each task, and the number that left a task that keeps running."""

    tasks: list[list[TopicPartition]]
    moved: int


class _Loads:
    """The tasks and their loads."""

    def __init__(self, count: int, weights: Mapping[TopicPartition, float]) -> None:
        self._weights = weights
        self.tasks: list[list[TopicPartition]] = [[] for _ in range(count)]
        self.carried = [0.0] * count

    def weight(self, partition: TopicPartition) -> float:
        return self._weights.get(partition, 0.0)

    def give(self, task: int, partition: TopicPartition) -> None:
        self.tasks[task].append(partition)
        self.carried[task] += self.weight(partition)

    def take(self, task: int, partition: TopicPartition) -> None:
        self.tasks[task].remove(partition)
        self.carried[task] -= self.weight(partition)

    def add_up(self, *tasks: int) -> None:
        """Sum the loads exactly, so that equal sets of partitions have equal loads in any order."""
        for task in tasks:
            self.carried[task] = fsum(map(self.weight, self.tasks[task]))

    def with_one_more(self, task: int, partition: TopicPartition) -> float:
        """The load of a task with one more partition."""
        return fsum(map(self.weight, (*self.tasks[task], partition)))

    def lightest(self) -> int:
        """The least loaded task; among equals the one with the fewest partitions."""
        return min(
            range(len(self.tasks)), key=lambda task: (self.carried[task], len(self.tasks[task]))
        )

    def heaviest(self) -> int:
        return max(range(len(self.tasks)), key=lambda task: self.carried[task])

    @property
    def mean(self) -> float:
        return sum(self.carried) / len(self.carried)


def balance(
    partitions: Sequence[TopicPartition],
    weights: Mapping[TopicPartition, float],
    max_tasks: int,
    previous: Sequence[Sequence[TopicPartition]] = (),
    *,
    may_move: bool = True,
) -> Balance:
    """Assign partitions to min(max_tasks, len(partitions)) tasks. Every task gets at least one.
    `weights`: above 0, in any unit. `previous`: the previous assignment, by task."""
    count = min(max_tasks, len(partitions))
    loads = _Loads(count, weights)
    remaining = dict.fromkeys(partitions)
    for task, kept in enumerate(previous[:count]):
        for partition in kept:
            if partition in remaining:
                del remaining[partition]
                loads.give(task, partition)
    for partition in sorted(remaining, key=lambda each: -loads.weight(each)):
        loads.give(loads.lightest(), partition)
    moved = _fill_empty(loads)
    loads.add_up(*range(count))
    if count and may_move and loads.carried[loads.heaviest()] > UNEVEN * loads.mean:
        moved += _even_out(loads)
    return Balance(loads.tasks, moved)


def _fill_empty(loads: _Loads) -> int:
    """Give each empty task the lightest partition of the task with the most partitions."""
    moved = 0
    for task, held in enumerate(loads.tasks):
        if not held:
            giver = max(range(len(loads.tasks)), key=lambda each: len(loads.tasks[each]))
            partition = min(loads.tasks[giver], key=loads.weight)
            loads.take(giver, partition)
            loads.give(task, partition)
            moved += 1
    return moved


def _even_out(loads: _Loads) -> int:
    """Move partitions: each move takes the one closest to half of the heaviest task's lead over the
    lightest."""
    moved = 0
    while True:
        giver, taker = loads.heaviest(), loads.lightest()
        most = loads.carried[giver]
        lead = most - loads.carried[taker]
        if most <= EVEN * loads.mean or len(loads.tasks[giver]) == 1:
            return moved
        fitting = [each for each in loads.tasks[giver] if 0 < loads.weight(each) < lead]
        if fsum(map(loads.weight, fitting)) < _WORTH * lead:
            return moved
        partition = min(fitting, key=lambda each: abs(loads.weight(each) - lead / 2))
        # Partitions whose weights differ by less than a float can express would move back and forth
        # forever.
        if max(most - loads.weight(partition), loads.with_one_more(taker, partition)) >= most:
            return moved
        loads.take(giver, partition)
        loads.give(taker, partition)
        loads.add_up(giver, taker)
        moved += 1
