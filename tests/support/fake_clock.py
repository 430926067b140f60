"""The clock of tests without waits."""

from __future__ import annotations

__all__ = ["FakeClock"]


class FakeClock:
    """A clock that moves only when told to, for tests."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self._monotonic = 0.0
        self._now_ms = now_ms

    def monotonic(self) -> float:
        return self._monotonic

    def now_ms(self) -> int:
        return self._now_ms

    def advance(self, seconds: float) -> None:
        """Move both clocks forward by `seconds`."""
        self._monotonic += seconds
        self._now_ms += round(seconds * 1000)
