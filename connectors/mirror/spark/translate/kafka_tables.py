"""Reads offset syncs and the offset map as tables from their topics, with Spark's Kafka source.

The source takes Java consumer properties, as flows define them. Records go from brokers to
executors and never through Python. Invalid records are ignored, as by every other reader of these
topics.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import reduce

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from connect.config.security import CLIENT_CONFIG_NAMES
from connectors.mirror.offsets.map_notes import NEWEST_LOSS
from connectors.spark.drivers.session_kind import is_remote

__all__ = [
    "TopicTable",
    "kafka_options",
    "newest_pages",
    "newest_syncs_before",
    "page_records",
    "sync_records",
]

_OWNER = -2
"""Stands in place of the first source offset in rows that hold the note of a partition's owner."""

MOST_PIECES = 16
"""Number of pieces after which a topic is read again as a whole, because it was compacted by then
and each piece costs a task in every query."""


def kafka_options(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the source's options for Java consumer properties: bootstrap servers and security.
    Other properties configure consumers, which the source does itself."""
    return {
        f"kafka.{key}": value for key, value in properties.items() if key in CLIENT_CONFIG_NAMES
    }


def _int64(column: str, at: str) -> str:
    return f"cast(conv(hex(substring({column}, {at}, 8)), 16, 10) as bigint)"


_NAME_BYTES = "cast(conv(hex(substring(key, 1, 2)), 16, 10) as int)"
_TOPIC = f"cast(substring(key, 3, {_NAME_BYTES}) as string) as topic"
_PARTITION = f"cast(conv(hex(substring(key, 3 + {_NAME_BYTES}, 4)), 16, 10) as int) as partition"


def sync_records(records: DataFrame) -> DataFrame:
    """Parse records (key, value, offset) of an offset-syncs topic to SYNCS."""
    whole = f"length(value) >= 16 and length(key) >= 6 + {_NAME_BYTES}"
    return records.where(whole).selectExpr(
        _TOPIC,
        _PARTITION,
        f"{_int64('value', '1')} as upstream",
        f"{_int64('value', '9')} as downstream",
        "offset as `order`",
    )


def page_records(records: DataFrame) -> DataFrame:
    """Parse records (key, value, offset) of an offset map to PAGES with `order`, including
    tombstones, and notes of the owner."""
    pages = records.where(f"length(key) >= 14 + {_NAME_BYTES}").selectExpr(
        _TOPIC,
        _PARTITION,
        f"{_int64('key', f'7 + {_NAME_BYTES}')} as first_source",
        "value",
        "offset as `order`",
    )
    losses = _notes(records, "FFFD", NEWEST_LOSS)
    return pages.unionByName(losses).unionByName(_notes(records, "FFFC", _OWNER))


def _notes(records: DataFrame, kind: str, first_source: int) -> DataFrame:
    # After their marker, keys of notes are page keys without the last number.
    named = records.where(f"hex(substring(key, 1, 2)) = '{kind}'").withColumn(
        "key", F.expr("substring(key, 3, length(key) - 2)")
    )
    return named.selectExpr(
        _TOPIC, _PARTITION, f"{first_source}L as first_source", "value", "offset as `order`"
    )


def _that_count(pages: DataFrame) -> DataFrame:
    """Drop pages that an earlier owner wrote after the note of the next owner, and all notes of
    owners."""
    session = _int64("value", "3")
    # -10 stands for decimal with a sign: the owner before may be -1.
    before = "cast(conv(hex(substring(value, 11, 8)), 16, -10) as bigint)"
    notes = F.sort_array(F.collect_list(F.struct("order", "session", "before"))).alias("notes")
    noted = pages.where(f"first_source = {_OWNER} and length(value) >= 18")
    owners = (
        noted.selectExpr(
            "topic", "partition", "`order`", f"{session} as session", f"{before} as before"
        )
        .groupBy("topic", "partition")
        .agg(notes)
        .selectExpr(
            "topic",
            "partition",
            "aggregate(notes, slice(notes, 1, 1), (owners, noted) -> if("
            "element_at(owners, -1).session = noted.before"
            " and noted.session > noted.before, concat(owners, array(noted)), owners))"
            " as owners",
        )
    )
    late = f"exists(owners, owner -> owner.`order` < `order` and owner.session > {session})"
    return (
        pages.where(f"first_source <> {_OWNER}")
        .join(F.broadcast(owners), ["topic", "partition"], "left")
        .where(f"first_source < 0 or not coalesce({late}, false)")
        .drop("owners")
    )


def newest_pages(pages: DataFrame) -> DataFrame:
    """Return PAGES as compaction would leave them, without pages of former owners."""
    newest = F.max_by(F.struct("value"), "order").alias("newest")
    return (
        _that_count(pages)
        .groupBy("topic", "partition", "first_source")
        .agg(newest)
        .selectExpr("topic", "partition", "first_source", "newest.value as value")
        .where("value is not null")
    )


def newest_syncs_before(syncs: DataFrame, order: int) -> DataFrame:
    """Return SYNCS, where of those before `order` only the newest of each partition is kept."""
    newest = F.max_by(F.struct("upstream", "downstream", "order"), "order").alias("newest")
    before = syncs.where(F.col("order") < order).groupBy("topic", "partition").agg(newest)
    return syncs.where(F.col("order") >= order).unionByName(
        before.select("topic", "partition", "newest.*")
    )


class TopicTable:
    """Partition 0 of a topic, cached in Spark and extended by each read. For one thread."""

    def __init__(
        self, topic: str, properties: Mapping[str, str], parse: Callable[[DataFrame], DataFrame]
    ) -> None:
        """`properties`: those of a Java consumer. `parse`: converts records (key, value, offset) to
        rows."""
        self._topic = topic
        self._options = kafka_options(properties)
        self._parse = parse
        self._session: SparkSession | None = None
        self._topic_id = ""
        self._pieces: list[DataFrame] = []
        self._end = 0

    def read(self, session: SparkSession, topic_id: str, beginning: int, end: int) -> DataFrame:
        """Return the rows of all records before `end`, the topic's end offset. `beginning`: its
        start offset. `topic_id`: earlier reads of a re-created topic are dropped. Lazy: the first
        query reads new records."""
        another = topic_id != self._topic_id or end < self._end
        lost = session is not self._session or another
        if lost or len(self._pieces) >= MOST_PIECES:
            self.close()
            self._session, self._topic_id = session, topic_id
        if end > self._end or not self._pieces:
            first = max(self._end, beginning)
            self._pieces.append(self._piece(session, first, max(first, end)).persist())
            self._end = end
        return reduce(DataFrame.unionAll, self._pieces)

    def close(self) -> None:
        """Release the cached rows."""
        session, pieces = self._session, self._pieces
        self._pieces, self._end, self._session = [], 0, None
        if session is None or not (is_remote(session) or session.sparkContext._jsc is not None):
            return
        # The cache was lost with the session.
        with suppress(Py4JError, OSError, PySparkException, ValueError):
            for piece in pieces:
                piece.unpersist()

    def _piece(self, session: SparkSession, first: int, end: int) -> DataFrame:
        records = (
            session.read.format("kafka")
            .options(**self._options)
            .option("assign", json.dumps({self._topic: [0]}))
            .option("startingOffsets", json.dumps({self._topic: {"0": first}}))
            .option("endingOffsets", json.dumps({self._topic: {"0": end}}))
            # Compaction removes records, which is not a loss here.
            .option("failOnDataLoss", "false")
            .load()
        )
        return self._parse(records.select("key", "value", "offset"))
