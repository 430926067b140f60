"""The offset map as rows: pages of `mm2-offset-map` decoded by Spark itself, without Python.

Overlapping pages of several sessions are resolved as in docs/reference/offset-map.md, and as in
`OffsetMap` and `PartitionIndex` for one partition in memory.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from connectors.mirror.offsets.map_notes import NEWEST_LOSS
from connectors.mirror.offsets.offset_map_pages import LAST_OFFSET

__all__ = ["map_breaks"]

_HEAD_BYTES = 26
"""version INT16, session INT64, first target INT64, end of source INT64."""

_VARINT = "(?:[89A-F][0-9A-F])*[0-7][0-9A-F]"
"""A VARINT in hexadecimal: bytes with the high bit set continue, and the first one without it ends
the number."""
_VARINT_BYTES = 10

_PARTITION = ("topic", "partition")


def map_breaks(pages: DataFrame) -> DataFrame:
    """Compute BREAKS from PAGES. An invalid page fails the query."""
    return _segments(_stretches(_heads(pages)))


def _int64(value: str, at: int) -> Column:
    """Return the big-endian number at byte `at`, from 0. Offsets and times are never negative."""
    return F.conv(F.hex(F.substring(value, at + 1, 8)), 16, 10).cast("long")


def _heads(pages: DataFrame) -> DataFrame:
    numbers = F.regexp_extract_all(
        F.expr(f"hex(substring(value, {_HEAD_BYTES + 1}))"), F.lit(_VARINT), F.lit(0)
    )
    parsed = pages.select(
        *_PARTITION,
        "first_source",
        F.hex(F.substring("value", 1, 2)).alias("version"),
        _int64("value", 2).alias("session"),
        _int64("value", 10).alias("first_target"),
        _int64("value", 18).alias("end_source"),
        F.expr(f"hex(substring(value, {_HEAD_BYTES + 1})) = '01000000'").alias("lost"),
        numbers.alias("numbers"),
    )
    count = _number(F.get("numbers", F.lit(0)))
    whole = (F.col("version") == "0000") & (F.size("numbers") == count * 3 + 1) & (count > 0)
    named = F.concat_ws(" ", F.lit("offset map page is truncated:"), *_PARTITION, "first_source")
    noted = F.col("first_source") == NEWEST_LOSS
    loss = F.max(F.when(noted | F.col("lost"), F.col("session")))
    return (
        parsed.withColumn("loss", loss.over(Window.partitionBy(*_PARTITION)))
        .where(~noted)
        .withColumn("count", F.when(whole, count).otherwise(F.raise_error(named)))
    )


def _stretches(heads: DataFrame) -> DataFrame:
    """Return the valid pages with their successors. A later session overrides everything from its
    first offset on."""
    by_session = Window.partitionBy(*_PARTITION).orderBy(F.col("session").desc())
    later = by_session.rangeBetween(Window.unboundedPreceding, -1)
    earlier = by_session.rangeBetween(1, Window.unboundedFollowing)
    in_order = Window.partitionBy(*_PARTITION).orderBy("first_source")
    following = F.struct("first_source", "first_target")
    return (
        heads.withColumn("limit", F.min("first_source").over(later))
        .withColumn("reach", F.coalesce(F.max("end_source").over(earlier), F.lit(0)))
        .where("limit is null or first_source < limit")
        .withColumn("following", F.lead(following).over(in_order))
        .withColumn("first", F.lag("first_source").over(in_order).isNull())
        .withColumn("seen", F.expr("end_source >= following.first_source"))
    )


def _segments(stretches: DataFrame) -> DataFrame:
    # Number -1 is the row for offsets before the first record.
    from_start = F.expr("if(first and first_source > 0, -1, 0)")
    each = stretches.withColumn(
        "nth", F.explode(F.sequence(from_start, (F.col("count") - 1).cast("int")))
    )

    def number(of_three: int) -> Column:
        found = _number(F.get("numbers", F.col("nth") * 3 + of_three))
        return F.when(F.col("nth") < 0, 0).otherwise(found)

    zigzag = number(2)
    gaps = each.select(
        *_PARTITION,
        "first_source",
        "first_target",
        "end_source",
        "following",
        "seen",
        "reach",
        "lost",
        "loss",
        # What was copied after a loss may have replaced its page.
        F.expr("lost or session > loss").alias("maybe_lost"),
        "nth",
        number(1).alias("source_gap"),
        F.shiftrightunsigned(zigzag, 1)
        .bitwiseXOR(-zigzag.bitwiseAND(F.lit(1)))
        .alias("target_gap"),
        number(3).alias("length"),
    )
    in_page = Window.partitionBy(*_PARTITION, "first_source").orderBy("nth")
    so_far = in_page.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    placed = gaps.withColumn(
        "start", F.expr("first_source - length") + F.sum(F.expr("source_gap + length")).over(so_far)
    ).withColumn(
        "target",
        F.expr("first_target - length") + F.sum(F.expr("target_gap + length")).over(so_far),
    )
    ahead = placed.withColumn("ahead", F.lead(F.struct("start", "target")).over(in_page))
    known = ahead.where("following is null or nth < 0 or start < following.first_source")
    return known.selectExpr(
        *_PARTITION,
        "if(nth < 0, 0L, start) as source_start",
        "if(nth < 0, 0L, least(start + length, following.first_source)) as source_end",
        "if(nth >= 0, target, if(first_target = 0 or maybe_lost, 0L, null)) as target_start",
        "case when nth < 0 then if(first_target = 0, 0L, null) when length = 0 then null"
        " when ahead is not null and (following is null or ahead.start < following.first_source)"
        " then ahead.target when seen then following.first_target end as gap_target",
        "if(nth < 0, if(first_target = 0, 0L, -1L), end_source) as seen_end",
        "coalesce(loss, 0L) as loss",
        f"case when nth < 0 then 0L when lost then {LAST_OFFSET}L else greatest(end_source, reach)"
        " end as syncs_from",
        "if(nth < 0, first_target, following.first_target) as syncs_below",
    )


def _number(varint: Column) -> Column:
    """Decode a VARINT in hexadecimal."""

    def byte(index: int) -> Column:
        found = F.conv(F.substring(varint, 2 * index + 1, 2), 16, 10).cast("long")
        low = F.coalesce(found, F.lit(0)).bitwiseAND(F.lit(0x7F))
        return F.shiftleft(low, 7 * index)

    longer = byte(0)
    for index in range(1, _VARINT_BYTES):
        longer = longer + byte(index)
    one = F.conv(varint, 16, 10).cast("long")
    return F.when(F.length(varint) == 2, one).otherwise(longer)
