"""Chooses what the next shard copies: a shard is the work of one Spark task. Pure.

`WaitingPartitions` has the partitions that have something to copy and are in no shard. So the cost
of a choice depends only on the chosen partitions, not on the number of all partitions. A shard has
at most its fair share of the partitions, counting those in flight, so that uneven shards even out
again; of small rests, more. Partitions that did not move last time are apart from others, which
they might delay.

Partitions that may lose records to retention soon come first, then those that have waited longest.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from connect.protocol.messages import TopicPartition
from connectors.mirror.copy.range_copier import SourceRange
from connectors.mirror.spark.copy.partition import SparkPartition

__all__ = ["Shard", "WaitingPartitions"]

_MOST = 1000
"""Maximum number of partitions of a shard."""

_LITTLE_BYTES = 4 << 20
"""Remainders of this many bytes together do not justify another task."""

_PARTITION_BYTES = 16 * 1024
"""The fixed cost of a partition in bytes: entries in requests, and lines of the result."""


_SLICE_BYTES = 16 * 1024 * 1024
"""Maximum size of a shard that is in memory as a whole."""
_UNMEASURED_OFFSETS = 2000
_MOST_OFFSETS = 50_000
"""Maximum number of offsets of a partition in a shard of limited size, before its records were
measured, and after."""
_SAMPLE_OFFSETS = 1000


class Shard(NamedTuple):
    """The work of one Spark task. `troubled`: its partitions did not move last time. `probes`:
    those whose source seems to end before the range."""

    ranges: tuple[SourceRange, ...]
    troubled: bool
    probes: frozenset[TopicPartition] = frozenset()


class WaitingPartitions:
    """The partitions that wait for a shard, in the order of arrival."""

    def __init__(self, slice_bytes: int = _SLICE_BYTES) -> None:
        """`slice_bytes`: the maximum size of a shard of sliced partitions, as far as sizes are
        known."""
        self._slice_bytes = slice_bytes
        self._queues: dict[bool, dict[TopicPartition, SparkPartition]] = {False: {}, True: {}}
        """Partitions by whether they are troubled."""
        self._arrivals = 0
        self._out: dict[TopicPartition, bool] = {}
        self._flying: Counter[bool] = Counter()
        self.urgent: Mapping[TopicPartition, float] = {}
        """Partitions that may lose records soon, the soonest first."""

    def __len__(self) -> int:
        return sum(map(len, self._queues.values()))

    @property
    def flying(self) -> bool:
        """Whether any partition is in flight."""
        return bool(self._out)

    def put(self, partition: SparkPartition) -> None:
        """Add a partition; one that is there keeps its place."""
        key, troubled = partition.source, partition.failures > 0
        if key in self._queues[troubled]:
            return
        self.remove(key)
        self._arrivals += 1
        partition.since = self._arrivals
        self._queues[troubled][key] = partition

    def remove(self, key: TopicPartition) -> None:
        for queue in self._queues.values():
            queue.pop(key, None)

    def came_back(self, key: TopicPartition) -> None:
        """Note that the partition's shard has ended."""
        troubled = self._out.pop(key, None)
        if troubled is not None:
            self._flying[troubled] -= 1

    def take(self, shards: int, ready: Callable[[SparkPartition], bool]) -> Shard | None:
        """Take the next shard; None if no partition is `ready`. `shards`: how many can be in flight
        at a time."""
        heads: list[tuple[float, int, bool]] = []
        for troubled in self._queues:
            head = next((each for each in self._in_order(troubled) if ready(each)), None)
            if head is not None:
                heads.append((self.urgent.get(head.source, float("inf")), head.since, troubled))
        if not heads:
            return None
        _, _, troubled = min(heads)
        every = len(self._queues[troubled]) + self._flying[troubled]
        chosen = self._choose(troubled, -(-every // shards), ready)
        for each in chosen:
            self.remove(each.source)
            self._out[each.source] = troubled
        self._flying[troubled] += len(chosen)
        ranges = (
            SourceRange(
                each.source,
                each.target,
                each.position,
                self._end(each, len(chosen)),
                each.known().to_text(),
            )
            for each in chosen
        )
        probes = frozenset(each.source for each in chosen if each.end <= each.position)
        return Shard(tuple(ranges), troubled, probes)

    def _end(self, partition: SparkPartition, partitions: int) -> int:
        """Return where a partition's range ends, in a shard of this number of partitions."""
        end = max(partition.end, partition.position + 1)
        if not partition.sliced:
            return end
        most = _UNMEASURED_OFFSETS
        one = partition.size.estimate(_SAMPLE_OFFSETS)
        if one is not None:
            share = self._slice_bytes // partitions
            most = min(_MOST_OFFSETS, share * _SAMPLE_OFFSETS // max(1, one))
        return min(end, partition.position + max(1, most))

    def _in_order(self, troubled: bool) -> Iterator[SparkPartition]:
        queue = self._queues[troubled]
        if queue:
            yield from (queue[key] for key in self.urgent if key in queue)
        yield from (each for key, each in queue.items() if key not in self.urgent)

    def _choose(
        self, troubled: bool, share: int, ready: Callable[[SparkPartition], bool]
    ) -> list[SparkPartition]:
        chosen: list[SparkPartition] = []
        size = others = 0
        for each in self._in_order(troubled):
            if len(chosen) >= _MOST:
                break
            if chosen and each.sliced != chosen[0].sliced:
                # They are copied in another way.
                others += 1
                if others > _MOST:
                    break
                continue
            if chosen and each.sliced and (troubled or size > self._slice_bytes):
                break
            size += each.weight(max(0, each.end - each.position)) + _PARTITION_BYTES
            if len(chosen) >= share and size > _LITTLE_BYTES:
                break
            if ready(each):
                chosen.append(each)
        return chosen
