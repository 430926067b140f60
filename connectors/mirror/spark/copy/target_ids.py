"""Notices target topics that were deleted and re-created, by their IDs. Pure.

The counterpart of the target's part in `connectors/mirror/copy/positions/log_validation.py`. The
task sees all partitions, also those that are in no shard; executors see their shard's only. A
partition is judged once it has left its shard: the executor may have noticed it, too. Belongs to
the task's thread.
"""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from connectors.mirror.spark.copy.board import PartitionBoard
from connectors.mirror.spark.copy.partition import UNKNOWN, SparkPartition

__all__ = ["RenewedTargets"]


class RenewedTargets:
    """The partitions of a board whose target has another topic ID than before."""

    def __init__(self, board: PartitionBoard) -> None:
        self._board = board
        self._ids: Mapping[str, UUID] = {}
        self._pending: list[SparkPartition] = []

    def seen(self, ids: Mapping[str, UUID]) -> None:
        """Compare the partitions with these IDs of the target's topics, as far as known."""
        self._ids = ids
        self._pending = list(self._board)

    def turn(self) -> None:
        """Tell the board of each re-created target, once nothing else happens to the partition."""
        self._pending = [each for each in self._pending if not self._judged(each)]

    def _judged(self, partition: SparkPartition) -> bool:
        if partition.leaving or partition.standing is not None:
            # It is compared again if it comes back, or by the next task.
            return True
        if _undecided(partition):
            return False
        topic_id = self._ids.get(partition.target[0])
        if topic_id is not None and not partition.has_target(topic_id):
            self._board.losses.target_created_again(partition, topic_id)
        return True


def _undecided(partition: SparkPartition) -> bool:
    """Whether its position is not known, or is about to change."""
    return (
        partition.busy
        or partition.unsure
        or partition.learns
        or partition.start_unknown
        or partition.comparing
        or partition.tail_start is not None
        or partition.begin_again is not None
        or partition.position == UNKNOWN
    )
