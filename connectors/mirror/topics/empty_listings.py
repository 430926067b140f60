"""Decides whether to trust a cluster that lists no topics.

With ZooKeeper (before KRaft), a broker that has just started answers metadata requests before its
controller has sent it any topics. For a moment it knows brokers but no topics. If the mirror
trusted it, a flow would start without topics until the next refresh ten minutes later, or drop all
mirrored topics.
"""

from __future__ import annotations

from collections.abc import Mapping

from connect.clock import SYSTEM_CLOCK, Clock
from connect.errors import RetriableError

__all__ = ["EmptyListings"]

# A controller sends topics within milliseconds, or within seconds on a machine that starts many
# brokers.
_BELIEVED_AFTER_S = 30.0


class EmptyListings:
    """Tracks the empty listings of one cluster. For the thread that lists."""

    def __init__(self, alias: str, clock: Clock = SYSTEM_CLOCK) -> None:
        self._alias = alias
        self._clock = clock
        self._since: float | None = None

    def check(self, listed: Mapping[str, int]) -> None:
        """Raise `RetriableError` for 30 s after the first empty listing."""
        now = self._clock.monotonic()
        if listed:
            self._since = None
            return
        if self._since is None:
            self._since = now
        if now - self._since < _BELIEVED_AFTER_S:
            raise RetriableError(
                f"Cluster {self._alias} lists no topics: it is empty, or its broker has just "
                "started and does not know its topics yet"
            )
