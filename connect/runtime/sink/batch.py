"""Records for a sink task's next put, and the offsets that the put reaches."""

from __future__ import annotations

from collections.abc import Collection

from connect.data.record import SinkRecord
from connect.plugin import TopicPartition

__all__ = ["SinkBatch"]


class SinkBatch:
    """A batch of records. Pure bookkeeping, on the task's thread."""

    def __init__(self) -> None:
        self.records: list[SinkRecord] = []
        self.positions: dict[TopicPartition, int] = {}
        """The offset of each partition after the records of this batch, including dropped ones."""

    def __bool__(self) -> bool:
        """Return whether any record was read, even if it was dropped."""
        return bool(self.positions)

    def add(self, where: TopicPartition, offset: int, record: SinkRecord | None) -> None:
        """Add the record at this offset. None: it was dropped, and counts as put with the
        others.
        """
        self.positions[where] = offset + 1
        if record is not None:
            self.records.append(record)

    def forget(self, partitions: Collection[TopicPartition]) -> None:
        """Drop partitions that were revoked or repositioned."""
        gone = set(partitions)
        if gone.isdisjoint(self.positions):
            return
        self.records = [
            record
            for record in self.records
            if (record.original_topic, record.original_partition) not in gone
        ]
        self.positions = {p: at for p, at in self.positions.items() if p not in gone}
