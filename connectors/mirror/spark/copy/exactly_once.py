"""Applies shard results to the board and the offset sync writer, for a flow that writes exactly
once.

The positions are already stored when a result arrives, because the transactions include them. A
shard that did not end well may have committed more than its result shows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from connect.clock import Clock
from connect.protocol.messages import TopicPartition
from connectors.mirror.history.recorder import TaskHistory
from connectors.mirror.offsets.offset_sync_writer import PAGES_EVERY_S, OffsetSyncWriter
from connectors.mirror.source.base_task import reached
from connectors.mirror.spark.copy.board import PartitionBoard
from connectors.mirror.spark.copy.partition import UNKNOWN
from connectors.mirror.spark.copy.shards import ShardResult

__all__ = ["ExactlyOnceBookkeeping"]


class ExactlyOnceBookkeeping:
    """Handles shard results under exactly-once. Belongs to the task's thread."""

    def __init__(
        self,
        board: PartitionBoard,
        sync_writer: OffsetSyncWriter,
        history: TaskHistory,
        on_stored: Callable[[Sequence[TopicPartition]], None],
        clock: Clock,
    ) -> None:
        """`on_stored`: called from time to time with the partitions that have stored offsets."""
        self._board = board
        self._sync_writer = sync_writer
        self._history = history
        self._on_stored = on_stored
        self._clock = clock
        self._without_pages: set[TopicPartition] = set()
        self._pages_at = 0.0

    def take(self, result: ShardResult) -> None:
        """Handle the result of a shard. The board has applied its progress, unless it ended with an
        error."""
        self._without_pages.update(line.source for line in result.copied)
        if result.error is not None:
            self._doubt(result, result.error)
            return
        for progress in result.progress:
            partition = self._board.get(progress.range.source)
            if partition is not None and progress.position != progress.range.start:
                partition.stored = progress.position
        self._sync_writer.committed()

    def _doubt(self, result: ShardResult, reason: str) -> None:
        now = self._clock.monotonic()
        to_blame = {each.range.source for each in result.progress if each.error is not None}
        for progress in result.progress:
            own = progress.error if to_blame else reason
            self._board.doubt(progress.range.source, own, now)

    def store_facts(self, key: TopicPartition) -> None:
        """Store the facts about the partition's logs soon, though it has not moved."""
        self._without_pages.add(key)

    def lost(self, keys: Iterable[TopicPartition], reason: str) -> None:
        """Handle partitions whose shard returned no result."""
        for key in keys:
            self._board.doubt(key, reason, self._clock.monotonic())

    def turn(self) -> None:
        """Write the pages that are due."""
        now = self._clock.monotonic()
        if now >= self._pages_at + PAGES_EVERY_S:
            self._pages_at = now
            self.write_pages()

    def write_pages(self) -> None:
        """Write map pages. They may be written after the offsets; until then translated offsets are
        too low, but never wrong."""
        moved, self._without_pages = self._without_pages, set()
        found = [partition for key in moved if (partition := self._board.get(key)) is not None]
        self._history.reached((each, each.stored) for each in found)
        if found:
            self._on_stored([each.source for each in found if each.stored != UNKNOWN])
            self._sync_writer.prepare([reached(each, each.stored) for each in found])
