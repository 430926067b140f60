"""Keeps a task to its share of the flow's limits (`mirror.rate.*`).

What a fetch brought is counted, once for each partition in it, never for each record. While the
flow has had its share nothing is asked for; while a topic has, its partitions are left out of
fetches, and others go on. Fetches are cut so that one brings what may come in a fraction of a
second: so a low rate is an even flow, and a burst is short. A batch comes whole, however low the
rate.

Belongs to the copy engine's thread.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from connect.clients.wire.selector_loop import SelectorLoop
from connect.clock import SYSTEM_CLOCK, Clock
from connect.protocol.batches import BatchHeader
from connectors.mirror.config.rates import NO_LIMITS, FlowLimits, RateLimit
from connectors.mirror.copy.memory import MemoryBudget
from connectors.mirror.copy.partition.partition import PartitionCopy
from connectors.mirror.copy.rate_limiter import Pace

__all__ = ["FLOW_LIMIT", "TOPIC_LIMIT", "Throttle"]

FLOW_LIMIT, TOPIC_LIMIT = "mirror.rate.bytes or mirror.rate.records", "mirror.rate.topics"

_FETCH_S = 0.25
"""One fetch asks for what may come in this time."""
_LEAST_FETCH_BYTES = 16 * 1024
"""Smaller fetches would cost more than they even out."""
_WAITING_AT_FIRST = 4
"""So many partitions are thought to have records waiting until it is looked."""
_UNSEEN_RECORD_BYTES = 128
"""How large a record is thought to be until some have come."""


class _Meter:
    """One limit: what it allows, and what it has held back."""

    def __init__(self, limit: RateLimit, clock: Clock) -> None:
        self._clock = clock
        self._bytes = None if limit.bytes is None else Pace(limit.bytes, clock)
        self._records = None if limit.records is None else Pace(limit.records, clock)
        self._seen_bytes = self._seen_records = 0
        self.partitions: list[PartitionCopy] = []
        self.holds = False
        self.until = 0.0
        """When what is held goes on (monotonic seconds)."""
        self._held_s = 0.0
        self._held_at = 0.0
        self._looked_at_s = 0.0
        self.recent_s = 0.0
        """For how long of the last second it held something back."""

    @property
    def counts_records(self) -> bool:
        return self._records is not None

    def change(self, limit: RateLimit) -> None:
        """The same kinds of limits, with other rates."""
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
        """Seconds until more may come."""
        return max(pace.left_s() for pace in (self._bytes, self._records) if pace is not None)

    def fetch_bytes(self) -> float:
        """What all fetches together may ask for at a time."""
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
        """Once a second."""
        now = self._clock.monotonic()
        held_s = self._held_s + (now - self._held_at if self.holds else 0.0)
        self.recent_s, self._looked_at_s = held_s - self._looked_at_s, held_s


class Throttle:
    """See the module. `refresh` is told of partitions that were held or let go."""

    def __init__(
        self,
        loop: SelectorLoop,
        budget: MemoryBudget,
        refresh: Callable[[PartitionCopy], None],
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._loop = loop
        self._budget = budget
        self._refresh = refresh
        self._clock = clock
        self._limits = NO_LIMITS
        self._flow: _Meter | None = None
        self._topics: dict[str, _Meter] = {}
        self._waiting = _WAITING_AT_FIRST
        """Partitions with records that are not copied yet."""

    @property
    def on(self) -> bool:
        """Whether anything is limited."""
        return self._flow is not None or bool(self._topics)

    @property
    def holds(self) -> bool:
        """Whether nothing at all is to be asked for now."""
        return self._flow is not None and self._flow.holds

    @property
    def response_bytes(self) -> int | None:
        """What one fetch may ask for; None: whatever else it may."""
        if self._flow is None:
            return None
        return max(
            _LEAST_FETCH_BYTES, round(self._flow.fetch_bytes() / max(1, self._budget.readers))
        )

    def fetch_bytes_of(self, partition: PartitionCopy, most: int) -> int:
        """What one fetch may ask for of a partition, where it may otherwise be `most`."""
        if not self.on:
            return most
        batch = partition.batch_bytes
        asked = min(
            most,
            # Where less than a batch is asked for, a fetch brings only one partition's.
            max(batch, self.partition_bytes or most),
            partition.most_fetch_bytes or most,
        )
        if asked == most or not 0 < batch <= asked:
            return asked
        # Whole batches, as far as they are alike: what the broker would cut off behind them is
        # sent in vain.
        return asked // batch * batch

    @property
    def partition_bytes(self) -> int | None:
        """What one fetch may ask for of a partition by the flow's limit; None: there is none."""
        most = self.response_bytes
        if most is None:
            return None
        # All that wait have a place in the next fetch, as far as batches are small: so those with
        # little are not late for those with much.
        return max(_LEAST_FETCH_BYTES, most // max(1, self._waiting))

    def wait_ms(self, most: int) -> int:
        """How long a fetch may wait at the broker: until a topic that is held goes on."""
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
        """From now on these limits count. `part`: the task's share of the flow's; the rest: see
        `follow`. What was held by earlier ones goes on."""
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
            self._refresh(partition)  # what it asks for in a fetch may be more or less

    def follow(self, partitions: Iterable[PartitionCopy], counts: Mapping[str, int]) -> None:
        """The task's partitions, or their topics' numbers of partitions (`counts`), are others. Of
        a topic's limit the task has as much as it has of its partitions."""
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
        """What one fetch brought: partitions and their whole batches, at least one each."""
        flow = self._flow
        for partition, headers in arrived:
            meter = self._topics.get(partition.source[0])
            if meter is None and flow is None:
                continue
            # Not what came behind them: brokers cut the last batch off where an answer is full,
            # and with a low limit that is up to half of it.
            size = headers[-1].start + headers[-1].size
            partition.batch_bytes = max(header.size for header in headers)
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
        """Hold back what is over its limit now."""
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
        """Its time is over, unless more has come meanwhile."""
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
        """Call once a second: says of each partition whether records of it wait for their time."""
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
