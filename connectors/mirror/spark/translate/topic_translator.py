"""Translates rounds of checkpoints on Spark, which reads the offset syncs and the offset map
itself.

The process then holds neither, which suits maps that are too large for it and executors that are
closer to the brokers. Results equal those of `InProcessTranslator`, or are closer where only offset
syncs are known, because all syncs of the topic count instead of those that Java keeps. The topics
stay cached in Spark between rounds and are read incrementally, so the session is kept. In
`round_translator` the process sends its state to Spark.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame, SparkSession

from connect.clients.librdkafka.admin import Admin
from connect.clock import Deadline
from connectors.mirror.offsets.last_translation import LastTranslation
from connectors.mirror.offsets.translation import Place
from connectors.mirror.offsets.translator import GroupOffset, TranslationTopics
from connectors.mirror.spark.tables import BREAKS, SYNCS, table_frame
from connectors.mirror.spark.translate.kafka_tables import (
    TopicTable,
    newest_pages,
    newest_syncs_before,
    page_records,
    sync_records,
)
from connectors.mirror.spark.translate.map_breaks import map_breaks
from connectors.mirror.spark.translate.places import places_on_spark
from connectors.spark.queries import SparkQueries

__all__ = ["SparkTopicTranslator"]

Span = Mapping[str, tuple[str, int, int]]
"""The ID, the start offset and the end offset of each topic that exists."""


class SparkTopicTranslator:
    """A `Translator`. For one thread. The owner of `queries` closes them."""

    def __init__(
        self,
        topics: TranslationTopics,
        queries: SparkQueries,
        *,
        keep_all_while_loading: bool = True,
    ) -> None:
        """`queries`: with Spark's Kafka source. `keep_all_while_loading`: see `OffsetSyncStore`."""
        self._topics = topics
        self._queries = queries
        self._admin = Admin(topics.properties)
        self._syncs = TopicTable(topics.syncs, topics.properties, sync_records)
        self._map = TopicTable(topics.map, topics.properties, page_records)
        self._keep_all = keep_all_while_loading
        self._loaded_to: int | None = None
        self._answer = LastTranslation()

    def translate(
        self, offsets: Sequence[GroupOffset], deadline: Deadline
    ) -> Sequence[Place | None]:
        """Translate as in `Translator`. Raises `SparkUnavailable` while there is no session."""
        if not offsets:
            return []
        span = self._span(deadline)
        known = self._answer.of(tuple(span.items()), offsets)
        if known is not None:
            return known
        session = self._queries.session()
        with self._queries.query(session, "Translating group offsets"):
            syncs, breaks = self._tables(session, span)
            places = places_on_spark(session, syncs, breaks, offsets)
        return self._answer.keep(places)

    def close(self, deadline: Deadline) -> None:
        for table in (self._syncs, self._map):
            table.close()
        self._admin.close()

    def _span(self, deadline: Deadline) -> Span:
        names = [self._topics.syncs, self._topics.map]
        there = self._admin.describe_topics(names, max(1.0, deadline.remaining()))
        partitions = [(name, 0) for name in names if name in there]
        beginnings = self._admin.beginning_offsets(partitions, max(1.0, deadline.remaining()))
        ends = self._admin.end_offsets(partitions, max(1.0, deadline.remaining()))
        return {
            name: (there[name].topic_id, beginnings[name, 0], ends[name, 0])
            for name, _ in partitions
        }

    def _tables(self, session: SparkSession, span: Span) -> tuple[DataFrame, DataFrame]:
        """Return SYNCS and BREAKS, including all records written before this call."""
        syncs = table_frame(session, SYNCS, [])
        breaks = table_frame(session, BREAKS, [])
        if self._topics.syncs in span:
            topic_id, beginning, end = span[self._topics.syncs]
            if self._loaded_to is None or end < self._loaded_to:
                self._loaded_to = end
            syncs = self._syncs.read(session, topic_id, beginning, end)
            if not self._keep_all:
                syncs = newest_syncs_before(syncs, self._loaded_to)
        if self._topics.map in span:
            pages = self._map.read(session, *span[self._topics.map])
            breaks = map_breaks(newest_pages(pages))
        return syncs, breaks
