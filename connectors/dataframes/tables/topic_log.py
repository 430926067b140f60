"""Reads a range of one of the mirror's internal topics, which have one partition."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import NamedTuple

import pyspark  # noqa: F401 - before its parts
from pyspark.sql.datasource import InputPartition

from connect.clients.cluster.topic_reader import LogRecord, TopicReader
from connect.clients.librdkafka.admin import Admin
from connect.clock import Deadline
from connect.errors import DeadlineExceeded
from connectors.dataframes.options import FrameFlow
from connectors.mirror.config.clients import Side, client_properties
from connectors.mirror.inspect.cluster_queries import REACH_S, asking, refuse_hidden

__all__ = ["InternalTopic", "TopicRange", "cut", "range_records"]

_PARTITION = 0

SLICE_OFFSETS = 500_000
"""Offsets of one slice: some tens of MB, which a task reads in seconds."""

_POLL_S = 1.0
_STALL_S = 60.0


@dataclass(frozen=True)
class TopicRange(InputPartition):
    """Offsets from `start` to before `end`. In a table that lists only the newest record of each
    key, this slice is the share number `share` of `shares`: every slice reads the whole range."""

    topic: str
    start: int
    end: int
    share: int = 0
    shares: int = 1


class InternalTopic(NamedTuple):
    """A topic and the cluster that hosts it."""

    side: Side
    name: str

    def client(self, flow: FrameFlow) -> dict[str, str]:
        """Return the Java consumer properties to read it."""
        return client_properties(flow.properties, self.side, "consumer", "data-source")

    def bounds(self, flow: FrameFlow) -> tuple[int, int] | None:
        """Return the log's start and end offset; None if there is no such topic."""
        client, key = self.client(flow), (self.name, _PARTITION)
        with closing(Admin(client)) as admin:
            with asking(self.side, client):
                exists = self.name in admin.list_topics(REACH_S)
                if not exists:
                    refuse_hidden(admin, [self.name])
            if not exists:
                return None
            return admin.beginning_offsets([key])[key], admin.end_offsets([key])[key]

    def end(self, flow: FrameFlow) -> dict[str, int]:
        """Return the end offset as the offset of a streaming query."""
        found = self.bounds(flow)
        return {} if found is None else {str(_PARTITION): found[1]}

    def new_ranges(self, start: Mapping[str, int], end: Mapping[str, int]) -> list[TopicRange]:
        """Cut what lies between two offsets of a streaming query."""
        place = str(_PARTITION)
        return cut(self.name, start.get(place, 0), end.get(place, 0))


def cut(topic: str, start: int, end: int) -> list[TopicRange]:
    """Cut a range into slices."""
    starts = range(start, end, SLICE_OFFSETS)
    return [TopicRange(topic, at, min(at + SLICE_OFFSETS, end)) for at in starts]


def range_records(client: Mapping[str, str], piece: TopicRange) -> Iterator[LogRecord]:
    """Yield the records of a range. Raises `DeadlineExceeded` if brokers send nothing for a
    minute."""
    with closing(TopicReader(client, piece.topic, {_PARTITION: piece.start})) as reader:
        patience = Deadline(_STALL_S)
        while reader.position(_PARTITION) < piece.end:
            found = reader.poll(_POLL_S)
            if found:
                patience = Deadline(_STALL_S)
            elif patience.expired():
                raise DeadlineExceeded(
                    f"Topic {piece.topic} could not be read from offset "
                    f"{reader.position(_PARTITION)} for {_STALL_S:g} s: "
                    f"{reader.trouble or 'the broker returned no records'}"
                )
            for _, records, _ in found:
                yield from (record for record in records if record.offset < piece.end)
