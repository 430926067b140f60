"""Which fetched batches belong to aborted transactions (read_committed; KIP-98).

The broker sends, with a partition's records, the aborted transactions that overlap them: producer
id and first offset, in order of first offset. A transaction's records are aborted from there to its
abort marker. Pure.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from connect.protocol.batches import TRANSACTIONAL, BatchHeader

__all__ = ["AbortedTransactions"]


class AbortedTransactions:
    """Walks one partition's part of one fetch response. `active` carries nothing over: the broker
    names again every transaction that overlaps the next fetch."""

    def __init__(self, listed: Sequence[tuple[int, int]]) -> None:
        """Args: listed: (producer id, first offset) as in the response."""
        self._upcoming = deque(sorted(listed, key=lambda entry: entry[1]))
        self._active: set[int] = set()

    def aborts(self, header: BatchHeader) -> bool:
        """Whether this data batch is to be dropped. Call for every batch, in order."""
        last = header.base_offset + header.last_offset_delta
        while self._upcoming and self._upcoming[0][1] <= last:
            self._active.add(self._upcoming.popleft()[0])
        return bool(header.attributes & TRANSACTIONAL) and header.producer_id in self._active

    def ended(self, header: BatchHeader) -> None:
        """An abort marker of this producer was passed."""
        self.aborts(header)
        self._active.discard(header.producer_id)
