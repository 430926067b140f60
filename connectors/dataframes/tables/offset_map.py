"""The offset map as a table: where each run of records is on the target.

A batch read lists what counts, as `OffsetMap` does: for one partition it needs all pages, so a
slice reads the whole topic and keeps its share of the partitions. A streaming read lists pages as
they are written.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from zlib import crc32

from connect.errors import CorruptData
from connect.protocol.messages import TopicPartition
from connectors.dataframes.options import FrameFlow
from connectors.dataframes.tables import Row
from connectors.dataframes.tables.topic_log import InternalTopic, TopicRange, range_records
from connectors.dataframes.tables.topics import shares_of
from connectors.mirror.inspect.stored_progress import PagesThatCount
from connectors.mirror.offsets.map_notes import is_note_key
from connectors.mirror.offsets.offset_map_pages import (
    MapPage,
    Segment,
    in_force,
    parse_page_key,
)
from connectors.mirror.replication_policy import offset_topics

__all__ = ["OffsetMapTable"]


class OffsetMapTable:
    def slices(self, flow: FrameFlow) -> Sequence[TopicRange]:
        return shares_of(self._topic(flow), flow)

    def rows(self, flow: FrameFlow, piece: TopicRange) -> Iterator[Row]:
        def mine(key: TopicPartition) -> bool:
            return crc32(f"{key[0]}-{key[1]}".encode()) % piece.shares == piece.share

        found = PagesThatCount(mine)
        for record in range_records(self._topic(flow).client(flow), piece):
            found.take(record.key, record.value)
        for key, pages in found.pages.items():
            placed = in_force(pages.values(), lambda segment: segment.source)
            yield from _rows(key, ((each.segment, each.page) for each in placed))

    def end(self, flow: FrameFlow) -> dict[str, int]:
        return self._topic(flow).end(flow)

    def new_slices(
        self, flow: FrameFlow, start: Mapping[str, int], end: Mapping[str, int]
    ) -> Sequence[TopicRange]:
        return self._topic(flow).new_ranges(start, end)

    def new_rows(self, flow: FrameFlow, piece: TopicRange) -> Iterator[Row]:
        for record in range_records(self._topic(flow).client(flow), piece):
            if record.value is None or is_note_key(record.key):
                continue
            with suppress(CorruptData):
                topic, partition, first = parse_page_key(record.key or b"")
                page = MapPage.decode(first, record.value)
                yield from _rows((topic, partition), ((each, page) for each in page.segments))

    def _topic(self, flow: FrameFlow) -> InternalTopic:
        topics = offset_topics(flow.properties)
        return InternalTopic(topics.side, topics.map)


def _rows(key: TopicPartition, runs: Iterator[tuple[Segment, MapPage]]) -> Iterator[Row]:
    for run, page in runs:
        if run.length:  # Otherwise a loss, which is no run.
            yield *key, run.source, run.target, run.length, page.session
