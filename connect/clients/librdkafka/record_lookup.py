"""Read single records of a partition by offset."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import closing
from itertools import pairwise

from connect.clients.cluster.topic_reader import TopicReader
from connect.clock import Deadline

__all__ = ["read_records"]

_POLL_S = 0.2
_NEAR = 2_000
"""Gaps up to this many records are read, not skipped with a seek, because a seek drops prefetched
data.
"""


def read_records(
    properties: Mapping[str, str],
    topic: str,
    partition: int,
    offsets: Collection[int],
    deadline: Deadline,
) -> dict[int, tuple[bytes, bytes | None]]:
    """Return key and value of the records at these offsets.

    Offsets that compaction or retention removed, or beyond the log end, are absent. `properties`
    are Java consumer properties. Raises one of `connect.errors`; `DeadlineExceeded` if the records
    did not arrive in time.
    """
    found: dict[int, tuple[bytes, bytes | None]] = {}
    if not offsets:
        return found
    remaining = frozenset(offsets)
    wanted = sorted(remaining)
    committed = properties.get("isolation.level") == "read_committed"
    with closing(
        TopicReader(properties, topic, {partition: wanted[0]}, read_committed=committed)
    ) as reader:
        for first, last in _runs(wanted):
            reader.seek(partition, first)
            while not _passed(reader, partition, last):
                deadline.check(f"Reading records of topic {topic}")
                for _, records, _ in reader.poll(_POLL_S):
                    for record in records:
                        if record.offset in remaining:
                            found[record.offset] = (record.key or b"", record.value)
    return found


def _runs(offsets: list[int]) -> list[tuple[int, int]]:
    """Return the first and last offset of each group of offsets that are close together."""
    starts = [offsets[0], *(b for a, b in pairwise(offsets) if b - a > _NEAR)]
    ends = [*(a for a, b in pairwise(offsets) if b - a > _NEAR), offsets[-1]]
    return list(zip(starts, ends, strict=True))


def _passed(reader: TopicReader, partition: int, offset: int) -> bool:
    """Return whether everything up to `offset` was read, or the log ends before it."""
    position, end = reader.position(partition), reader.end(partition)
    return position > offset or (end is not None and position >= end)
