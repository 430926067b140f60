"""The fetch sessions with the source's brokers: up to two with each broker.

One partition that is far behind fills a whole response. So such partitions have a session and a
connection of their own, and the records of the others do not wait for a backlog. A partition stays
in its old session until a request of the new one has it, because the new one may have a fetch
waiting at the broker. Until then the first response counts (`SourceNode.answers`).

Belongs to the copy engine's thread.
"""

from __future__ import annotations

from connectors.mirror.copy.brokers.source import FetchResponses, SourceNode
from connectors.mirror.copy.context import CopyContext
from connectors.mirror.copy.partition.partition import UNKNOWN, PartitionCopy
from connectors.mirror.copy.throttle import Throttle

__all__ = ["SourceNodes"]


class SourceNodes:
    """The nodes, by broker and by whether they fetch only partitions that are far behind."""

    def __init__(self, context: CopyContext, throttle: Throttle, responses: FetchResponses) -> None:
        self._context = context
        self._throttle = throttle
        self._responses = responses
        self.by_key: dict[tuple[int, bool], SourceNode] = {}

    def show(self, partition: PartitionCopy, *, fetch: bool, held: bool) -> None:
        """Fetch the partition or not. `held`: not, because enough of its batches wait."""
        # A limit counts what one session with each broker fetches.
        in_backlog = partition.far_behind and not self._throttle.on
        if in_backlog != partition.in_backlog:
            self._move(partition, in_backlog)
        node = self._node(partition.source_key)
        if held != partition.held:
            partition.held = held
            node.held += 1 if held else -1
        if fetch:
            node.want(partition)
        else:
            node.drop(partition)

    def leave(self, partition: PartitionCopy) -> None:
        """Fetch the partition from no broker."""
        if partition.source_node != UNKNOWN:
            self.show(partition, fetch=False, held=False)

    def pump(self) -> None:
        """Send the next fetches. Fetches of backlogs come last, because they take all free
        memory."""
        nodes = self.by_key.values()
        for backlog in (False, True):
            for node in nodes:
                if node.backlog is backlog:
                    node.pump()

    def _move(self, partition: PartitionCopy, in_backlog: bool) -> None:
        """Let the other session with its broker fetch the partition."""
        if partition.held:
            partition.held = False
            self._node(partition.source_key).held -= 1
        partition.in_backlog = in_backlog
        self._node(partition.source_key).take_over(partition)

    def _node(self, key: tuple[int, bool]) -> SourceNode:
        node = self.by_key.get(key)
        if node is None:
            number, backlog = key
            node = self.by_key[key] = SourceNode(
                number, self._context, self._throttle, self._responses, backlog=backlog
            )
            other = self.by_key.get((number, not backlog))
            if other is not None:
                node.other, other.other = other, node
        return node
