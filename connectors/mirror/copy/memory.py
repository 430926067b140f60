"""The limit on fetched but not yet acknowledged bytes.

A fetch response is stored in one buffer, and its batches are slices of it. The buffer counts
against the budget until the last of its batches is released.

The tasks of a process share one limit. Half of it is guaranteed to them in equal parts, so that a
slow target, which holds memory for long, does not take it from the others. The other half is for
those that need more.
"""

from __future__ import annotations

import threading

from connect.clients.wire.channel import BufferPool

__all__ = ["PROCESS_MEMORY", "FetchBuffer", "MemoryBudget", "SharedMemory"]

RESPONSE_SHARE = 8
"""A fetch requests at most this fraction of the task's memory, unless the round trip is long."""

LINK_BYTES_PER_S = 250_000_000
"""Each broker has one fetch in flight. A fetch may return twice what a 1 Gbit/s link carries in a
round trip, so that waiting takes no more time than the transfer."""


_POOL_SHARE = 4
"""At most this fraction of the memory is kept for reuse while nothing needs it."""


class SharedMemory:
    """The limit that several budgets share: the largest of theirs. Safe from any thread.

    Budgets look at each other's use without a lock: together they may exceed the limit by a
    response each, as a single one does.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._budgets: tuple[MemoryBudget, ...] = ()

    def join(self, budget: MemoryBudget) -> None:
        with self._lock:
            self._share((*self._budgets, budget))

    def leave(self, budget: MemoryBudget) -> None:
        with self._lock:
            self._share(tuple(each for each in self._budgets if each is not budget))

    def _share(self, budgets: tuple[MemoryBudget, ...]) -> None:
        self._budgets = budgets
        for each in budgets:
            each.pool.max_free = each.limit // _POOL_SHARE // len(budgets)

    def guaranteed(self, budget: MemoryBudget) -> int:
        """Return the bytes that nobody else can take from this budget."""
        budgets = self._budgets
        if len(budgets) <= 1:
            return budget.limit
        return max(each.limit for each in budgets) // (2 * len(budgets))

    def room(self, budget: MemoryBudget) -> int:
        """Return the bytes that this budget may still take."""
        budgets = self._budgets
        if len(budgets) <= 1:
            return budget.limit - budget.used
        limit = max(each.limit for each in budgets)
        part = limit // (2 * len(budgets))
        common = limit - part * len(budgets) - sum(max(0, b.used - part) for b in budgets)
        return min(budget.limit - budget.used, max(0, part - budget.used) + max(0, common))


PROCESS_MEMORY = SharedMemory()
"""The memory of this process's tasks."""


class MemoryBudget:
    """Bytes held, against a limit. `limit` is exceeded by at most one response. Owned by the copy
    engine, which calls `close`."""

    def __init__(
        self, limit: int, most: int | None = None, shared: SharedMemory | None = None
    ) -> None:
        """Args: most: the largest limit that a long round trip may set; None: the limit is
        fixed. shared: with other budgets; None: with none."""
        self.limit = limit
        self._most = most or limit
        self.used = 0
        self.readers = 0
        """How many source brokers share the memory."""
        self.pool = BufferPool(max_free=limit // _POOL_SHARE)
        self._waiting: dict[object, None] = {}
        self._shared = shared or SharedMemory()
        self._shared.join(self)

    @property
    def free(self) -> int:
        return max(0, self._shared.room(self))

    def close(self) -> None:
        """Leave the memory to others."""
        self._shared.leave(self)

    def reach(self, round_trip_s: float) -> None:
        """Raise the limit for a reader with this round trip: memory for two more fetches must be
        available."""
        wanted = 3 * max(1, self.readers) * round(round_trip_s * LINK_BYTES_PER_S)
        self.limit = max(self.limit, min(self._most, wanted))

    def response_bytes(self, round_trip_s: float) -> int:
        """Return the size of one fetch. All readers' fetches together reserve it while they wait at
        their brokers, so half of the guaranteed memory is left to batches in flight."""
        most = self._shared.guaranteed(self) // max(2, 2 * self.readers)
        usual = min(most, self.limit // max(RESPONSE_SHARE, 2 * self.readers))
        return max(1, usual, min(most, round(round_trip_s * LINK_BYTES_PER_S)))

    def admit(self, reader: object, size: int, *, urgent: bool = False) -> bool:
        """Whether this reader may fetch `size` bytes now. A rejected reader is queued, so that
        every reader gets memory in turn. `urgent`: it waits for no other reader, and may exceed the
        limit by less than `size`."""
        if urgent and self._shared.room(self) > 0:
            self._waiting.pop(reader, None)
            return True
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
