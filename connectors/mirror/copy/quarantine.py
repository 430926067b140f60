"""What is put aside of a partition so that the rest of it can go on. The types; pure.

The copier decides (`deliveries.py`: records the target refuses; `arrivals.py`: batches that cannot
be read); its owner's `Quarantine` keeps them (`quarantine_topic.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Protocol

from connect.protocol.messages import TopicPartition
from connect.protocol.record_codec import iter_records
from connectors.mirror.copy.partition import Outgoing, PartitionCopy

__all__ = ["OnQuarantined", "PutAside", "Quarantine", "refused_record", "unreadable_batch"]

OnQuarantined = Callable[[PartitionCopy, "PutAside"], None]


@dataclass(frozen=True, slots=True)
class PutAside:
    """Source offsets `first` to `last`, and why. A record as it is or, `whole_batch`, the bytes of
    a batch as they came. `timestamp` in ms since 1970, below 0: none."""

    source: TopicPartition
    first: int
    last: int
    timestamp: int
    reason: str
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    whole_batch: bool = False


class Quarantine(Protocol):
    """Keeps what is put aside. Called on the copier's thread."""

    def put(self, aside: PutAside) -> Future[None]:
        """Done, on any thread, when it is safe; never blocks."""


def refused_record(partition: PartitionCopy, batch: Outgoing, reason: str) -> PutAside:
    """The only record of a batch that the target does not take. Raises CorruptData."""
    (record,) = iter_records(batch.data)
    offset = batch.runs[0][0]
    return PutAside(
        partition.source,
        offset,
        offset,
        record.timestamp,
        reason,
        record.key,
        record.value,
        record.headers,
    )


def unreadable_batch(
    partition: PartitionCopy, data: bytes, first: int, last: int, reason: str
) -> PutAside:
    """A batch whose records nobody can read."""
    return PutAside(partition.source, first, last, -1, reason, None, data, whole_batch=True)
