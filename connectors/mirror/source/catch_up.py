"""Tracks whether the copies of this process have caught up with their sources once.

Work that can wait, such as starting a Spark session, waits for that. Safe from any thread.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Protocol

from connect.clock import SYSTEM_CLOCK, Clock

__all__ = ["PROCESS_CATCH_UP", "CatchUp", "CopyProgress", "LaggingPartition"]

_LOOK_EVERY_S = 1.0
_SETTLED_S = 30.0
"""Tasks begin to copy within this time after the process began. A worker may have no tasks."""


class LaggingPartition(Protocol):
    """A source partition that is being copied."""

    @property
    def lag(self) -> int | None:
        """Records that the target lacks; None: not known yet."""


class CopyProgress:
    """One task's copy. Call it on the task's thread."""

    def __init__(self, all_copies: CatchUp, clock: Clock) -> None:
        self._all = all_copies
        self._clock = clock
        self._look_at = clock.monotonic() + _LOOK_EVERY_S
        self._done = False

    def look(self, partitions: Iterable[LaggingPartition]) -> None:
        """Report once that none of the task's partitions lags behind; looks once a second."""
        if self._done or (now := self._clock.monotonic()) < self._look_at:
            return
        self._look_at = now + _LOOK_EVERY_S
        if all(partition.lag == 0 for partition in partitions):
            self.close()

    def close(self) -> None:
        """Record that the copy has ended, or has caught up: nothing waits for it any more."""
        self._done = True
        self._all._end(self)


class CatchUp:
    """All copies of a process."""

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._copies: set[CopyProgress] = set()
        self._began = clock.monotonic()
        self._over = False

    def begin(self, clock: Clock = SYSTEM_CLOCK) -> CopyProgress:
        """Record that a task starts to copy."""
        progress = CopyProgress(self, clock)
        with self._lock:
            self._copies.add(progress)
        return progress

    def copying(self, at_most_s: float) -> bool:
        """Whether copies have not caught up yet. Once they have, or `at_most_s` after the process
        began, it stays False: tasks that start later are not waited for."""
        age = self._clock.monotonic() - self._began
        with self._lock:
            caught_up = age >= _SETTLED_S and not self._copies
            self._over = self._over or caught_up or age >= at_most_s
            return not self._over

    def _end(self, progress: CopyProgress) -> None:
        with self._lock:
            self._copies.discard(progress)


PROCESS_CATCH_UP = CatchUp()
"""The copies of this process."""
