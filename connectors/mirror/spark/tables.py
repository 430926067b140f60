"""The tables that Spark jobs take and return: Spark schemas, and the same for Arrow.

Every job is a function from DataFrames of these schemas to a DataFrame of one of them. Rows are
passed between Python and Spark as Arrow (`arrow_table`, `DataFrame.toArrow`), without Python
workers. Topics have their names on the source, unless a column says otherwise. Offsets are int64.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)

__all__ = [
    "ACLS",
    "BREAKS",
    "CHECKPOINTS",
    "CONFIGS",
    "GROUP_OFFSETS",
    "PAGES",
    "PROPERTIES",
    "SYNCS",
    "TARGET_GROUPS",
    "TARGET_OFFSETS",
    "TOPICS",
    "arrow_schema",
    "arrow_table",
    "table_frame",
]


def _required(name: str, kind: DataType) -> StructField:
    return StructField(name, kind, nullable=False)


_PARTITION = (_required("topic", StringType()), _required("partition", IntegerType()))

SYNCS = StructType(
    [
        *_PARTITION,
        _required("upstream", LongType()),
        _required("downstream", LongType()),
        _required("order", LongType()),
    ]
)
"""Offset syncs as MirrorMaker 2 writes them: the record at `upstream` on the source is at
`downstream` on the target. `order`: increases with newer syncs of a partition; the offset in the
offset-syncs topic. Either the whole topic, or the syncs that Java's OffsetSyncStore would keep."""

BREAKS = StructType(
    [
        *_PARTITION,
        _required("source_start", LongType()),
        _required("source_end", LongType()),
        StructField("target_start", LongType(), nullable=True),
        StructField("gap_target", LongType(), nullable=True),
        _required("seen_end", LongType()),
        _required("loss", LongType()),
        _required("syncs_from", LongType()),
        StructField("syncs_below", LongType(), nullable=True),
    ]
)
"""The offset map: one row per segment that is valid. Rows of a partition do not overlap.

For a source offset x whose nearest row at or before it (by `source_start`) is this one:

* x < `source_end`: the record is at `target_start + x - source_start`;
* otherwise x is in the gap after the segment, and `gap_target` is the offset of the next existing
  record;
* `gap_target` null: the records after the segment are not known (end of the map, or copied by
  another program), and `target_start + source_end - source_start`, the end of the known records,
  skips nothing. Up to `seen_end` the source holds no record or, in a row of length 0, the target
  has lost the records, and the next one will be at `target_start`;
* `loss` is the session of the partition's newest loss page, or 0;
* offset syncs are valid from source offset `syncs_from` on, and with target offsets before
  `syncs_below` unless that is null.

A row of length 0 at source offset 0 stands for the offsets before the first page. Its
`target_start` is 0 if the copy begins at the target's offset 0 or records were lost, otherwise
null, because nothing is known. Its `seen_end` is -1 unless the copy begins at offset 0.
"""

PAGES = StructType(
    [
        *_PARTITION,
        _required("first_source", LongType()),
        _required("value", BinaryType()),
    ]
)
"""Pages of the offset map: the newest record of each key, without tombstones. `value` is the
record's. A row whose `first_source` is `NEWEST_LOSS` is not a page but the record of the newest
loss (`connectors.mirror.offsets.loss_notes`)."""

GROUP_OFFSETS = StructType(
    [
        _required("group", StringType()),
        *_PARTITION,
        _required("offset", LongType()),
        _required("metadata", StringType()),
    ]
)
"""Committed offsets. `offset`: the next one that the group would read."""

CHECKPOINTS = StructType(
    [
        _required("group", StringType()),
        *_PARTITION,
        _required("upstream", LongType()),
        _required("downstream", LongType()),
        _required("metadata", StringType()),
        _required("exact", BooleanType()),
        _required("behind", LongType()),
        _required("loss", LongType()),
    ]
)
"""Translated offsets: a group that committed `upstream` on the source continues at `downstream`
on the target. `exact`: this is the next record to read; otherwise the group re-reads at most
`behind` records. `loss`: as in BREAKS, for the whole partition; a place with a lower number may
be invalid."""

TOPICS = StructType([_required("topic", StringType()), _required("remote", StringType())])
"""Mirrored topics, and their names on the target."""

CONFIGS = StructType(
    [
        _required("topic", StringType()),
        _required("name", StringType()),
        StructField("value", StringType(), nullable=True),
        _required("source", StringType()),
        _required("read_only", BooleanType()),
        _required("sensitive", BooleanType()),
    ]
)
"""Configs of topics as a cluster describes them, including defaults. `topic`: its name on that
cluster. `source`: Java's ConfigSource, such as DYNAMIC_TOPIC_CONFIG or DEFAULT_CONFIG."""

PROPERTIES = StructType(
    [
        _required("name", StringType()),
        _required("copied", BooleanType()),
        _required("default_copied", BooleanType()),
    ]
)
"""The flow's filter for each config: whether it is copied, and whether the source's default is
copied."""

ACLS = StructType(
    [
        _required(name, StringType())
        for name in ("topic", "pattern", "principal", "host", "operation", "permission")
    ]
)
"""Access control entries of topics, with Java's names (LITERAL, READ, ALLOW)."""

TARGET_GROUPS = StructType([_required("group", StringType()), _required("state", StringType())])
"""Groups on the target. `state`: EMPTY, DEAD or another of Java's states. A missing group does not
exist."""

TARGET_OFFSETS = StructType(
    [
        _required("group", StringType()),
        *_PARTITION,
        StructField("offset", LongType(), nullable=True),
    ]
)
"""Committed offsets of groups on the target. `topic` is the target's. Null: a commit without an
offset."""

_ARROW_TYPES: dict[type[DataType], pa.DataType] = {
    StringType: pa.string(),
    IntegerType: pa.int32(),
    LongType: pa.int64(),
    BooleanType: pa.bool_(),
    BinaryType: pa.binary(),
}


def arrow_schema(schema: StructType) -> pa.Schema:
    """Return the same columns as an Arrow schema."""
    return pa.schema(
        [
            pa.field(field.name, _ARROW_TYPES[type(field.dataType)], nullable=field.nullable)
            for field in schema.fields
        ]
    )


def arrow_table(schema: StructType, rows: Iterable[Sequence[object]]) -> pa.Table:
    """Convert rows (tuples in the order of the schema's columns) to an Arrow table."""
    columns = list(zip(*rows, strict=True)) or [()] * len(schema.fields)
    target = arrow_schema(schema)
    arrays = [
        pa.array(column, type=field.type) for column, field in zip(columns, target, strict=True)
    ]
    return pa.table(arrays, schema=target)


def table_frame(
    session: SparkSession, schema: StructType, rows: Iterable[Sequence[object]]
) -> DataFrame:
    """Return rows as a data frame. Raises Spark's errors."""
    # With the schema, because Spark Connect infers none from a table without rows.
    return session.createDataFrame(arrow_table(schema, rows), schema)
