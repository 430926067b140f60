"""Divides the ranges that a flow has to copy into even shards, one per Spark task. Pure.

Shards are even by the estimated bytes that each partition has left. A partition is in one shard
only, because its records must stay in order. If it is too large for a shard, part of it is taken.
If not everything fits, partitions that have waited longest come first.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from connect.protocol.messages import TopicPartition
from connectors.mirror.copy.range_copier import SourceRange

__all__ = ["Lagging", "PlanLimits", "plan_shards"]

_PARTITION_BYTES = 16 * 1024
"""The fixed cost of a partition in bytes: entries in requests, and rows of the result."""


class Lagging(NamedTuple):
    """A partition with lag: source offsets `start` to `end` (exclusive), about `bytes` bytes.
    `since`: lower for partitions that have waited longer. `troubled`: it failed last time and is
    kept apart from others."""

    source: TopicPartition
    target: TopicPartition
    start: int
    end: int
    bytes: int
    since: int = 0
    troubled: bool = False


@dataclass(frozen=True, slots=True)
class PlanLimits:
    """Maximum size of a shard, and the minimum size that justifies another task."""

    shard_bytes: int = 1 << 30
    shard_partitions: int = 1000
    least_bytes: int = 4 << 20


_LIMITS = PlanLimits()


def plan_shards(
    lagging: Iterable[Lagging], slots: int, limits: PlanLimits = _LIMITS
) -> list[list[SourceRange]]:
    """Return at most `slots` shards, plus one for troubled partitions if there is only one slot."""
    well: list[Lagging] = []
    troubled: list[Lagging] = []
    for each in lagging:
        (troubled if each.troubled else well).append(each)
    shards: list[list[SourceRange]] = []
    if well:
        free = max(1, slots - 1 if troubled else slots)
        chosen = _longest_waiting(well, free * limits.shard_partitions)
        shards = [_cut(shard, limits.shard_bytes) for shard in _even(chosen, free, limits)]
    if troubled:
        chosen = _longest_waiting(troubled, limits.shard_partitions)
        shards.append(_cut(chosen, limits.shard_bytes))
    return shards


def _longest_waiting(lagging: list[Lagging], most: int) -> list[Lagging]:
    if len(lagging) <= most:
        return lagging
    return heapq.nsmallest(most, lagging, key=lambda each: each.since)


def _even(lagging: Sequence[Lagging], slots: int, limits: PlanLimits) -> list[list[Lagging]]:
    """Assign the largest first, each to the smallest shard."""
    weighed = sorted(((_weight(each, limits), each) for each in lagging), reverse=True)
    total = sum(weight for weight, _ in weighed)
    count = min(len(weighed), slots, max(1, -(-total // limits.least_bytes)))
    count = max(count, -(-len(weighed) // limits.shard_partitions))
    shards: list[list[Lagging]] = [[] for _ in range(count)]
    heap = [(0, number) for number in range(count)]
    for weight, each in weighed:
        held, number = heapq.heappop(heap)
        shards[number].append(each)
        if len(shards[number]) < limits.shard_partitions:
            heapq.heappush(heap, (held + weight, number))
    return shards


def _weight(each: Lagging, limits: PlanLimits) -> int:
    return min(each.bytes, limits.shard_bytes) + _PARTITION_BYTES


def _cut(shard: Sequence[Lagging], most: int) -> list[SourceRange]:
    """Return their ranges with `most` bytes in total. Of the largest ones only the beginnings are
    taken."""
    level = _level([each.bytes for each in shard], most)
    return [SourceRange(each.source, each.target, each.start, _end(each, level)) for each in shard]


def _end(each: Lagging, level: int) -> int:
    if each.bytes <= level:
        return each.end
    return each.start + max(1, (each.end - each.start) * level // each.bytes)


def _level(sizes: Iterable[int], most: int) -> int:
    """Return the highest level for which the sizes, each limited to it, sum up to `most`."""
    ordered = sorted(sizes)
    left, count = most, len(ordered)
    for number, size in enumerate(ordered):
        share = left // (count - number)
        if size > share:
            return share
        left -= size
    return ordered[-1] if ordered else 0
