"""Offset syncs and offset map as tables, read from their topics with Spark's Kafka source.

The source takes Java's consumer properties, which is what flows are written in. Records go from the
brokers to executors; Python sees none of them. What does not parse is left out, as it is by every
other reader of these topics.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import reduce

from py4j.protocol import Py4JError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from connect.config.security import CLIENT_CONFIG_NAMES
from connectors.mirror.offsets.map_notes import NEWEST_LOSS

__all__ = [
    "TopicTable",
    "kafka_options",
    "newest_pages",
    "newest_syncs_before",
    "page_records",
    "sync_records",
]

MOST_PIECES = 16
"""A topic that was read in so many pieces is read again as a whole: by then it was compacted, and
each piece costs a task in every query."""


def kafka_options(properties: Mapping[str, str]) -> dict[str, str]:
    """The source's options for a Java consumer's properties: where the cluster is, and security.
    What else they say is about consumers, which the source has its own mind about."""
    return {
        f"kafka.{key}": value for key, value in properties.items() if key in CLIENT_CONFIG_NAMES
    }


def _int64(column: str, at: str) -> str:
    return f"cast(conv(hex(substring({column}, {at}, 8)), 16, 10) as bigint)"


_NAME_BYTES = "cast(conv(hex(substring(key, 1, 2)), 16, 10) as int)"
_TOPIC = f"cast(substring(key, 3, {_NAME_BYTES}) as string) as topic"
_PARTITION = f"cast(conv(hex(substring(key, 3 + {_NAME_BYTES}, 4)), 16, 10) as int) as partition"


def sync_records(records: DataFrame) -> DataFrame:
    """Records (key, value, offset) of an offset-syncs topic -> SYNCS."""
    whole = f"length(value) >= 16 and length(key) >= 6 + {_NAME_BYTES}"
    return records.where(whole).selectExpr(
        _TOPIC,
        _PARTITION,
        f"{_int64('value', '1')} as upstream",
        f"{_int64('value', '9')} as downstream",
        "offset as `order`",
    )


def page_records(records: DataFrame) -> DataFrame:
    """Records (key, value, offset) of an offset map -> PAGES with `order`, tombstones included."""
    pages = records.where(f"length(key) >= 14 + {_NAME_BYTES}").selectExpr(
        _TOPIC,
        _PARTITION,
        f"{_int64('key', f'7 + {_NAME_BYTES}')} as first_source",
        "value",
        "offset as `order`",
    )
    # Behind their mark, keys of losses are as those of pages are, without the last number.
    losses = records.where("hex(substring(key, 1, 2)) = 'FFFD'")
    noted = losses.withColumn("key", F.expr("substring(key, 3, length(key) - 2)")).selectExpr(
        _TOPIC, _PARTITION, f"{NEWEST_LOSS}L as first_source", "value", "offset as `order`"
    )
    return pages.unionByName(noted)


def newest_pages(pages: DataFrame) -> DataFrame:
    """What compaction would leave: PAGES."""
    newest = F.max_by(F.struct("value"), "order").alias("newest")
    return (
        pages.groupBy("topic", "partition", "first_source")
        .agg(newest)
        .selectExpr("topic", "partition", "first_source", "newest.value as value")
        .where("value is not null")
    )


def newest_syncs_before(syncs: DataFrame, order: int) -> DataFrame:
    """SYNCS without those before `order` that are not their partition's newest there."""
    newest = F.max_by(F.struct("upstream", "downstream", "order"), "order").alias("newest")
    before = syncs.where(F.col("order") < order).groupBy("topic", "partition").agg(newest)
    return syncs.where(F.col("order") >= order).unionByName(
        before.select("topic", "partition", "newest.*")
    )


class TopicTable:
    """Partition 0 of a topic, kept in Spark and read on from where it was read to. One thread."""

    def __init__(
        self, topic: str, properties: Mapping[str, str], parse: Callable[[DataFrame], DataFrame]
    ) -> None:
        """`properties`: of a Java consumer. `parse`: records (key, value, offset) -> rows."""
        self._topic = topic
        self._options = kafka_options(properties)
        self._parse = parse
        self._session: SparkSession | None = None
        self._topic_id = ""
        self._pieces: list[DataFrame] = []
        self._end = 0

    def read(self, session: SparkSession, topic_id: str, beginning: int, end: int) -> DataFrame:
        """The rows of all records before `end`, the topic's end offset; `beginning` is its first.
        `topic_id`: of a topic that was created again, nothing that was read before counts. Lazy:
        what is new is read by the first query."""
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
        """Let go of what is kept."""
        session, pieces = self._session, self._pieces
        self._pieces, self._end, self._session = [], 0, None
        if session is None or session.sparkContext._jsc is None:
            return
        # Of a JVM that died nothing is kept.
        with suppress(Py4JError, OSError):
            for piece in pieces:
                piece.unpersist()

    def _piece(self, session: SparkSession, first: int, end: int) -> DataFrame:
        records = (
            session.read.format("kafka")
            .options(**self._options)
            .option("assign", json.dumps({self._topic: [0]}))
            .option("startingOffsets", json.dumps({self._topic: {"0": first}}))
            .option("endingOffsets", json.dumps({self._topic: {"0": end}}))
            # Compaction takes records away; that is not a loss here.
            .option("failOnDataLoss", "false")
            .load()
        )
        return self._parse(records.select("key", "value", "offset"))
