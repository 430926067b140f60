"""Types for records that are quarantined so that the rest of the partition can be copied. Pure.

The copier decides which records are quarantined: records that the target rejects
(`produce_handler.py`), and batches that cannot be read or records that cannot be transformed
(`fetch_handler.py`). Its owner's `Quarantine` stores them (`quarantine_topic.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Protocol

from connect.errors import CorruptData
from connect.protocol.batches import BatchHeader, crc_matches
from connect.protocol.legacy_records import first_legacy_offset
from connect.protocol.messages import TopicPartition
from connect.protocol.record_codec import iter_records
from connectors.mirror.copy.batches.conversion import Unreadable
from connectors.mirror.copy.partition.partition import Outgoing, PartitionCopy

__all__ = [
    "Quarantine",
    "QuarantinedRecords",
    "offset_after",
    "refused_record",
    "unreadable_records",
]


@dataclass(frozen=True, slots=True)
class QuarantinedRecords:
    """Quarantined source offsets `first` to `last`, and the reason. Holds a record as it is or,
    with `whole_batch`, the bytes of a batch as they were fetched. `timestamp`: ms since 1970; below
    0: none."""

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
    """Stores quarantined records. Called on the copier's thread."""

    def put(self, aside: QuarantinedRecords) -> Future[None]:
        """Write the records to the quarantine without blocking. The future completes on any thread
        once the write is acknowledged."""


def refused_record(partition: PartitionCopy, batch: Outgoing, reason: str) -> QuarantinedRecords:
    """Return the only record of a batch that the target rejected. Raises CorruptData."""
    (record,) = iter_records(batch.data)
    offset = batch.runs[0][0]
    return QuarantinedRecords(
        partition.source,
        offset,
        offset,
        record.timestamp,
        reason,
        record.key,
        record.value,
        record.headers,
    )


def unreadable_records(
    partition: PartitionCopy,
    records: memoryview,
    headers: Sequence[BatchHeader],
    unreadable: Unreadable,
) -> QuarantinedRecords | None:
    """Return a batch whose records cannot be read, or a record whose transformation failed; None:
    the end of the batch is not known. `headers`: all of the record set `records`."""
    first, reason, header, record = unreadable
    if record is not None:
        return QuarantinedRecords(
            partition.source,
            first,
            first,
            record.timestamp_ms,
            reason,
            record.key,
            record.value,
            record.headers,
        )
    after = offset_after(records, unreadable, headers, partition.high_watermark)
    if after is None:
        return None
    data = bytes(records[header.start : header.start + header.size])
    return QuarantinedRecords(
        partition.source, first, after - 1, -1, reason, None, data, whole_batch=True
    )


def offset_after(
    records: memoryview, unreadable: Unreadable, headers: Sequence[BatchHeader], end: int
) -> int | None:
    """Return the first offset after an unreadable batch; None if it is not known, because the
    header may be corrupt too. `headers`: all of the record set `records`. `end`: of the
    partition."""
    header = unreadable.header
    following = next((other for other in headers if other.start > header.start), None)
    if following is not None:
        first = _first_offset(records, following)
        return first if first is not None and first > unreadable.position else None
    whole = header.magic == 2 and header.records == header.last_offset_delta + 1 > 0
    return header.next_offset if whole and header.next_offset <= end else None


def _first_offset(records: memoryview, header: BatchHeader) -> int | None:
    """Return the offset at which a batch starts; None for a corrupt message of magic 0 or 1."""
    if header.magic == 2:
        return header.base_offset
    if not crc_matches(records, header):
        return None
    try:
        return first_legacy_offset(records[header.start : header.start + header.size])
    except CorruptData:
        return None
