"""The timestamp of the next record of each partition, by asking for offsets at times.

The first record of a log is told with its timestamp by one question. Behind it the time is found by
halving: the first moment from which on records are at or behind the offset. All partitions are
asked together, so it takes some twenty questions, up to forty where records are far apart, however
many partitions there are. `StampSearch` is pure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from connect.protocol.messages import TopicPartition

__all__ = ["StampSearch", "next_stamps"]

Found = tuple[int, int]
"""(offset, timestamp) of the first record as young as asked for; (-1, -1): there is none."""

PRECISION_MS = 10_000
_MOST_ROUNDS = 40


@dataclass(slots=True)
class StampSearch:
    """Looks for the earliest time from which on records are at or behind `position`. Timestamps may
    go back here and there in a log, so the outcome is that of some record near the position.

    The next record's timestamp is not before `before` and not after `stamp`."""

    position: int
    low: int = 0
    high: int | None = None
    before: int = 0
    stamp: int | None = None
    over: bool = False

    @property
    def question(self) -> int:
        """The time (ms) to ask for next."""
        return 0 if self.high is None else (self.low + self.high) // 2

    def answered(self, found: Found, now_ms: int) -> None:
        """`found`: the answer to `question`."""
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
            # The record at the position is of the same moment as the one before it, or is not there
            # any more: rather too early than too late.
            self.stamp, self.over = self.before, True


def next_stamps(
    ask: Callable[[Mapping[TopicPartition, int]], Mapping[TopicPartition, Found]],
    positions: Mapping[TopicPartition, int],
    now_ms: int,
) -> dict[TopicPartition, int]:
    """Timestamps of the records at `positions`; a partition without one is left out. `ask`: what
    `Admin.records_at` answers."""
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
