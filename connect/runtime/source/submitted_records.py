"""Tracks the source offsets that are safe to store because all earlier records are acknowledged.

Records of one source partition are acknowledged in any order, but offsets are stored in source
order. Each partition has a queue of sent records; its committable offset is that of the last record
before the first unacknowledged one. Pure bookkeeping: no clock, thread or client.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable

from connect.errors import ConnectError
from connect.plugin import SourceOffset, SourcePartition, StoredOffset

__all__ = ["SubmittedRecord", "SubmittedRecords"]


class SubmittedRecord:
    """One record in flight to the target. `ack` is thread-safe."""

    __slots__ = ("_key", "acked", "offset", "partition")

    def __init__(self, key: Hashable, partition: SourcePartition, offset: SourceOffset) -> None:
        self._key = key
        self.partition = partition
        self.offset = offset
        self.acked = False

    @property
    def key(self) -> Hashable:
        """A key that is equal for records of the same source partition."""
        return self._key

    def ack(self) -> None:
        """Mark the record as acknowledged or dropped, so that it no longer blocks later offsets."""
        self.acked = True


class SubmittedRecords:
    """The queues of a task. One thread uses them; only `SubmittedRecord.ack` is thread-safe."""

    def __init__(self) -> None:
        self._queues: dict[Hashable, deque[SubmittedRecord]] = {}

    def submit(self, partition: SourcePartition, offset: SourceOffset) -> SubmittedRecord:
        """Add a record. Call this in the order of its source partition."""
        key = tuple(partition.items())
        record = SubmittedRecord(key, partition, offset)
        queue = self._queues.get(key)
        if queue is None:
            self._queues[key] = queue = deque()
        queue.append(record)
        return record

    def withdraw(self, record: SubmittedRecord) -> None:
        """Remove the newest record of its partition, which was not sent after all."""
        queue = self._queues.get(record.key)
        if not queue or queue[-1] is not record:
            raise ConnectError("Only the newest record of a source partition can be withdrawn")
        queue.pop()
        if not queue:
            del self._queues[record.key]

    def take_committable(self) -> list[StoredOffset]:
        """Return the committable offset of each partition that has a new one.

        The covered records are removed; the caller must store the offsets.
        """
        offsets: list[StoredOffset] = []
        for key in list(self._queues):
            queue = self._queues[key]
            last: SubmittedRecord | None = None
            while queue and queue[0].acked:
                last = queue.popleft()
            if last is not None:
                offsets.append((last.partition, last.offset))
            if not queue:
                del self._queues[key]
        return offsets
