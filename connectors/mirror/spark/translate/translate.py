"""Checkpoint translation of all groups at once.

Each committed offset is joined with the nearest break of the offset map and the nearest offset sync
at or before it. For that, all three tables are united and sorted within each partition, and every
row carries the last break and the last sync forward. This takes one shuffle by partition and one
sort, stays in the JVM, and spreads over executors by topic and partition. The rules for a single
offset are those of `connectors.mirror.offsets.translation`.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

__all__ = ["translate"]

_PARTITION = ("topic", "partition")
# At the same offset, breaks and syncs sort before groups.
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
    """Compute CHECKPOINTS from SYNCS, BREAKS and GROUP_OFFSETS. Offsets without a known translation
    get no row.

    The map's place is used, unless it is not exact and a sync leads further; the map decides which
    syncs are valid. If `syncs` has all of the topic, the result is at least as close as Java's and
    never after the record. If it has those that Java's OffsetSyncStore keeps, the result is Java's.
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
    """Return the rows of one table in the united schema. `at`: a source offset."""

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
    """Drop syncs from before the source went back, because their records no longer exist."""
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
    """Apply MirrorMaker 2's rule: at the sync or one offset after it, never further. Null: there is
    no valid sync."""
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
