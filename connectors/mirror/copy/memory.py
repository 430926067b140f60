"""The bound on fetched bytes that are not acknowledged yet.

A fetch response is stored in one buffer; its batches are slices of it. The buffer counts against
the budget until the last of its batches is released. Owned by the copy engine's thread.
"""

from __future__ import annotations

from connect.clients.wire.channel import BufferPool

__all__ = ["FetchBuffer", "MemoryBudget"]

RESPONSE_SHARE = 8
"""A fetch asks for at most this fraction of the task's memory, unless the round trip is long."""

LINK_BYTES_PER_S = 250_000_000
"""Each broker has one fetch in flight. A fetch may return in a round trip twice what a 1 Gbit/s
link carries, so that waiting takes no more time than the data."""


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
        """Raise the limit for a reader with this round trip: two fetches must fit beside
        the next."""
        wanted = 3 * max(1, self.readers) * round(round_trip_s * LINK_BYTES_PER_S)
        self.limit = max(self.limit, min(self._most, wanted))

    def response_bytes(self, round_trip_s: float) -> int:
        """The size of one fetch. All readers' fetches together reserve it while they wait at their
        brokers, so it leaves half of the memory to batches on their way."""
        usual = self.limit // max(RESPONSE_SHARE, 2 * self.readers)
        most = self.limit // max(2, 2 * self.readers)
        return max(1, usual, min(most, round(round_trip_s * LINK_BYTES_PER_S)))

    def admit(self, reader: object, size: int) -> bool:
        """Whether this reader may fetch `size` bytes now. A refused reader keeps its position in a
        queue, so that every reader gets memory in turn."""
        if self.free >= size and next(iter(self._waiting), reader) is reader:
            self._waiting.pop(reader, None)
            return True
        self._waiting[reader] = None
        return False

    def withdraw(self, reader: object) -> None:
        """This reader does not wait for memory any more."""
        self._waiting.pop(reader, None)


class FetchBuffer:
    """Memory shared by batches: returned to the pool when the last holder releases it."""

    __slots__ = ("_budget", "_buffer", "_holders", "_reusable", "_size")

    def __init__(self, budget: MemoryBudget, buffer: bytearray, *, held: bool = False) -> None:
        """Args: held: count the creator as a holder, who must `release` too."""
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
        """Release memory that a socket may still be sending: it is never used again."""
        self._reusable = False
        self.release()
