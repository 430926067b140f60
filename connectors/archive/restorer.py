"""The part of a restore that runs on executors: produces the rows of a piece to the target.

It is one task, and runs once: a repeated run sends nothing, because the first one may still be
sending. Nothing is sent after the piece's time, so that the driver may then look at the target for
what a lost task wrote.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import astuple, dataclass, field
from typing import TYPE_CHECKING

from connect.clock import Deadline
from connect.errors import ConnectError, CorruptData
from connect.protocol.messages import TopicPartition
from connectors.archive.rows import ArchivedRecords, records_of
from connectors.archive.sender import ArchiveSender, BatchRefused
from connectors.mirror.copy.copied_ranges import CopiedRange, append_range
from connectors.mirror.copy.range_copier import RangeProgress, SourceRange
from connectors.mirror.spark.copy.executor import ShardResult, runs_again
from connectors.spark.worker_imports import drop_importers

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["RESULT", "TargetSetup", "piece_restorer"]

_LOG = logging.getLogger(__name__)

RESULT = "result string"
"""The schema of what a piece returns: a `ShardResult` as JSON. It is `again` if it is not known
which of its records the target has."""

BATCH_BYTES = 512 * 1024
"""Bytes of the records of a batch: half of the smallest usual `max.message.bytes`."""

_SENDING = 0.6
"""The share of the piece's time in which new batches are sent. The rest is for their answers."""


@dataclass(frozen=True, slots=True)
class TargetSetup:
    """Java properties of a producer of the target; they contain secrets, and are sent inside the
    task."""

    producer: Mapping[str, str] = field(repr=False)


def piece_restorer(
    setup: TargetSetup, ranges: Sequence[SourceRange], seconds: float
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return a function for `map_batches` that restores the rows of these ranges, in the order of
    topic, partition and offset."""
    text = json.dumps([astuple(each) for each in ranges])

    def restore(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        wanted = [
            SourceRange((s[0], s[1]), (t[0], t[1]), *rest) for s, t, *rest in json.loads(text)
        ]
        rows = (records for batch in batches for records in records_of(batch))
        if runs_again():
            result = ShardResult(error="Spark ran its task again", again=True)
        else:
            result = _restored(setup, wanted, rows, seconds)
        for _ in rows:
            pass  # Spark waits until its rows are read.
        drop_importers()
        yield pa.RecordBatch.from_arrays([pa.array([result.to_json()])], names=["result"])

    return restore


def _restored(
    setup: TargetSetup,
    ranges: Sequence[SourceRange],
    rows: Iterable[ArchivedRecords],
    seconds: float,
) -> ShardResult:
    """Restore a piece. Errors are returned, because Spark would run the task again."""
    piece = _Piece(ranges, Deadline(seconds * _SENDING))
    try:
        topics = {each.target[0] for each in ranges}
        with closing(ArchiveSender(setup.producer, topics, Deadline(seconds))) as sender:
            piece.send_all(sender, rows)
    except BatchRefused as error:
        return piece.result(str(error), sure=True)
    except ConnectError as error:
        return piece.result(str(error), sure=False)
    except Exception as error:  # noqa: BLE001 - the top of a task, which Spark would repeat
        _LOG.exception(
            "restoring a piece failed with an unexpected error; this is a defect: "
            "report it with the trace"
        )
        return piece.result(f"{type(error).__name__}: {error}", sure=False)
    return piece.result(None, sure=True)


class _Piece:
    """The progress of one piece."""

    def __init__(self, ranges: Sequence[SourceRange], sending: Deadline) -> None:
        self._ranges = {each.source: each for each in ranges}
        self._positions = {each.source: each.start for each in ranges}
        self._lines: dict[TopicPartition, list[CopiedRange]] = {each.source: [] for each in ranges}
        self._bytes = dict.fromkeys(self._ranges, 0)
        self._errors: dict[TopicPartition, str] = {}
        self._sending = sending

    def send_all(self, sender: ArchiveSender, rows: Iterable[ArchivedRecords]) -> None:
        for records in rows:
            key = (records.topic, records.partition)
            if key not in self._errors:
                try:
                    self._send(sender, key, records)
                except BatchRefused as error:  # The other partitions go on.
                    self._errors[key] = str(error)
            if self._sending.expired():
                return
        for key, wanted in self._ranges.items():
            if key not in self._errors:
                self._positions[key] = wanted.end

    def _send(self, sender: ArchiveSender, key: TopicPartition, records: ArchivedRecords) -> None:
        at, count = 0, len(records.offsets)
        while at < count and not self._sending.expired():
            size, end = 0, at
            while end < count and (end == at or size + len(records.tails[end]) <= BATCH_BYTES):
                size += len(records.tails[end])
                end += 1
            self._send_batch(sender, key, records, at, end)
            at = end

    def _send_batch(
        self,
        sender: ArchiveSender,
        key: TopicPartition,
        records: ArchivedRecords,
        at: int,
        end: int,
    ) -> None:
        """Send these records as one batch, or as several if it is too large for the target."""
        if records.offsets[at] < self._positions[key]:
            raise CorruptData(
                f"{key[0]}-{key[1]}: the archive has offset {records.offsets[at]} after "
                f"{self._positions[key] - 1}: a file is there twice, or was changed"
            )
        wanted = self._ranges[key]
        try:
            base = sender.send(wanted.target, records.stamps[at:end], list(records.tails[at:end]))
        except BatchRefused as error:
            if not error.too_large or end - at == 1:
                raise
            middle = (at + end) // 2
            self._send_batch(sender, key, records, at, middle)
            self._send_batch(sender, key, records, middle, end)
            return
        for index in range(at, end):
            line = CopiedRange(key, wanted.target, records.offsets[index], base + index - at, 1)
            append_range(self._lines[key], line)
        self._positions[key] = records.offsets[end - 1] + 1
        self._bytes[key] += sum(map(len, records.tails[at:end]))

    def result(self, error: str | None, *, sure: bool) -> ShardResult:
        progress = [
            RangeProgress(
                wanted,
                self._positions[key],
                self._bytes[key],
                0,
                self._errors.get(key),
                sum(line.records for line in self._lines[key]),
            )
            for key, wanted in self._ranges.items()
        ]
        lines = [line for found in self._lines.values() for line in found]
        return ShardResult(lines, progress, error, again=not sure)
