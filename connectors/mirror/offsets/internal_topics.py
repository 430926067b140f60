"""Opens the offset-syncs topic and the offset map topic of a flow on real clusters.

`OffsetSyncWriter` gets its producer and its readers of the offset map from `OffsetTopicClients`.
Tests and the simulator pass another one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from connect.clients.librdkafka.factory import producer
from connect.clock import Clock
from connectors.mirror.config.clients import offset_syncs_consumer, offset_syncs_producer
from connectors.mirror.config.source import SourceConfig
from connectors.mirror.offsets.map_topic_reading import MapTopic, PageIndexReader
from connectors.mirror.offsets.offset_sync_producer import OffsetSyncProducer
from connectors.mirror.replication_policy import offset_topics

__all__ = ["KafkaOffsetTopicClients", "MapReader", "OffsetTopicClients"]


class MapReader(Protocol):
    """A running read of the offset map topic. It closes itself before it calls `on_read`."""

    def wait(self, seconds: float) -> None:
        """Wait until the read has ended, at most this long."""

    def close(self) -> None:
        """Stop reading, even before the end."""


class OffsetTopicClients(Protocol):
    """The offset-syncs topic and the offset map topic of one flow. Not thread-safe."""

    def writer(self, clock: Clock) -> OffsetSyncProducer:
        """Create the producer for both topics. The caller closes it."""

    def read_map(self, on_read: Callable[[MapTopic], None], before: MapTopic) -> MapReader:
        """Start to read the offset map topic once to its end, without waiting. `on_read` may be
        called on any thread. `before`: the result of an earlier read, which is not read again."""


class KafkaOffsetTopicClients:
    """`OffsetTopicClients` on the clusters that a connector's properties name."""

    def __init__(self, config: SourceConfig, index: str | None) -> None:
        """`index`: the task's number, for the clients' names."""
        props = config.originals
        self._topics = offset_topics(props)
        self._producer = offset_syncs_producer(props, index)
        self._consumer = offset_syncs_consumer(props, index)

    def writer(self, clock: Clock) -> OffsetSyncProducer:
        topics = self._topics
        return OffsetSyncProducer(producer(self._producer), topics.syncs, topics.map, clock)

    def read_map(self, on_read: Callable[[MapTopic], None], before: MapTopic) -> MapReader:
        return PageIndexReader(self._topics.map, self._consumer, on_read, before)
