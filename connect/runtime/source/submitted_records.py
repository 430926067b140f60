"""Tracks which source offsets are safe to store: those before which every record was acknowledged.

Records of one source partition are acknowledged in any order, offsets are stored in source order.
So each partition has a queue of what was sent, and its committable offset is that of the last
record of the acknowledged beginning of the queue. Pure bookkeeping: no clock, thread or client.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable

from connect.errors import ConnectError
from connect.plugin import SourceOffset, SourcePartition, StoredOffset

__all__ = ["SubmittedRecord", "SubmittedRecords"]


class SubmittedRecord:
    """One record on its way to the target. `ack` is safe from any thread."""

    __slots__ = ("_key", "acked", "offset", "partition")

    def __init__(self, key: Hashable, partition: SourcePartition, offset: SourceOffset) -> None:
        self._key = key
        self.partition = partition
        self.offset = offset
        self.acked = False

    @property
    def key(self) -> Hashable:
        """Equal for records of the same source partition."""
        return self._key

    def ack(self) -> None:
        """Mark the record as acknowledged, or as never to be sent: its offset no longer blocks
        later ones."""
        self.acked = True


class SubmittedRecords:
    """The queues. One thread submits and asks; only `SubmittedRecord.ack` comes from others."""

    def __init__(self) -> None:
        self._queues: dict[Hashable, deque[SubmittedRecord]] = {}

    def submit(self, partition: SourcePartition, offset: SourceOffset) -> SubmittedRecord:
        """Note a record in the order in which it came from its source partition."""
        key = tuple(partition.items())
        record = SubmittedRecord(key, partition, offset)
        queue = self._queues.get(key)
        if queue is None:
            self._queues[key] = queue = deque()
        queue.append(record)
        return record

    def withdraw(self, record: SubmittedRecord) -> None:
        """The newest record of its partition was not sent after all."""
        queue = self._queues.get(record.key)
        if not queue or queue[-1] is not record:
            raise ConnectError("Only the newest record of a source partition can be withdrawn")
        queue.pop()
        if not queue:
            del self._queues[record.key]

    def take_committable(self) -> list[StoredOffset]:
        """The committable offset of each partition that has a new one. What it covers is
        forgotten: the caller now answers for storing it."""
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
