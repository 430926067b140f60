"""Checks the copy: the newest records while the mirror runs, and many records at the end."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from deploy.demo.comparing import (
    Comparison,
    Content,
    compare_records,
    latest_by_key,
    read,
)
from deploy.demo.events import DemoTopic
from deploy.demo.progress import PartitionEnds
from deploy.demo.reading import PartitionKey

__all__ = ["NEAR_S", "Checker", "nearly_in_sync"]

COMPARED = 1_000
"""Number of records compared at the start and at the end of each partition."""

_NEWEST_SOURCE = 200
_NEWEST_TARGET = 1_000
"""Number of newest records to search, which is more than a few seconds at the demo's rates."""

_READ_S = 20.0
NEAR_S = 2.0
"""How far behind a copy may be that is worth a full check."""


def nearly_in_sync(
    topics: Iterable[DemoTopic],
    ends: Mapping[PartitionKey, PartitionEnds],
    near_s: float = NEAR_S,
) -> bool:
    """Whether a full check is worthwhile: the end offsets, where comparable, are less than `near_s`
    apart."""
    for topic in topics:
        for key in topic.partition_keys:
            end = ends[key]
            if not end.source_end:
                continue
            if not end.target_end or (
                topic.gapless and end.source_end - end.target_end > topic.rate * near_s
            ):
                return False
            if end.source_timestamp_ms - end.target_timestamp_ms > near_s * 1000:
                return False
    return True


class Checker:
    """Reads both clusters. Used by one thread."""

    def __init__(
        self, topics: Sequence[DemoTopic], source_servers: str, target_servers: str, prefix: str
    ) -> None:
        self._topics = topics
        self._source = source_servers
        self._target = target_servers
        self._prefix = prefix

    def newest_arrived(self, ends: Mapping[PartitionKey, PartitionEnds]) -> list[PartitionKey]:
        """Read the newest record of each source partition, then look for it in the copy. Returns
        the partitions in which it is missing. Raises `RetriableError`."""
        newest = read(
            self._source,
            {
                key: max(0, end.source_end - _NEWEST_SOURCE)
                for key, end in ends.items()
                if end.source_end
            },
            _READ_S,
        )
        copies = self._copy(
            {
                key: max(0, end.target_end - _NEWEST_TARGET)
                for key, end in ends.items()
                if end.source_end
            }
        )
        return [key for key, tail in newest.items() if tail and tail[-1] not in copies[key]]

    def compare(self, ends: Mapping[PartitionKey, PartitionEnds]) -> Comparison:
        """Compare many records of every partition after copying has ended. Raises `RetriableError`
        if they cannot be read."""
        equal = 0
        for topic in self._topics:
            keys = [key for key in topic.partition_keys if ends[key].source_end]
            compare = self._compare_states if topic.compacted else self._compare_runs
            result = compare(keys, ends)
            equal += result.equal
            if result.different is not None:
                return Comparison(equal, result.different)
        return Comparison(equal)

    def _compare_runs(
        self, keys: list[PartitionKey], ends: Mapping[PartitionKey, PartitionEnds]
    ) -> Comparison:
        """Compare the start and the end of each partition."""
        first = dict.fromkeys(keys, 0)
        # Transactions leave gaps, so more offsets are needed for the same number of records.
        heads = (read(self._source, first, _READ_S, COMPARED), self._copy(first, COMPARED))
        tails = (
            read(self._source, {k: max(0, ends[k].source_end - COMPARED) for k in keys}, _READ_S),
            self._copy({k: max(0, ends[k].target_end - COMPARED) for k in keys}),
        )
        equal = 0
        for (source, target), from_end in ((heads, False), (tails, True)):
            for key in keys:
                where = f"{key[0]}-{key[1]}"
                result = compare_records(where, source[key], target[key], from_end=from_end)
                equal += result.equal
                if result.different is not None:
                    return Comparison(equal, result.different)
        return Comparison(equal)

    def _compare_states(
        self, keys: list[PartitionKey], ends: Mapping[PartitionKey, PartitionEnds]
    ) -> Comparison:
        """Compare the last record of every key, which is what a compacted topic keeps."""
        source = read(self._source, dict.fromkeys(keys, 0), _READ_S)
        target = self._copy(dict.fromkeys(keys, 0))
        equal = 0
        for key in keys:
            before, after = latest_by_key(source[key]), latest_by_key(target[key])
            equal += sum(after.get(name) == record for name, record in before.items())
            if before != after:
                return Comparison(equal, f"{key[0]}-{key[1]}: the last records of keys differ")
        return Comparison(equal)

    def _copy(
        self, starts: Mapping[PartitionKey, int], limit: int | None = None
    ) -> dict[PartitionKey, list[Content]]:
        renamed = {(self._prefix + name, number): at for (name, number), at in starts.items()}
        found = read(self._target, renamed, _READ_S, limit)
        return {
            (name.removeprefix(self._prefix), n): records for (name, n), records in found.items()
        }
