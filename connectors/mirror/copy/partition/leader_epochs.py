"""The leader epochs in which a partition's copied batches were written. Pure.

Each batch header contains its epoch, so recording costs one look at the last header of each fetch.
With the epoch, the source can be asked whether its records before a position are still the copied
ones.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence

from connect.protocol.batches import BatchHeader

__all__ = ["LeaderEpochCache"]

_EPOCH = struct.Struct(">i")
_EPOCH_AT = 12
_KEPT = 16
"""Only the newest epoch matters unless the log is truncated more than once."""


class LeaderEpochCache:
    """(epoch, first offset copied in it) pairs, both ascending."""

    __slots__ = ("_starts",)

    def __init__(self, starts: Iterable[tuple[int, int]] = ()) -> None:
        self._starts = list(starts)

    @property
    def starts(self) -> tuple[tuple[int, int], ...]:
        return tuple(self._starts)

    def saw(self, records: memoryview, headers: Sequence[BatchHeader]) -> None:
        """Record the epochs of fetched batches."""
        newest = self._starts[-1][0] if self._starts else -1
        last = headers[-1]
        if last.magic == 2 and _EPOCH.unpack_from(records, last.start + _EPOCH_AT)[0] == newest:
            return
        for header in headers:
            if header.magic != 2:
                continue
            (epoch,) = _EPOCH.unpack_from(records, header.start + _EPOCH_AT)
            if epoch > newest:
                newest = epoch
                self._starts.append((epoch, header.base_offset))
        del self._starts[:-_KEPT]

    def precede(self, starts: Iterable[tuple[int, int]]) -> None:
        """Add an epoch that was copied earlier."""
        first = self._starts[0][0] if self._starts else None
        earlier = [entry for entry in starts if first is None or entry[0] < first]
        self._starts = [*earlier, *self._starts][-_KEPT:]

    def follow(self, starts: Iterable[tuple[int, int]]) -> None:
        """Add epochs that follow those of the fetched batches."""
        newest = self._starts[-1][0] if self._starts else -1
        self._starts += [entry for entry in starts if entry[0] > newest]
        del self._starts[:-_KEPT]

    def before(self, position: int) -> int | None:
        """Return the epoch of the last record before `position`; None if it is not known."""
        for epoch, start in reversed(self._starts):
            if start < position:
                return epoch
        return None

    def cut(self, end: int) -> None:
        """Drop epochs from offset `end` on after a truncation."""
        self._starts = [entry for entry in self._starts if entry[1] < end]
