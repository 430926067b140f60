"""The lag of each partition of a flow, from what Kafka stores. It needs no running mirror.

The driver selects topics; executors list offsets of their partitions and read the flow's stored
offsets. Positions are read before end offsets, so no lag is negative.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import NamedTuple

import pyspark  # noqa: F401 - before its parts
from pyspark.sql.datasource import InputPartition

from connect.clients.cluster.list_offsets import EARLIEST, LATEST
from connect.clients.librdkafka.admin import Admin
from connectors.dataframes.options import FrameFlow
from connectors.dataframes.tables import Row
from connectors.mirror.audit.auditor import Auditor
from connectors.mirror.config import clients as client_configs
from connectors.mirror.inspect.cluster_queries import REACH_S, asking, refuse_hidden
from connectors.mirror.inspect.listed_offsets import listed
from connectors.mirror.inspect.source_topics import refuse_hidden_sources
from connectors.mirror.inspect.stored_progress import stored_positions
from connectors.mirror.topics.clusters import topic_selector

__all__ = ["LagTable"]

SLICE_PARTITIONS = 5_000
"""Partitions of one slice. Each slice reads the whole topic of stored offsets."""


class Partitions(NamedTuple):
    """Partitions from `start` to before `end` of one topic."""

    topic: str
    target: str
    start: int
    end: int


@dataclass(frozen=True)
class LagSlice(InputPartition):
    """`stored`: whether the flow has a topic of stored offsets."""

    parts: tuple[Partitions, ...]
    stored: bool


class LagTable:
    def slices(self, flow: FrameFlow) -> Sequence[LagSlice]:
        source, selector = client_configs.source_admin(flow.properties), topic_selector(flow.config)
        with closing(Admin(source)) as admin, asking("source", source):
            counts = admin.list_topics(REACH_S)
            refuse_hidden_sources(admin, selector, counts, "Describe")
        with closing(Admin(flow.offsets_client)) as admin, asking("target", flow.offsets_client):
            stored = flow.offsets_topic in admin.list_topics(REACH_S)
            if not stored:
                refuse_hidden(admin, [flow.offsets_topic])
        topics = sorted(selector.select(counts).copied)
        whole = (Partitions(each, selector.remote(each), 0, counts[each]) for each in topics)
        return [LagSlice(parts, stored) for parts in cut_topics(whole)]

    def rows(self, flow: FrameFlow, piece: LagSlice) -> Iterator[Row]:
        positions = (
            stored_positions(flow.config, flow.offsets_topic, flow.offsets_client)
            if piece.stored
            else {}
        )
        client = client_configs.client_properties(
            flow.properties, "source", "consumer", "data-source"
        )
        committed = client.get("isolation.level") == "read_committed"
        targets = {
            (part.topic, number): part.target
            for part in piece.parts
            for number in range(part.start, part.end)
        }
        with Auditor.link(client, {part.topic for part in piece.parts}) as linked:
            starts = listed(linked.link, targets, EARLIEST, 0)
            ends = listed(linked.link, targets, LATEST, 1 if committed else 0)
        for key, target in targets.items():
            at, end = positions.get(key), ends[key]
            lag = None if at is None else max(0, end - at)
            yield *key, target, at, starts[key], end, lag


def cut_topics(topics: Iterable[Partitions]) -> Iterator[tuple[Partitions, ...]]:
    """Cut topics into slices of at most `SLICE_PARTITIONS` partitions."""
    held: list[Partitions] = []
    room = SLICE_PARTITIONS
    for topic in topics:
        start = topic.start
        while start < topic.end:
            end = min(topic.end, start + room)
            held.append(topic._replace(start=start, end=end))
            room -= end - start
            start = end
            if room == 0:
                yield tuple(held)
                held, room = [], SLICE_PARTITIONS
    if held:
        yield tuple(held)
