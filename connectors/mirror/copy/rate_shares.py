"""Divides rate limits (`mirror.rate.*`, `--rate`) among shards that are copied at the same time, by
Spark tasks or by the threads of a backfill. Pure: the time is a parameter, in monotonic seconds.

A shard takes its share when it goes out, keeps to it, and returns it when it ends. The shares in
flight never add up to more than the limit. The amount that a shard copied is counted when it
returns, because batches are not split. If it is more than the share allows, no shard goes out until
the total is within the limit again. A rate that no shard used can be made up for, up to `burst_s`.
A share of less than a hundredth of the limit is not worth a shard.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Literal, NamedTuple

from connect.config.java_regex import literal_regex
from connectors.mirror.config.rates import NO_LIMITS, FlowLimits, RateLimit, TopicRate
from connectors.mirror.copy.range_copier import RangeProgress
from connectors.mirror.copy.rate_limiter import BURST_S
from connectors.mirror.copy.throttle import FLOW_LIMIT, TOPIC_LIMIT

__all__ = ["FlowShares", "Pace", "RateShares", "Share"]

_LEAST = 0.01
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Share:
    """A shard's share: `rate` per second since `since`, and `extra` that nobody had used before."""

    rate: float
    extra: float
    since: float


class RateShares:
    """The shares of one limit in bytes or records per second."""

    def __init__(self, limit: float, now: float, burst_s: float = BURST_S) -> None:
        self._limit = limit
        self._burst = self._unused = limit * burst_s
        """Unused rate that may be made up for; negative: the amount copied beyond the limit."""
        self._taken = 0.0
        self._at = now

    def wait_s(self, now: float) -> float:
        """Return the seconds until a shard may go out: 0 now, infinite before another returns."""
        self._turn(now)
        left = self._limit - self._taken
        if left < self._limit * (_LEAST - _ROUNDING):
            return math.inf
        return max(0.0, -self._unused / left)

    def take(self, shards: int, now: float) -> Share | None:
        """Take the share of the next shard, if this number of shards may go out now; None while
        `wait_s` is above 0."""
        if self.wait_s(now) > 0:
            return None
        left = self._limit - self._taken
        rate = min(left, max(left / shards, self._limit * _LEAST))
        extra = self._unused * rate / left
        self._taken += rate
        self._unused -= extra
        return Share(rate, extra, now)

    def give_back(self, share: Share, amount: float, now: float) -> None:
        """Return the share of a shard that copied this amount."""
        self._turn(now)
        self._taken = max(0.0, self._taken - share.rate)
        allowed = share.extra + share.rate * max(0.0, now - share.since)
        self._unused = min(self._burst, self._unused + allowed - amount)

    def _turn(self, now: float) -> None:
        passed, self._at = max(0.0, now - self._at), max(now, self._at)
        free = max(0.0, self._limit - self._taken)
        self._unused = min(self._burst, self._unused + free * passed)


@dataclass(frozen=True, slots=True)
class Pace:
    """A shard's share of a flow's limits: those that its copier keeps to, and what was taken of
    which one."""

    limits: FlowLimits
    taken: Sequence[tuple[_Limit, Share]]


class _Limit(NamedTuple):
    """The shares of one limit: of a topic, or of the whole flow (None); of bytes, or of records."""

    topic: str | None
    what: Literal["bytes", "records"]
    shares: RateShares


class FlowShares:
    """The shares of a flow's limits. A topic with a limit of its own is in one shard at a time,
    which has all of it."""

    def __init__(self) -> None:
        self.limit(NO_LIMITS, 0.0)

    def limit(self, limits: FlowLimits, now: float) -> None:
        """Apply other limits. Shards that are in flight now do not count."""
        self._limits = limits
        self._flow = _limits(None, limits.whole, now)
        self._topics: dict[str, Sequence[_Limit]] = {}

    def held_by(self, topic: str, now: float) -> str | None:
        """Return the limit that forbids copying this topic now; None if none does."""
        if any(each.shares.wait_s(now) > 0 for each in self._of_topic(topic, now)):
            return TOPIC_LIMIT
        return FLOW_LIMIT if any(each.shares.wait_s(now) > 0 for each in self._flow) else None

    def next_s(self, now: float) -> float:
        """Return the seconds until a held topic may continue; infinite if only the end of a shard
        can change that, or nothing is held."""
        every = chain(self._flow, *self._topics.values())
        waits = (each.shares.wait_s(now) for each in every)
        return min((wait for wait in waits if wait > 0), default=math.inf)

    def take(self, topics: Iterable[str], shards: int, seconds: float, now: float) -> Pace | None:
        """Take the share of a shard with these topics, which no limit holds; None: no limit
        applies. `shards`: how many may go out now. `seconds`: for how long it is copied at most."""
        if not self._flow and not self._limits.topics:
            return None
        taken: list[tuple[_Limit, Share]] = []

        def rates(limits: Iterable[_Limit], parts: int) -> RateLimit:
            found: dict[str, float] = {}
            for each in limits:
                share = each.shares.take(parts, now)
                assert share is not None, "the topic is held"
                taken.append((each, share))
                found[each.what] = share.rate + share.extra / seconds
            return RateLimit(**found)

        whole = rates(self._flow, shards)
        of_topics = [
            TopicRate(literal_regex(topic), rates(limits, 1))
            for topic in dict.fromkeys(topics)
            if (limits := self._of_topic(topic, now))
        ]
        return Pace(FlowLimits(whole, of_topics, divided=True), taken)

    @staticmethod
    def give_back(pace: Pace, progress: Sequence[RangeProgress], now: float) -> None:
        """Return the share of a shard that has ended, with the progress of its ranges."""
        for (topic, what, shares), share in pace.taken:
            own = (each for each in progress if topic in (None, each.range.source[0]))
            shares.give_back(share, sum(getattr(each, what) for each in own), now)

    def _of_topic(self, topic: str, now: float) -> Sequence[_Limit]:
        if not self._limits.topics:
            return ()
        if topic not in self._topics:
            self._topics[topic] = _limits(topic, self._limits.of_topic(topic), now)
        return self._topics[topic]


def _limits(topic: str | None, limit: RateLimit, now: float) -> Sequence[_Limit]:
    found = []
    if limit.bytes is not None:
        found.append(_Limit(topic, "bytes", RateShares(limit.bytes, now)))
    if limit.records is not None:
        found.append(_Limit(topic, "records", RateShares(limit.records, now)))
    return found
