"""Keeps a task within its share of the flow's limits (`mirror.rate.*`).

A fetch is counted once per partition in it, never per record. While the flow is over its limit,
nothing is fetched. While a topic is over its limit, its partitions are left out of fetches and
others continue. Fetch sizes are limited to the bytes of a fraction of a second, so that a low rate
is even and bursts are short. A batch is never split, however low the rate.

Belongs to the copy engine's thread.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from connect.clock import Clock
from connect.protocol.batches import BatchHeader
from connect.protocol.small_batches import largest_batch
from connectors.mirror.config.rates import NO_LIMITS, FlowLimits, RateLimit
from connectors.mirror.copy.context import CopyContext
from connectors.mirror.copy.partition.partition import PartitionCopy
from connectors.mirror.copy.rate_limiter import RateLimiter

__all__ = ["FLOW_LIMIT", "TOPIC_LIMIT", "Throttle"]

FLOW_LIMIT, TOPIC_LIMIT = "mirror.rate.bytes or mirror.rate.records", "mirror.rate.topics"

_FETCH_S = 0.25
"""One fetch requests the bytes of this time at the limit."""
_LEAST_FETCH_BYTES = 16 * 1024
"""A smaller fetch costs more than it smooths the flow."""
_WAITING_AT_FIRST = 4
"""Assumed number of partitions with lag, until it is counted."""
_UNSEEN_RECORD_BYTES = 128
"""Assumed size of a record until some were fetched."""


class _Meter:
    """One limit: its rates, and the time for which it delayed records."""

    def __init__(self, limit: RateLimit, clock: Clock) -> None:
        self._clock = clock
        self._bytes = None if limit.bytes is None else RateLimiter(limit.bytes, clock)
        self._records = None if limit.records is None else RateLimiter(limit.records, clock)
        self._seen_bytes = self._seen_records = 0
        self.partitions: list[PartitionCopy] = []
        self.holds = False
        self.until = 0.0
        """When it releases the held partitions (monotonic seconds)."""
        self._held_s = 0.0
        self._held_at = 0.0
        self._looked_at_s = 0.0
        self.recent_s = 0.0
        """How long the limit delayed records in the last second."""

    @property
    def counts_records(self) -> bool:
        return self._records is not None

    def change(self, limit: RateLimit) -> None:
        """Set other rates of the same kinds."""
        if self._bytes is not None and limit.bytes is not None:
            self._bytes.rate = limit.bytes
        if self._records is not None and limit.records is not None:
            self._records.rate = limit.records

    def spend(self, size: int, records: int) -> None:
        if self._bytes is not None:
            self._bytes.spend(size)
        if self._records is not None:
            self._records.spend(records)
            self._seen_bytes += size
            self._seen_records += records

    def left_s(self) -> float:
        """Return the seconds until more may be fetched."""
        return max(pace.left_s() for pace in (self._bytes, self._records) if pace is not None)

    def fetch_bytes(self) -> float:
        """Return the bytes that all fetches together may request at a time."""
        rates = [] if self._bytes is None else [self._bytes.rate]
        if self._records is not None:
            known = self._seen_bytes / self._seen_records if self._seen_records else 0.0
            rates.append(self._records.rate * (known or _UNSEEN_RECORD_BYTES))
        return min(rates) * _FETCH_S

    def hold(self, seconds: float) -> None:
        now = self._clock.monotonic()
        self.holds, self._held_at, self.until = True, now, now + seconds

    def let_go(self) -> None:
        self._held_s += self._clock.monotonic() - self._held_at
        self.holds = False

    def look(self) -> None:
        """Update the counters. Call once a second."""
        now = self._clock.monotonic()
        held_s = self._held_s + (now - self._held_at if self.holds else 0.0)
        self.recent_s, self._looked_at_s = held_s - self._looked_at_s, held_s


class Throttle:
    """Applies the limits to fetches."""

    def __init__(self, context: CopyContext) -> None:
        self._loop = context.loop
        self._budget = context.budget
        self._refresh = context.mark
        self._clock = context.clock
        self._limits = NO_LIMITS
        self._flow: _Meter | None = None
        self._topics: dict[str, _Meter] = {}
        self._waiting = _WAITING_AT_FIRST
        """Number of partitions with lag."""

    @property
    def on(self) -> bool:
        """Whether there is any limit."""
        return self._flow is not None or bool(self._topics)

    @property
    def limits_flow(self) -> bool:
        """Whether there is a limit on the whole flow."""
        return self._flow is not None

    @property
    def holds(self) -> bool:
        """Whether nothing at all may be fetched now."""
        return self._flow is not None and self._flow.holds

    @property
    def response_bytes(self) -> int | None:
        """Return the bytes that one fetch may request; None: no limit."""
        if self._flow is None:
            return None
        return max(
            _LEAST_FETCH_BYTES, round(self._flow.fetch_bytes() / max(1, self._budget.readers))
        )

    def fetch_size(self, most: int, smallest: int) -> int:
        """Return the bytes that a fetch may request in all, at most `most`. `smallest`: the least
        that it requests of a partition.

        Under the flow's limit it is a multiple of that. The broker would fill the rest with a part
        of a batch of the next partition and move that partition to the end of its session, so it
        would never be the first one, and never get a whole batch.
        """
        limited = self.response_bytes
        if limited is None:
            return most
        size = min(most, limited)
        return size - size % smallest or size if smallest else size

    def fetch_bytes_of(self, partition: PartitionCopy, most: int) -> int:
        """Return the bytes that one fetch may request of a partition, at most `most`."""
        if not self.on:
            return most
        batch = partition.batch_bytes
        asked = min(
            most,
            # A fetch that requests less than a batch returns records of one partition only.
            max(batch, self.partition_bytes or most),
            partition.most_fetch_bytes or most,
        )
        if asked == most or not 0 < batch <= asked:
            return asked
        # Round to whole batches, assuming similar sizes, because the broker would also send a
        # useless partial batch.
        return asked // batch * batch

    @property
    def partition_bytes(self) -> int | None:
        """Return the bytes that one fetch may request of a partition under the flow's limit; None:
        no limit."""
        most = self.response_bytes
        if most is None:
            return None
        # With small batches, all waiting partitions fit into the next fetch, so that those with
        # many records do not delay those with few.
        return max(_LEAST_FETCH_BYTES, most // max(1, self._waiting))

    def wait_ms(self, most: int) -> int:
        """Return how long a fetch may wait at the broker: until a held topic is released."""
        held = [meter.until for meter in self._topics.values() if meter.holds]
        if not held:
            return most
        return max(0, min(most, round((min(held) - self._loop.now()) * 1000)))

    def limit(
        self,
        limits: FlowLimits,
        part: float,
        partitions: Collection[PartitionCopy],
        counts: Mapping[str, int],
    ) -> None:
        """Apply these limits from now on, and release partitions held by earlier limits. `part`:
        the task's share of the flow's limits. See `follow` for the rest."""
        self._limits = limits
        for meter in self._topics.values():
            self._let_go(meter)
        self._topics = {}
        self._flow = _Meter(limits.whole.share(part), self._clock) if limits.whole else None
        for partition in partitions:
            partition.most_fetch_bytes = 0
            self._say(partition, None)
        self.follow(partitions, counts)
        for partition in partitions:
            self._refresh(partition)  # The size that it requests in a fetch may change.

    def follow(self, partitions: Iterable[PartitionCopy], counts: Mapping[str, int]) -> None:
        """Use new partitions of the task, or new partition counts of their topics (`counts`). The
        task's share of a topic's limit is its share of the topic's partitions."""
        if not self._limits.topics:
            return
        own: dict[str, list[PartitionCopy]] = {}
        for partition in partitions:
            own.setdefault(partition.source[0], []).append(partition)
        for topic in self._topics.keys() - own.keys():
            self._let_go(self._topics.pop(topic))
        for topic, mine in own.items():
            limit = self._limits.of_topic(topic)
            if limit:
                known = 0 if self._limits.divided else counts.get(topic, 0)
                in_all = max(len(mine), known)
                self._share(topic, mine, limit.share(len(mine) / in_all))

    def _share(self, topic: str, mine: list[PartitionCopy], limit: RateLimit) -> None:
        meter = self._topics.get(topic)
        if meter is None:
            meter = self._topics[topic] = _Meter(limit, self._clock)
        meter.change(limit)
        for partition in meter.partitions:
            partition.paced = False
        meter.partitions = mine
        self._cut(meter)
        for partition in mine:
            partition.paced = meter.holds

    def count(self, arrived: Sequence[tuple[PartitionCopy, Sequence[BatchHeader]]]) -> None:
        """Count one fetch: partitions and their whole batches, at least one each."""
        flow = self._flow
        for partition, headers in arrived:
            meter = self._topics.get(partition.source[0])
            if meter is None and flow is None:
                continue
            # Partial batches are not counted. Brokers cut off the last batch of a full response,
            # which is up to half of it with a low limit.
            size = headers[-1].start + headers[-1].size
            partition.batch_bytes = max(map(largest_batch, headers))
            records = 0
            if (meter and meter.counts_records) or (flow and flow.counts_records):
                records = sum(header.records for header in headers)
            if flow is not None:
                flow.spend(size, records)
            if meter is not None:
                meter.spend(size, records)
                self._hold(meter)
        if flow is not None:
            self._hold(flow)

    def _hold(self, meter: _Meter) -> None:
        """Hold back the partitions that are over their limit now."""
        left = meter.left_s()
        if left <= 0:
            return
        if meter.holds:
            meter.until = self._clock.monotonic() + left
            return
        meter.hold(left)
        for partition in meter.partitions:
            partition.paced = True
            self._refresh(partition)
        self._loop.after(left, lambda: self._go_on(meter))

    def _go_on(self, meter: _Meter) -> None:
        """Release the partitions if the time is over, unless more records were counted
        meanwhile."""
        if not meter.holds:
            return
        left = meter.left_s()
        if left > 0:
            self._loop.after(left, lambda: self._go_on(meter))
        else:
            self._let_go(meter)

    def _let_go(self, meter: _Meter) -> None:
        if not meter.holds:
            return
        meter.let_go()
        self._cut(meter)
        for partition in meter.partitions:
            partition.paced = False
            self._refresh(partition)

    @staticmethod
    def _cut(meter: _Meter) -> None:
        if meter.partitions:
            each = max(_LEAST_FETCH_BYTES, round(meter.fetch_bytes() / len(meter.partitions)))
            for partition in meter.partitions:
                partition.most_fetch_bytes = each

    def look(self, partitions: Iterable[PartitionCopy]) -> None:
        """Call once a second: sets on each partition whether a limit holds back its records."""
        if not self.on:
            return
        flow_s = 0.0
        if self._flow is not None:
            self._flow.look()
            flow_s = self._flow.recent_s
        for meter in self._topics.values():
            meter.look()
        self._waiting = 0
        for partition in partitions:
            self._waiting += partition.lag != 0
            meter_of_it = self._topics.get(partition.source[0])
            topic_s = 0.0 if meter_of_it is None else meter_of_it.recent_s
            if partition.lag == 0 or not (flow_s or topic_s):
                self._say(partition, None)
                continue
            self._say(partition, TOPIC_LIMIT if topic_s >= flow_s else FLOW_LIMIT)
            partition.metrics.throttled(max(flow_s, topic_s))

    @staticmethod
    def _say(partition: PartitionCopy, limited_by: str | None) -> None:
        partition.limited_by = limited_by
        partition.metrics.set_limited(limited_by is not None)
