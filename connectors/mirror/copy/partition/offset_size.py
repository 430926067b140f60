"""Estimates the size of the records that a partition is behind. Pure."""

from __future__ import annotations

__all__ = ["OffsetSize"]


class OffsetSize:
    """The average size of one source offset in a partition's log. Newer measurements count more.

    Measured and read on different threads: a reader may miss the last measurement.
    """

    __slots__ = ("_measured",)

    def __init__(self) -> None:
        self._measured = (0.0, 0.0)

    def measure(self, size: int, offsets: int) -> None:
        """Add a measurement: `size` bytes for this number of offsets, gaps included."""
        if size <= 0 or offsets <= 0:
            return
        total, count = self._measured
        self._measured = (total / 2 + size, count / 2 + offsets)

    def estimate(self, offsets: int | None) -> int | None:
        """Estimate the bytes of this number of offsets. None: nothing was measured, or `offsets` is
        None."""
        total, count = self._measured
        if offsets == 0:
            return 0
        return round(offsets * total / count) if offsets is not None and count else None
