"""Decides when an offset sync is due: MirrorMaker 2's rule, applied to ranges instead of single
records.

Java checks each acknowledged record. Here a run of consecutive offsets is checked as a whole, with
the same result. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass, field

__all__ = ["OffsetSyncRule", "SyncPoint"]

SyncPoint = tuple[int, int]
"""(upstream offset, downstream offset)."""

_NEVER = -1


@dataclass(slots=True)
class OffsetSyncRule:
    """One partition's syncs so far. `lag_max` is `offset.lag.max`.

    `delayed` is the newest position that was not due yet. The task sends it when source offsets are
    committed, so that idle partitions have an exact sync too.
    """

    lag_max: int
    delayed: SyncPoint | None = None
    _upstream: int = field(default=_NEVER)
    _downstream: int = field(default=_NEVER)
    _synced: int = field(default=_NEVER)

    def copied(self, upstream: int, count: int, downstream: int) -> list[SyncPoint]:
        """Record that `count` records from `upstream` on were acknowledged from `downstream` on.

        Returns the due syncs: where the mapping breaks, and the newest one after a gap of more than
        `lag_max` records.
        """
        due: list[SyncPoint] = []
        if self._broken(upstream, downstream) or self._stale(downstream):
            due.append((upstream, downstream))
            self._synced = downstream
        last = downstream + count - 1
        newest = self._newest_stale(last)
        if newest is not None and newest > downstream:
            due.append((upstream + newest - downstream, newest))
            self._synced = newest
        self._upstream = upstream + count - 1
        self._downstream = last
        end = (self._upstream, last)
        self.delayed = None if due[-1:] == [end] else end
        return due

    def _broken(self, upstream: int, downstream: int) -> bool:
        return (
            self._synced == _NEVER
            or upstream - self._upstream != 1
            or downstream < self._downstream
        )

    def _stale(self, downstream: int) -> bool:
        return downstream - (self._synced + 1) >= self.lag_max

    def _newest_stale(self, last: int) -> int | None:
        """Return the downstream offset of the last sync that `lag_max` makes due up to `last`."""
        step = max(1, self.lag_max + 1)
        steps = (last - self._synced) // step
        return self._synced + steps * step if steps > 0 else None

    def take_delayed(self) -> SyncPoint | None:
        """Return the delayed position once."""
        delayed, self.delayed = self.delayed, None
        return delayed
