"""Checkpoint translation: where groups go on, computed for all of them at once.

A join of each committed offset with the nearest break of the offset map, and the nearest offset
sync, at or before it: as a union of all three, ordered within each partition, in which every row
carries the last break and the last sync on. It takes one shuffle by partition and one sort, stays
in the JVM, and spreads over executors by topic and partition. Each offset alone is translated as
`connectors.mirror.offsets.translation` does it for one.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

__all__ = ["translate"]

_PARTITION = ("topic", "partition")
# At one offset, the break and the sync there come before the groups that are there.
_BREAK, _SYNC, _GROUP = 0, 1, 2

_BREAK_COLUMNS = (
    "source_start",
    "source_end",
    "target_start",
    "gap_target",
    "seen_end",
    "loss",
    "syncs_from",
    "syncs_below",
)
_BREAK_TYPE = f"struct<{', '.join(f'{name}: bigint' for name in _BREAK_COLUMNS)}>"
_SYNC_TYPE = "struct<upstream: bigint, downstream: bigint>"
_GROUP_TYPE = "struct<group: string, metadata: string>"


def translate(
    session: SparkSession, syncs: DataFrame, map_breaks: DataFrame, group_offsets: DataFrame
) -> DataFrame:
    """SYNCS, BREAKS, GROUP_OFFSETS -> CHECKPOINTS, without rows for offsets of which nothing is
    known.

    A place in the map counts, unless it is not exact and the syncs lead further; which of them may
    be gone by, the map says. `syncs`: of all in the topic, the answer is at least as near as Java's
    and never after the record; of those that Java's OffsetSyncStore keeps, it is Java's.
    """
    events = (
        _events(map_breaks, _BREAK, "source_start", "0L")
        .unionByName(_events(_since_rewind(syncs), _SYNC, "upstream", "order"))
        .unionByName(_events(group_offsets, _GROUP, "offset", "0L"))
    )
    until = Window.partitionBy(*_PARTITION).orderBy("at", "kind", "nth")
    until = until.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    placed = events.select(
        *_PARTITION,
        "at",
        "kind",
        "group",
        F.last("break", ignorenulls=True).over(until).alias("b"),
        F.last("sync", ignorenulls=True).over(until).alias("s"),
    ).where(F.col("kind") == _GROUP)
    return _nearer(_by_sync(_by_map(placed)))


def _events(rows: DataFrame, kind: int, at: str, nth: str) -> DataFrame:
    """Rows of one table among those of all: `at` an offset of the source."""

    def only(of: int, names: str, kind_type: str) -> str:
        return f"struct({names})" if of == kind else f"cast(null as {kind_type})"

    breaks = ", ".join(_BREAK_COLUMNS)
    return rows.selectExpr(
        *_PARTITION,
        f"`{at}` as at",
        f"{kind} as kind",
        f"{nth} as nth" if nth == "0L" else f"`{nth}` as nth",
        f"{only(_BREAK, breaks, _BREAK_TYPE)} as break",
        f"{only(_SYNC, 'upstream, downstream', _SYNC_TYPE)} as sync",
        f"{only(_GROUP, '`group`, metadata', _GROUP_TYPE)} as `group`",
    )


def _since_rewind(syncs: DataFrame) -> DataFrame:
    """Without those before the source went back: they are of records that are not there any
    more."""
    by_order = Window.partitionBy(*_PARTITION).orderBy("order")
    rewound = F.col("upstream") < F.lag("upstream").over(by_order)
    marked = syncs.withColumn("rewound", F.when(rewound, F.col("order")))
    last = F.max("rewound").over(Window.partitionBy(*_PARTITION))
    return marked.withColumn("since", last).where("since is null or `order` >= since")


def _by_map(placed: DataFrame) -> DataFrame:
    inside = "at < b.source_end"
    lost = "(b.source_start = b.source_end and at <= b.seen_end)"
    end = "b.target_start + b.source_end - b.source_start"
    return placed.withColumns(
        {
            "map_exact": F.expr(f"coalesce({inside} or b.gap_target is not null or {lost}, false)"),
            "map_place": F.expr(
                f"if({inside}, b.target_start + at - b.source_start, coalesce(b.gap_target, {end}))"
            ),
            "map_behind": F.expr("greatest(0L, at - greatest(b.source_end, b.seen_end))"),
        }
    )


def _by_sync(placed: DataFrame) -> DataFrame:
    """MirrorMaker 2's rule: at the sync, or one after it, never further. Null: there is no sync, or
    none that may be gone by."""
    counts = (
        "s.upstream >= coalesce(b.syncs_from, 0L)"
        " and (b.syncs_below is null or s.downstream < b.syncs_below)"
    )
    return placed.withColumns(
        {
            "sync_place": F.expr(
                f"case when {counts} then s.downstream + if(at > s.upstream, 1, 0) end"
            ),
            "sync_behind": F.expr("greatest(0L, at - s.upstream - 1)"),
        }
    )


def _nearer(placed: DataFrame) -> DataFrame:
    by_map = (
        "(map_place is not null and (map_exact or sync_place is null or sync_place <= map_place))"
    )
    known = placed.where("map_place is not null or sync_place is not null")
    return known.selectExpr(
        "`group`.`group` as `group`",
        *_PARTITION,
        "at as upstream",
        f"if({by_map}, map_place, sync_place) as downstream",
        "`group`.metadata as metadata",
        f"{by_map} and map_exact as exact",
        f"case when not {by_map} then sync_behind when map_exact then 0L else map_behind end"
        " as behind",
        "coalesce(b.loss, 0L) as loss",
    )
