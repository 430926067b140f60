"""Copies the records of a transformed topic: reads each, transforms it, and makes new batches.

The result is that of `conversion`, except that batches lack the records that were dropped. A record
that is left out between two others leaves a gap in their source offsets, like the gaps of a
compacted topic.
"""

from __future__ import annotations

from collections.abc import Callable

from connect.errors import ConnectError, CorruptData, Interrupted
from connect.plugin import RawRecord
from connect.protocol.batches import CODEC_MASK, BatchHeader
from connect.protocol.frame import batch_attributes
from connect.protocol.record_codec import iter_fields
from connect.protocol.records import RecordBatcher
from connectors.mirror.copy.batches.conversion import (
    Chosen,
    FetchedRecords,
    Unreadable,
    corrupt,
    wanted_batches,
)
from connectors.mirror.copy.batches.outgoing import from_rebatched

__all__ = ["ChangeRecord", "transformed_batches"]

ChangeRecord = Callable[[int, RawRecord], RawRecord | None]
"""Transforms the record at a source offset. None: it is left out. Raises as
`connect.plugin.RecordTransform`."""


def transformed_batches(fetched: FetchedRecords, change: ChangeRecord) -> Chosen:
    """Convert fetched records into batches of transformed records.

    A record whose transformation fails ends the batches, as an unreadable batch does. Raises
    `Interrupted` if the task stops.
    """
    wanted, unreadable = wanted_batches(fetched)
    options = fetched.options
    largest = max((header.size for header in wanted), default=0)
    batcher = RecordBatcher(
        level=options.level, max_bytes=min(fetched.limit, max(options.merge_bytes, largest))
    )
    work = _Work(fetched.position, fetched.end, change, batcher)
    for header in wanted:
        batch = fetched.batch(header)
        codec = batch_attributes(batch) & CODEC_MASK if options.codec is None else options.codec
        batcher.use_codec(codec)
        failed = work.add(header, batch)
        if failed is not None:
            unreadable = failed
            break
    batches = [from_rebatched(part, fetched.budget) for part in batcher.finish()]
    if batches and wanted and unreadable is None:
        batches[-1].resume = fetched.resume_after(wanted[-1])
    return Chosen(batches, unreadable, work.dropped)


class _Work:
    """The transformation of one fetch response. `dropped`: number of records left out so far."""

    def __init__(
        self, position: int, end: int | None, change: ChangeRecord, batcher: RecordBatcher
    ) -> None:
        self.dropped = 0
        self._position = position
        self._end = end
        self._change = change
        self._batcher = batcher

    def add(self, header: BatchHeader, batch: memoryview) -> Unreadable | None:
        """Add the transformed records of a batch, up to the first that fails."""
        change, add, end = self._change, self._batcher.add, self._end
        try:
            found = list(iter_fields(batch, from_offset=self._position))
        except CorruptData as error:
            return corrupt(header, self._position, str(error))
        for offset, timestamp, key, value, headers in found:
            if end is not None and offset >= end:
                break
            record = RawRecord(timestamp, key, value, headers)
            try:
                changed = change(offset, record)
            except Interrupted:
                raise
            except ConnectError as error:
                reason = f"the record at source offset {offset} cannot be transformed: {error}"
                return Unreadable(offset, reason, header, record)
            if changed is None:
                self.dropped += 1
            else:
                add(offset, *changed)
        return None
