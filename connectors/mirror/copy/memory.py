"""The limit on fetched but not yet acknowledged bytes.

A fetch response is stored in one buffer, and its batches are slices of it. The buffer counts
against the budget until the last of its batches is released. Owned by the copy engine's thread.
"""

from __future__ import annotations

from connect.clients.wire.channel import BufferPool

__all__ = ["FetchBuffer", "MemoryBudget"]

RESPONSE_SHARE = 8
"""A fetch requests at most this fraction of the task's memory, unless the round trip is long."""

LINK_BYTES_PER_S = 250_000_000
"""Each broker has one fetch in flight. A fetch may return twice what a 1 Gbit/s link carries in a
round trip, so that waiting takes no more time than the transfer."""


class MemoryBudget:
    """Bytes held, against a limit. `limit` is exceeded by at most one response."""

    def __init__(self, limit: int, most: int | None = None) -> None:
        """Args: most: the largest limit that a long round trip may set; None: the limit is
        fixed."""
        self.limit = limit
        self._most = most or limit
        self.used = 0
        self.readers = 0
        """How many source brokers share the memory."""
        self.pool = BufferPool(max_free=limit // 4)
        self._waiting: dict[object, None] = {}

    @property
    def free(self) -> int:
        return max(0, self.limit - self.used)

    def reach(self, round_trip_s: float) -> None:
        """Raise the limit for a reader with this round trip: memory for two more fetches must be
        available."""
        wanted = 3 * max(1, self.readers) * round(round_trip_s * LINK_BYTES_PER_S)
        self.limit = max(self.limit, min(self._most, wanted))

    def response_bytes(self, round_trip_s: float) -> int:
        """Return the size of one fetch. All readers' fetches together reserve it while they wait at
        their brokers, so half of the memory is left to batches in flight."""
        usual = self.limit // max(RESPONSE_SHARE, 2 * self.readers)
        most = self.limit // max(2, 2 * self.readers)
        return max(1, usual, min(most, round(round_trip_s * LINK_BYTES_PER_S)))

    def admit(self, reader: object, size: int) -> bool:
        """Whether this reader may fetch `size` bytes now. A rejected reader is queued, so that
        every reader gets memory in turn."""
        if self.free >= size and next(iter(self._waiting), reader) is reader:
            self._waiting.pop(reader, None)
            return True
        self._waiting[reader] = None
        return False

    def withdraw(self, reader: object) -> None:
        """Remove this reader from the queue for memory."""
        self._waiting.pop(reader, None)


class FetchBuffer:
    """Memory shared by batches: returned to the pool when the last holder releases it."""

    __slots__ = ("_budget", "_buffer", "_holders", "_reusable", "_size")

    def __init__(self, budget: MemoryBudget, buffer: bytearray, *, held: bool = False) -> None:
        """Args: held: count the creator as a holder, which must also `release`."""
        self._budget = budget
        self._buffer: bytearray | None = buffer
        self._size = len(buffer)
        self._reusable = True
        self._holders = 1 if held else 0
        budget.used += self._size

    @property
    def size(self) -> int:
        """Bytes that count against the budget."""
        return self._size

    def retain(self) -> None:
        self._holders += 1

    def release(self) -> None:
        """Release one hold. The last one returns the memory."""
        self._holders -= 1
        if self._holders <= 0 and self._buffer is not None:
            self._budget.used -= self._size
            if self._reusable:
                self._budget.pool.release(self._buffer)
            self._buffer = None

    def abandon(self) -> None:
        """Drop memory that a socket may still be sending, so that it is never reused."""
        self._reusable = False
        self.release()
