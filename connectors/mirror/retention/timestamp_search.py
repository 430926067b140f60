"""Finds the timestamp of each partition's next record with ListOffsets by timestamp.

One request returns the first record of a log with its timestamp. For later records, a bisection
over time finds the first timestamp whose record is at or after the offset. All partitions share
each request. It takes about twenty requests, and up to forty if timestamps are far apart, for any
number of partitions. `StampSearch` is pure.
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
    """Finds the earliest timestamp whose record is at or after `position`, which is not before
    `before` and not after `stamp`.

    Timestamps in a log may be out of order, so the result is that of some record near the position.
    """

    position: int
    low: int = 0
    high: int | None = None
    before: int = 0
    stamp: int | None = None
    over: bool = False

    @property
    def question(self) -> int:
        """Return the next timestamp (ms) to request."""
        return 0 if self.high is None else (self.low + self.high) // 2

    def answered(self, found: Found, now_ms: int) -> None:
        """Apply the response to the request for `question`."""
        offset, stamp = found
        asked = self.question
        behind = offset < 0 or offset >= self.position
        if self.high is None:
            # This is the log's first record.
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
            # The record at the position was deleted, or has the timestamp of the one before it. An
            # early estimate is safer than a late one.
            self.stamp, self.over = self.before, True


def next_stamps(
    ask: Callable[[Mapping[TopicPartition, int]], Mapping[TopicPartition, Found]],
    positions: Mapping[TopicPartition, int],
    now_ms: int,
) -> dict[TopicPartition, int]:
    """Return the timestamps of the records at `positions`, without partitions that have none.
    `ask`: returns the response of `Admin.records_at`."""
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
