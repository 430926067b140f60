"""How a source connector assigns partitions to its tasks (`mirror.assignment`).

Called on the connector's thread, except `uneven`, which any thread may call.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping, Sequence

from connect.clock import SYSTEM_CLOCK, Clock
from connectors.mirror.source.balance import balance
from connectors.mirror.topics.selection import TopicPartition, assign_partitions

__all__ = ["ByCount", "Measured", "PartitionAssignment"]

log = logging.getLogger(__name__)


class PartitionAssignment:
    """Assigns partitions and remembers the assignment."""

    def deal(
        self, partitions: Sequence[TopicPartition], max_tasks: int
    ) -> list[list[TopicPartition]]:
        """Return the partitions of each task."""
        raise NotImplementedError


class ByCount(PartitionAssignment):
    """MirrorMaker 2's assignment, except that running partitions stay with their task."""

    def __init__(self) -> None:
        self._tasks: list[list[TopicPartition]] = []

    def deal(
        self, partitions: Sequence[TopicPartition], max_tasks: int
    ) -> list[list[TopicPartition]]:
        self._tasks = assign_partitions(partitions, max_tasks, self._tasks)
        return self._tasks


class Measured(PartitionAssignment):
    """Assignment by measured load. An unmeasured partition counts with a typical load.

    A partition stays with its task for `move_every_s` after the start and after each move, because
    a move restarts tasks and the new load must be measured.
    """

    def __init__(
        self,
        tasks: Sequence[Sequence[TopicPartition]],
        move_every_s: float,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """Args: tasks: the current assignment."""
        self._lock = threading.Lock()
        self._tasks = [list(task) for task in tasks]
        self._weights: Mapping[TopicPartition, float] = {}
        self._move_every_s = move_every_s
        self._clock = clock
        self._may_move_at = clock.monotonic() + move_every_s

    def uneven(self, weights: Mapping[TopicPartition, float]) -> bool:
        """Update the loads. Returns whether partitions should move and may move now; `deal` moves
        them."""
        with self._lock:
            self._weights = weights
            if not self._may_move():
                return False
            partitions = [partition for task in self._tasks for partition in task]
            return self._balanced(partitions, len(self._tasks), may_move=True)[1] > 0

    def deal(
        self, partitions: Sequence[TopicPartition], max_tasks: int
    ) -> list[list[TopicPartition]]:
        with self._lock:
            may_move = self._may_move()
            tasks, moved = self._balanced(partitions, max_tasks, may_move=may_move)
            if moved and may_move:
                self._may_move_at = self._clock.monotonic() + self._move_every_s
                log.info("%d of %d partitions move to other tasks", moved, len(partitions))
            self._tasks = tasks
            return tasks

    def _may_move(self) -> bool:
        return bool(self._weights) and self._clock.monotonic() >= self._may_move_at

    def _balanced(
        self, partitions: Sequence[TopicPartition], max_tasks: int, *, may_move: bool
    ) -> tuple[list[list[TopicPartition]], int]:
        known = [self._weights[each] for each in partitions if each in self._weights]
        usual = sum(known) / len(known) if known else 1.0
        weights = {each: self._weights.get(each, usual) for each in partitions}
        found = balance(partitions, weights, max_tasks, self._tasks, may_move=may_move)
        return found.tasks, found.moved
