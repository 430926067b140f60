"""Finds the timestamp of each partition's next record with ListOffsets by timestamp.

One request returns the first record of a log with its timestamp. For later records, bisection finds
the time: the first moment from which on records are at or behind the offset. All partitions share
each request, so it takes some twenty requests, up to forty if records are far apart, however many
partitions there are. `StampSearch` is pure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from connect.protocol.messages import TopicPartition

__all__ = ["StampSearch", "next_stamps"]

Found = tuple[int, int]
"""(offset, timestamp) of the first record with at least the requested timestamp; (-1, -1): none."""

PRECISION_MS = 10_000
_MOST_ROUNDS = 40


@dataclass(slots=True)
class StampSearch:
    """Finds the earliest time from which on records are at or behind `position`. Timestamps in a
    log may not be ascending, so the result is that of some record near the position.

    The next record's timestamp is not before `before` and not after `stamp`.
    """

    position: int
    low: int = 0
    high: int | None = None
    before: int = 0
    stamp: int | None = None
    over: bool = False

    @property
    def question(self) -> int:
        """The next timestamp (ms) to request."""
        return 0 if self.high is None else (self.low + self.high) // 2

    def answered(self, found: Found, now_ms: int) -> None:
        """Apply the response to `question`."""
        offset, stamp = found
        asked = self.question
        behind = offset < 0 or offset >= self.position
        if self.high is None:
            # The log's first record.
            if behind:
                self.stamp = stamp if offset >= 0 else None
                self.over = True
                return
            self.low, self.high = max(0, stamp), max(now_ms, stamp + 1)
            self.before, self.stamp = self.low, self.high
        elif behind:
            self.high = asked
            self.stamp = stamp if offset >= 0 else asked
            self.over = offset == self.position
        else:
            self.low = max(asked + 1, min(stamp, self.high))
            self.before = max(self.before, stamp)
        self.over = self.over or (self.stamp or 0) - self.before <= PRECISION_MS
        if self.high <= self.low and not self.over:
            # The record at the position has the same timestamp as the one before it, or was
            # deleted: rather too early than too late.
            self.stamp, self.over = self.before, True


def next_stamps(
    ask: Callable[[Mapping[TopicPartition, int]], Mapping[TopicPartition, Found]],
    positions: Mapping[TopicPartition, int],
    now_ms: int,
) -> dict[TopicPartition, int]:
    """Timestamps of the records at `positions`; a partition without one is left out. `ask`: returns
    `Admin.records_at`'s response."""
    searches = {key: StampSearch(position) for key, position in positions.items()}
    waiting = dict(searches)
    for _ in range(_MOST_ROUNDS):
        if not waiting:
            break
        answers = ask({key: search.question for key, search in waiting.items()})
        for key, search in waiting.items():
            search.answered(answers.get(key, (-1, -1)), now_ms)
        waiting = {key: search for key, search in waiting.items() if not search.over}
    return {key: search.stamp for key, search in searches.items() if search.stamp is not None}
