"""The bound on fetched bytes that are not acknowledged yet, and who holds them.

A fetch response lands in one buffer; its batches are slices of it. The buffer counts against the
budget as long as any of its batches is under way. Owned by the copy engine's thread.
"""

from __future__ import annotations

from connect.clients.wire.channel import BufferPool

__all__ = ["FetchBuffer", "MemoryBudget"]

RESPONSE_SHARE = 8
"""A fetch asks for at most this fraction of the task's memory, unless the way is long."""

LINK_BYTES_PER_S = 250_000_000
"""One fetch is under way at a time: what it may bring in a round trip is twice what a link of
1 Gbit/s carries, so that the waiting takes no more of the time than the data."""


class MemoryBudget:
    """Bytes held, against a limit. `limit` is exceeded by at most one response."""

    def __init__(self, limit: int, most: int | None = None) -> None:
        """Args: most: what the limit may become for a long way; None: it stays."""
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
        """A reader's way is so long: two fetches are to have room beside the next."""
        wanted = 3 * max(1, self.readers) * round(round_trip_s * LINK_BYTES_PER_S)
        self.limit = max(self.limit, min(self._most, wanted))

    def response_bytes(self, round_trip_s: float) -> int:
        """What one fetch may ask for: so little that all readers' fetches together, which hold it
        back while they wait at their brokers, leave half of the memory to what is on its way."""
        usual = self.limit // max(RESPONSE_SHARE, 2 * self.readers)
        most = self.limit // max(2, 2 * self.readers)
        return max(1, usual, min(most, round(round_trip_s * LINK_BYTES_PER_S)))

    def admit(self, reader: object, size: int) -> bool:
        """Whether this reader may fetch `size` bytes now. Those who may not keep their place in a
        line, so that with little memory every reader has its turn."""
        if self.free >= size and next(iter(self._waiting), reader) is reader:
            self._waiting.pop(reader, None)
            return True
        self._waiting[reader] = None
        return False

    def withdraw(self, reader: object) -> None:
        """This reader does not wait for memory any more."""
        self._waiting.pop(reader, None)


class FetchBuffer:
    """Memory shared by batches: returned to the pool when the last of them lets go."""

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
        """Let go. The last holder gives the memory back."""
        self._holders -= 1
        if self._holders <= 0 and self._buffer is not None:
            self._budget.used -= self._size
            if self._reusable:
                self._budget.pool.release(self._buffer)
            self._buffer = None

    def abandon(self) -> None:
        """Let go of memory that may still be on its way to a socket: it is never used again."""
        self._reusable = False
        self.release()
