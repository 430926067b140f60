"""The bound on fetched bytes that are not acknowledged yet, and who holds them.

A fetch response lands in one buffer; its batches are slices of it. The buffer counts against the
budget as long as any of its batches is under way. Owned by the copy engine's thread.
"""

from __future__ import annotations

from connect.clients.channel import BufferPool

__all__ = ["FetchBuffer", "MemoryBudget"]


class MemoryBudget:
    """Bytes held, against a limit. `limit` is exceeded by at most one response."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0
        self.pool = BufferPool(max_free=limit // 4)

    @property
    def free(self) -> int:
        return max(0, self.limit - self.used)


class FetchBuffer:
    """Memory shared by batches: returned to the pool when the last of them lets go."""

    __slots__ = ("_budget", "_buffer", "_holders", "_size")

    def __init__(self, budget: MemoryBudget, buffer: bytearray, *, held: bool = False) -> None:
        """Args: held: count the creator as a holder, who must `release` too."""
        self._budget = budget
        self._buffer: bytearray | None = buffer
        self._size = len(buffer)
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
            self._budget.pool.release(self._buffer)
            self._buffer = None
