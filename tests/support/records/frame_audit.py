"""An audit that shares nothing with ours: two topics compared as DataFrames of Spark's own Kafka
source. It moves every record through the JVM, so it is for tests only."""

from __future__ import annotations

from typing import NamedTuple

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

__all__ = ["FrameAudit", "frame_audit"]

_SAME = ("partition", "digest", "time")


class FrameAudit(NamedTuple):
    """Counts of records. `source_only`, `target_only`: without an equal one on the other side.
    `in_order`: whether the records that both sides have are in one order in each partition."""

    equal: int
    source_only: int
    target_only: int
    in_order: bool


def frame_audit(
    session: SparkSession, source: tuple[str, str], target: tuple[str, str]
) -> FrameAudit:
    """Compare two topics, each given by its bootstrap servers and its name, as a consumer with
    read_committed sees them."""
    before, after = _records(session, *source), _records(session, *target)
    both = before.join(after.withColumnRenamed("offset", "target_offset"), [*_SAME, "nth"])
    equal = both.count()
    in_partition = Window.partitionBy("partition").orderBy("offset")
    later = both.withColumn("previous", F.lag("target_offset").over(in_partition))
    in_order = later.where("previous >= target_offset").isEmpty()
    return FrameAudit(equal, before.count() - equal, after.count() - equal, in_order)


def _records(session: SparkSession, servers: str, topic: str) -> DataFrame:
    """Return a row per record: its digest, and which of the equal ones of its partition it is."""
    read = (
        session.read.format("kafka")
        .option("kafka.bootstrap.servers", servers)
        .option("kafka.isolation.level", "read_committed")
        .option("subscribe", topic)
        .option("includeHeaders", "true")
        .load()
    )
    headers = F.to_json(F.expr("transform(headers, h -> struct(h.key, hex(h.value) as v))"))
    digest = F.sha2(F.concat_ws("|", _shown("key"), _shown("value"), headers), 256)
    rows = read.select(
        "partition", "offset", digest.alias("digest"), F.col("timestamp").alias("time")
    )
    nth = F.row_number().over(Window.partitionBy(*_SAME).orderBy("offset"))
    return rows.withColumn("nth", nth)


def _shown(column: str) -> Column:
    """Bytes as text; null differs from no bytes."""
    return F.coalesce(F.hex(column), F.lit("null"))
