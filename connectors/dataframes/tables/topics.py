"""The tables whose rows are records of one of MirrorMaker 2's internal topics: offset syncs,
checkpoints and heartbeats. Invalid records are left out, as by every other reader of these topics.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from zlib import crc32

from connect.clients.cluster.topic_reader import LogRecord
from connect.errors import CorruptData
from connectors.dataframes.options import FrameFlow
from connectors.dataframes.tables import Row
from connectors.dataframes.tables.topic_log import (
    SLICE_OFFSETS,
    InternalTopic,
    TopicRange,
    cut,
    range_records,
)
from connectors.mirror.formats import Checkpoint, Heartbeat, OffsetSync
from connectors.mirror.replication_policy import offset_topics, replication_policy

__all__ = ["CheckpointTable", "HeartbeatTable", "OffsetSyncTable", "RecordTable", "shares_of"]


class RecordTable(ABC):
    """A table whose rows are the records of a topic."""

    @abstractmethod
    def topic(self, flow: FrameFlow) -> InternalTopic: ...

    @abstractmethod
    def row(self, record: LogRecord) -> Row:
        """Return the record's row. Raises `CorruptData`."""

    def slices(self, flow: FrameFlow) -> Sequence[TopicRange]:
        topic = self.topic(flow)
        bounds = topic.bounds(flow)
        return [] if bounds is None else cut(topic.name, *bounds)

    def rows(self, flow: FrameFlow, piece: TopicRange) -> Iterator[Row]:
        return self.new_rows(flow, piece)

    def end(self, flow: FrameFlow) -> dict[str, int]:
        return self.topic(flow).end(flow)

    def new_slices(
        self, flow: FrameFlow, start: Mapping[str, int], end: Mapping[str, int]
    ) -> Sequence[TopicRange]:
        return self.topic(flow).new_ranges(start, end)

    def new_rows(self, flow: FrameFlow, piece: TopicRange) -> Iterator[Row]:
        return self._parsed(range_records(self.topic(flow).client(flow), piece))

    def _parsed(self, records: Iterator[LogRecord]) -> Iterator[Row]:
        for record in records:
            with suppress(CorruptData):
                yield (*self.row(record), record.offset, record.timestamp_ms * 1000)


class OffsetSyncTable(RecordTable):
    def topic(self, flow: FrameFlow) -> InternalTopic:
        topics = offset_topics(flow.properties)
        return InternalTopic(topics.side, topics.syncs)

    def row(self, record: LogRecord) -> Row:
        sync = OffsetSync.decode(record.key or b"", record.value or b"")
        return sync.topic, sync.partition, sync.upstream_offset, sync.downstream_offset


class HeartbeatTable(RecordTable):
    def topic(self, flow: FrameFlow) -> InternalTopic:
        return InternalTopic("target", replication_policy(flow.properties).heartbeats_topic())

    def row(self, record: LogRecord) -> Row:
        beat = Heartbeat.decode(record.key or b"", record.value or b"")
        return beat.source_alias, beat.target_alias, beat.timestamp_ms * 1000


class CheckpointTable(RecordTable):
    def topic(self, flow: FrameFlow) -> InternalTopic:
        policy = replication_policy(flow.properties)
        return InternalTopic(
            "target", policy.checkpoints_topic(flow.properties["source.cluster.alias"])
        )

    def row(self, record: LogRecord) -> Row:
        found = Checkpoint.decode(record.key or b"", record.value or b"")
        return (
            found.group,
            found.topic,
            found.partition,
            found.upstream_offset,
            found.downstream_offset,
            found.metadata,
        )

    def slices(self, flow: FrameFlow) -> Sequence[TopicRange]:
        return shares_of(self.topic(flow), flow)

    def rows(self, flow: FrameFlow, piece: TopicRange) -> Iterator[Row]:
        """Yield the newest checkpoints of this slice's share of the keys."""
        newest: dict[bytes, LogRecord] = {}
        for record in range_records(self.topic(flow).client(flow), piece):
            key = record.key or b""
            if crc32(key) % piece.shares == piece.share:
                newest[key] = record
        return self._parsed(iter(newest.values()))


def shares_of(topic: InternalTopic, flow: FrameFlow) -> list[TopicRange]:
    """Return one slice for each share of the keys. Each slice reads the whole topic, and keeps the
    newest record of the keys of its share only, so that it fits into memory."""
    bounds = topic.bounds(flow)
    if bounds is None or bounds[0] == bounds[1]:
        return []
    start, end = bounds
    shares = -(-(end - start) // SLICE_OFFSETS)
    return [TopicRange(topic.name, start, end, share, shares) for share in range(shares)]
