"""Translates what groups committed as a Spark job: for very many groups, or very long maps.

The same answers as `InProcessTranslator` gives, or nearer ones where only offset syncs are known,
as all syncs of the topic count and not those alone that Java keeps. Topics are read by Spark
itself, and kept there between calls; the same question twice costs no job. One owner, on whose
thread everything runs.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping, Sequence
from uuid import uuid4

from py4j.protocol import Py4JError
from pyspark.sql import DataFrame, SparkSession

from connect.clients.admin import Admin
from connect.clock import Deadline
from connectors.mirror.translation import Place
from connectors.mirror.translator import GroupOffset, TranslationTopics
from connectors.spark.arrow import collect
from connectors.spark.errors import SparkUnavailable, first_line, job_errors
from connectors.spark.kafka_tables import TopicTable, newest_pages, page_records, sync_records
from connectors.spark.map_breaks import map_breaks
from connectors.spark.session import SparkLease
from connectors.spark.tables import BREAKS, GROUP_OFFSETS, SYNCS, arrow_table
from connectors.spark.translate import translate

__all__ = ["SparkTranslator"]

_LOG = logging.getLogger(__name__)


class SparkTranslator:
    """A `Translator`; see the module."""

    def __init__(self, topics: TranslationTopics, lease: SparkLease) -> None:
        """`lease`: with Spark's Kafka source; released by `close`."""
        self._topics = topics
        self._lease = lease
        self._admin = Admin(topics.properties)
        self._syncs = TopicTable(topics.syncs, topics.properties, sync_records)
        self._map = TopicTable(topics.map, topics.properties, page_records)
        self._group = f"translation {uuid4()}"
        self._last: tuple[object, Sequence[Place | None]] = (None, [])

    def translate(
        self, offsets: Sequence[GroupOffset], deadline: Deadline
    ) -> Sequence[Place | None]:
        """As `Translator` says. Raises `SparkUnavailable` while there is no session."""
        session = self._lease.session
        if session is None:
            raise SparkUnavailable(f"Spark is {self._lease.state}")
        if not offsets:
            return []
        span = self._span(deadline)
        asked = (span, tuple(offsets))
        if asked == self._last[0]:
            return self._last[1]
        syncs, breaks = self._tables(session, span)
        # The offset's number stands for the group: that is what comes back.
        rows = [(str(n), o.topic, o.partition, o.offset, "") for n, o in enumerate(offsets)]
        places: list[Place | None] = [None] * len(offsets)
        cancel = threading.Timer(deadline.remaining(), self._cancel, [session])
        cancel.daemon = True
        cancel.start()
        try:
            with job_errors("Translating offsets"):
                session.sparkContext.setJobGroup(self._group, "Checkpoints", True)
                groups = session.createDataFrame(arrow_table(GROUP_OFFSETS, rows))
                found = collect(translate(session, syncs, breaks, groups))
        finally:
            cancel.cancel()
        for row in found.select(["group", "downstream", "exact", "behind"]).to_pylist():
            places[int(row["group"])] = Place(row["downstream"], row["exact"], row["behind"])
        self._last = (asked, places)
        return places

    def close(self, deadline: Deadline) -> None:
        for table in (self._syncs, self._map):
            try:
                table.close()
            except (Py4JError, OSError) as error:
                _LOG.debug("Spark's tables are gone already: %s", first_line(error))
        self._lease.release()
        self._admin.close()

    def _span(self, deadline: Deadline) -> dict[str, tuple[int, int]]:
        """Beginning and end of both topics, as far as they exist."""
        names = [self._topics.syncs, self._topics.map]
        there = self._admin.describe_topics(names, max(1.0, deadline.remaining()))
        partitions = [(name, 0) for name in names if name in there]
        beginnings = self._admin.beginning_offsets(partitions, max(1.0, deadline.remaining()))
        ends = self._admin.end_offsets(partitions, max(1.0, deadline.remaining()))
        return {name: (beginnings[name, 0], ends[name, 0]) for name, _ in partitions}

    def _tables(
        self, session: SparkSession, span: Mapping[str, tuple[int, int]]
    ) -> tuple[DataFrame, DataFrame]:
        """SYNCS and BREAKS, up to what was written before this call."""
        syncs = session.createDataFrame(arrow_table(SYNCS, []))
        breaks = session.createDataFrame(arrow_table(BREAKS, []))
        with job_errors("Reading offset syncs and map"):
            if self._topics.syncs in span:
                syncs = self._syncs.read(session, *span[self._topics.syncs])
            if self._topics.map in span:
                pages = self._map.read(session, *span[self._topics.map])
                breaks = map_breaks(newest_pages(pages))
        return syncs, breaks

    def _cancel(self, session: SparkSession) -> None:
        try:
            session.sparkContext.cancelJobGroup(self._group)
        except (Py4JError, OSError) as error:
            _LOG.debug("A translation could not be cancelled: %s", first_line(error))
