"""Keeps a flow that Spark copies within its limits (`mirror.rate.*`). Pure: the time is a
parameter.

Each shard gets its share as rates. The copier on the executor keeps to them evenly, as in the
worker engine (`connectors/mirror/copy/throttle.py`). Actual amounts are counted here, because
batches come whole and nothing is copied between micro-batches. A partition that exceeded its share
waits before it is in a shard again. An unused share can be made up for, up to half a second's
worth.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from connect.config.java_regex import literal_regex
from connectors.mirror.config.rates import NO_LIMITS, FlowLimits, RateLimit, TopicRate
from connectors.mirror.copy.range_copier import RangeProgress, SourceRange
from connectors.mirror.copy.rate_limiter import BURST_S
from connectors.mirror.copy.throttle import FLOW_LIMIT, TOPIC_LIMIT

__all__ = ["FlowPacing"]

_PARTITION_BYTES = 16 * 1024
"""A partition's share counts as larger than its remaining bytes by this factor, because its next
records will come soon."""

Shards = Sequence[Sequence[SourceRange]]


class _Account:
    """The usage of one limit. Times are monotonic seconds."""

    def __init__(self, limit: RateLimit) -> None:
        self._limit = limit
        self._bytes_at = self._records_at = -math.inf
        """The time at which everything counted so far is within the rate."""

    def left_s(self, now: float) -> float:
        """Return the seconds until more may be copied."""
        return max(0.0, self._bytes_at - now, self._records_at - now)

    def spend(self, size: int, records: int, began: float) -> None:
        """Count an amount that was copied since `began`."""
        earliest = began - BURST_S
        if self._limit.bytes is not None:
            self._bytes_at = max(self._bytes_at, earliest) + size / self._limit.bytes
        if self._limit.records is not None:
            self._records_at = max(self._records_at, earliest) + records / self._limit.records

    def rates(self, now: float, seconds: float) -> RateLimit:
        """Return the rates for this time. They make up for unused shares."""
        found = self._limit

        def rate(limit: float | None, free_at: float) -> float | None:
            unused = min(BURST_S, max(0.0, now - free_at))
            return None if limit is None else limit * (1 + unused / seconds)

        return RateLimit(rate(found.bytes, self._bytes_at), rate(found.records, self._records_at))


class FlowPacing:
    """Divides a flow's limits among the shards of one micro-batch at a time. `now`: monotonic
    seconds."""

    def __init__(self, batch_s: float) -> None:
        """`batch_s`: the maximum time for which a shard is copied."""
        self._batch_s = batch_s
        self.limit(NO_LIMITS)

    def limit(self, limits: FlowLimits) -> None:
        """Apply these limits from the next micro-batch on."""
        self._limits = limits
        self._flow = _Account(limits.whole) if limits.whole else None
        self._topics: dict[str, _Account | None] = {}
        self._began: float | None = None
        """When the current micro-batch was started with these limits."""

    def held_by(self, topic: str, now: float) -> str | None:
        """Return the limit that forbids copying this topic now; None if none does."""
        account = self._account(topic)
        if account is not None and account.left_s(now) > 0:
            return TOPIC_LIMIT
        return FLOW_LIMIT if self._flow is not None and self._flow.left_s(now) > 0 else None

    def next_s(self, now: float) -> float:
        """Return the seconds until a held topic may continue; infinite if nothing is held."""
        accounts = [self._flow, *self._topics.values()]
        waits = (account.left_s(now) for account in accounts if account is not None)
        return min((wait for wait in waits if wait > 0), default=math.inf)

    def give_out(
        self, shards: Shards, size: Callable[[SourceRange], float], now: float
    ) -> list[FlowLimits] | None:
        """Return each shard's share of the limits in a micro-batch; None if there are no limits.
        `size`: returns the estimated bytes of a range."""
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
        """Return the shard's share of topic limits, by its share of each topic's partitions in this
        micro-batch."""
        for topic, count in Counter(each.source[0] for each in shard).items():
            account = self._account(topic)
            if account is not None:
                rates = account.rates(now, self._batch_s).share(count / partitions[topic])
                yield TopicRate(literal_regex(topic), rates)

    def came(self, progress: Iterable[RangeProgress]) -> None:
        """Count the progress of a shard that returned."""
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
