"""Converts, transforms and counts the records that a sink task reads."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import confluent_kafka

from connect.runtime.error_handling.tolerance import RecordSkipped, RetriesInterrupted
from connect.runtime.sink.batch import SinkBatch
from connect.runtime.sink.consumed import ConsumedRecord
from connect.runtime.sink.context import WorkerSinkTaskContext
from connect.runtime.sink.records import SinkRecordReader

__all__ = ["SinkIntake"]


class SinkIntake:
    """Converts and transforms the records of one task, on its thread."""

    def __init__(
        self,
        context: WorkerSinkTaskContext,
        reader: SinkRecordReader,
        topic_used: Callable[[str], None],
    ) -> None:
        """Call `topic_used` with the topic of each record that was converted."""
        self._context = context
        self._offsets = context.offsets
        self._reader = reader
        self._topic_used = topic_used

    def take(self, messages: Sequence[confluent_kafka.Message], batch: SinkBatch) -> None:
        """Convert and transform messages. Dropped records count as put together with the others."""
        for message in messages:
            read = ConsumedRecord.of(message)
            where = (read.topic, read.partition)
            if where not in self._offsets.assigned or where in self._context.seeks:
                continue
            self._offsets.arrived(where, read.offset)
            try:
                record = self._reader.convert(read)
                self._topic_used(record.topic)
                transformed = self._reader.transform(read, record)
            except RecordSkipped:
                transformed = None
            except RetriesInterrupted:
                # The task is stopping. The record is read again, because its offset is not
                # committed.
                return
            batch.add(where, read.offset, transformed)

    def close(self) -> None:
        self._reader.close()
