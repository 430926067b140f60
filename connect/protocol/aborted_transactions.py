"""Find the fetched batches that belong to aborted transactions (read_committed; KIP-98).

With a partition's records, the broker sends the aborted transactions that overlap them: producer id
and first offset, ordered by first offset. A transaction's records are aborted from that offset to
its abort marker. Pure.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from connect.protocol.batches import TRANSACTIONAL, BatchHeader

__all__ = ["AbortedTransactions"]


class AbortedTransactions:
    """The aborted transactions of one partition in one fetch response.

    Nothing carries over to the next response: the broker lists again every aborted transaction that
    overlaps the next fetch.
    """

    def __init__(self, listed: Sequence[tuple[int, int]]) -> None:
        """Take the aborted transactions of the response as (producer id, first offset)."""
        self._upcoming = deque(sorted(listed, key=lambda entry: entry[1]))
        self._active: set[int] = set()

    def aborts(self, header: BatchHeader) -> bool:
        """Return whether to drop this data batch. Call it for every batch, in order."""
        last = header.base_offset + header.last_offset_delta
        while self._upcoming and self._upcoming[0][1] <= last:
            self._active.add(self._upcoming.popleft()[0])
        return bool(header.attributes & TRANSACTIONAL) and header.producer_id in self._active

    def ended(self, header: BatchHeader) -> None:
        """Record that an abort marker of this producer was read."""
        self.aborts(header)
        self._active.discard(header.producer_id)
