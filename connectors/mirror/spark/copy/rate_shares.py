"""Keeps a flow that Spark copies to its limits (`mirror.rate.*`). Pure: time comes in.

Each shard gets its share as rates, which the copier on the executor keeps to as a task of the
worker engine does (`connectors/mirror/copy/throttle.py`): so what comes is even. What really came
is counted here, as batches of records come whole, and nothing comes between micro-batches: what had
too much waits before it is given out again, and what was not used may be made up for, by half a
second's worth.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from connectors.mirror.config.rates import NO_LIMITS, FlowLimits, RateLimit, TopicRate
from connectors.mirror.copy.range_copier import RangeProgress, SourceRange
from connectors.mirror.copy.rate_limiter import BURST_S
from connectors.mirror.copy.throttle import FLOW_LIMIT, TOPIC_LIMIT

__all__ = ["FlowPacing"]

_PARTITION_BYTES = 16 * 1024
"""A partition counts as so much more than it has left: its next records are to come soon."""

Shards = Sequence[Sequence[SourceRange]]


class _Account:
    """What came of one limit. Times are monotonic seconds."""

    def __init__(self, limit: RateLimit) -> None:
        self._limit = limit
        self._bytes_at = self._records_at = -math.inf
        """When all that was counted so far has had its time."""

    def left_s(self, now: float) -> float:
        """Until more may come."""
        return max(0.0, self._bytes_at - now, self._records_at - now)

    def spend(self, size: int, records: int, began: float) -> None:
        """So much came since `began`."""
        earliest = began - BURST_S
        if self._limit.bytes is not None:
            self._bytes_at = max(self._bytes_at, earliest) + size / self._limit.bytes
        if self._limit.records is not None:
            self._records_at = max(self._records_at, earliest) + records / self._limit.records

    def rates(self, now: float, seconds: float) -> RateLimit:
        """At which it may come for so long: what was not used is made up for."""
        found = self._limit

        def rate(limit: float | None, free_at: float) -> float | None:
            unused = min(BURST_S, max(0.0, now - free_at))
            return None if limit is None else limit * (1 + unused / seconds)

        return RateLimit(rate(found.bytes, self._bytes_at), rate(found.records, self._records_at))


class FlowPacing:
    """See the module. `now`: monotonic seconds. One micro-batch at a time."""

    def __init__(self, batch_s: float) -> None:
        """`batch_s`: how long a shard is copied at most."""
        self._batch_s = batch_s
        self.limit(NO_LIMITS)

    def limit(self, limits: FlowLimits) -> None:
        """These count from the next micro-batch on."""
        self._limits = limits
        self._flow = _Account(limits.whole) if limits.whole else None
        self._topics: dict[str, _Account | None] = {}
        self._began: float | None = None
        """When the micro-batch under way was given out by these limits."""

    def held_by(self, topic: str, now: float) -> str | None:
        """The limit that forbids to copy of this topic now; None: none does."""
        account = self._account(topic)
        if account is not None and account.left_s(now) > 0:
            return TOPIC_LIMIT
        return FLOW_LIMIT if self._flow is not None and self._flow.left_s(now) > 0 else None

    def next_s(self, now: float) -> float:
        """Seconds until something that is held may go on; infinite: nothing is held."""
        accounts = [self._flow, *self._topics.values()]
        waits = (account.left_s(now) for account in accounts if account is not None)
        return min((wait for wait in waits if wait > 0), default=math.inf)

    def give_out(
        self, shards: Shards, size: Callable[[SourceRange], float], now: float
    ) -> list[FlowLimits] | None:
        """What each shard of a micro-batch has of the limits; None: there are none. `size`: the
        bytes that a range is believed to have."""
        if self._flow is None and not self._limits.topics:
            return None
        self._began = now
        weights = [sum(size(each) + _PARTITION_BYTES for each in shard) for shard in shards]
        whole = RateLimit() if self._flow is None else self._flow.rates(now, self._batch_s)
        partitions = Counter(each.source[0] for shard in shards for each in shard)
        return [
            FlowLimits(
                whole.share(weight / sum(weights)),
                tuple(self._of_topics(shard, partitions, now)),
                divided=True,
            )
            for shard, weight in zip(shards, weights, strict=True)
        ]

    def _of_topics(
        self, shard: Sequence[SourceRange], partitions: Counter[str], now: float
    ) -> Iterable[TopicRate]:
        """As much of a topic's limit as the shard has of its partitions in this micro-batch."""
        for topic, count in Counter(each.source[0] for each in shard).items():
            account = self._account(topic)
            if account is not None:
                rates = account.rates(now, self._batch_s).share(count / partitions[topic])
                yield TopicRate(re.compile(re.escape(topic)), rates)

    def came(self, progress: Iterable[RangeProgress]) -> None:
        """A shard is back."""
        if self._began is None:
            return
        for each in progress:
            for account in (self._flow, self._account(each.range.source[0])):
                if account is not None:
                    account.spend(each.bytes, each.records, self._began)

    def _account(self, topic: str) -> _Account | None:
        if not self._limits.topics:
            return None
        if topic not in self._topics:
            limit = self._limits.of_topic(topic)
            self._topics[topic] = _Account(limit) if limit else None
        return self._topics[topic]
