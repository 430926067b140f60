"""The tables that the jobs take and give: Spark schemas, and the same for Arrow.

Every job is a function from DataFrames of these schemas to a DataFrame of one of them. Rows go
between Python and Spark as Arrow (`arrow_table`, `DataFrame.toArrow`), without Python workers.
Topics are named as on the source, unless a column says otherwise. Offsets are int64.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow as pa
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
    "ACL_PLAN",
    "BREAKS",
    "CHECKPOINTS",
    "CONFIGS",
    "CONFIG_CHANGES",
    "GROUP_OFFSETS",
    "GROUP_WRITES",
    "PAGES",
    "PROPERTIES",
    "SYNCS",
    "TARGET_GROUPS",
    "TARGET_OFFSETS",
    "TOPICS",
    "arrow_schema",
    "arrow_table",
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
`downstream` on the target. `order`: which of a partition's syncs is newer; the offset in the
offset-syncs topic. Either the whole topic, or what Java's OffsetSyncStore would keep of it."""

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
"""The offset map, one row for each segment that is in force; those of a partition do not overlap.

For a source offset x whose nearest row at or before it (by `source_start`) is this one:

* x < `source_end`: the record is at `target_start + x - source_start`;
* otherwise x lies in the gap behind it, and `gap_target` is where the next record that exists is;
* `gap_target` null: what is behind is not known (the end of the map, or another program copied
  there), and `target_start + source_end - source_start`, the end of what is known, leaves nothing
  out. Up to `seen_end` the source was seen to have no record there, or, in a row of no length, the
  target has lost the records: the next one will be at `target_start`;
* `loss` is the session of the partition's newest loss page, 0 without one;
* offset syncs count from source offset `syncs_from` on, and with target offsets before
  `syncs_below`, if that is not null.

For what is before the first page there is a row of no length at source offset 0. `target_start` is
0 where the copy begins at the target's offset 0 or where records were lost, otherwise null, as
nothing is known; then `seen_end` is -1 unless the copy begins at offset 0.
"""

PAGES = StructType(
    [
        *_PARTITION,
        _required("first_source", LongType()),
        _required("value", BinaryType()),
    ]
)
"""Pages of the offset map: the newest record of each key that is no tombstone. `value` is the
record's. A row whose `first_source` is `NEWEST_LOSS` is no page: it says which loss is the newest
(`connectors.mirror.offsets.loss_notes`)."""

GROUP_OFFSETS = StructType(
    [
        _required("group", StringType()),
        *_PARTITION,
        _required("offset", LongType()),
        _required("metadata", StringType()),
    ]
)
"""Committed offsets: `offset` is the next one that the group would read."""

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
"""Translated offsets: a group that committed `upstream` on the source goes on at `downstream` on
the target. `exact`: that is the very record, or the next one that exists; false: it is earlier, or
may be, by at most `behind` records that were read already, as nothing better is known. `loss`: as
in BREAKS, of the whole partition; a place that was given with a lower one may not hold."""

TOPICS = StructType([_required("topic", StringType()), _required("remote", StringType())])
"""Topics that are mirrored, and their names on the target."""

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
"""Configs of topics as a cluster describes them, defaults included. `topic`: on that cluster;
`source`: Java's ConfigSource, such as DYNAMIC_TOPIC_CONFIG or DEFAULT_CONFIG."""

PROPERTIES = StructType(
    [
        _required("name", StringType()),
        _required("copied", BooleanType()),
        _required("default_copied", BooleanType()),
    ]
)
"""What the flow's filter says of each config: whether it is copied, and whether the source's
default of it is."""

CONFIG_CHANGES = StructType(
    [
        _required("remote", StringType()),
        _required("name", StringType()),
        StructField("value", StringType(), nullable=True),
        StructField("before", StringType(), nullable=True),
    ]
)
"""What to change on the target. `value`: to set; null: to delete, so that the target's own default
counts again. `before`: what was in force there."""

ACLS = StructType(
    [
        _required(name, StringType())
        for name in ("topic", "pattern", "principal", "host", "operation", "permission")
    ]
)
"""Access control entries of topics, with Java's names (LITERAL, READ, ALLOW)."""

ACL_PLAN = StructType([*ACLS.fields, _required("outcome", StringType())])
"""Entries as they are to be on the target, and what becomes of each: `create`; `exists`; or not
mirrored, because it lets somebody write (`write`), because it is not for one topic by name
(`pattern`) or its topic is not mirrored (`topic`); of those the entry is the source's."""

TARGET_GROUPS = StructType([_required("group", StringType()), _required("state", StringType())])
"""Groups of the target. `state`: EMPTY, DEAD or another of Java's; a group that is not there is
one that does not exist."""

TARGET_OFFSETS = StructType(
    [
        _required("group", StringType()),
        *_PARTITION,
        StructField("offset", LongType(), nullable=True),
    ]
)
"""What groups have committed on the target; `topic` is the target's. Null: committed, but without
an offset."""

GROUP_WRITES = StructType(
    [
        _required("group", StringType()),
        *_PARTITION,
        _required("offset", LongType()),
        _required("metadata", StringType()),
    ]
)
"""Offsets to commit on the target; `topic` is the target's."""

_ARROW_TYPES: dict[type[DataType], pa.DataType] = {
    StringType: pa.string(),
    IntegerType: pa.int32(),
    LongType: pa.int64(),
    BooleanType: pa.bool_(),
    BinaryType: pa.binary(),
}


def arrow_schema(schema: StructType) -> pa.Schema:
    """The same columns in Arrow."""
    return pa.schema(
        [
            pa.field(field.name, _ARROW_TYPES[type(field.dataType)], nullable=field.nullable)
            for field in schema.fields
        ]
    )


def arrow_table(schema: StructType, rows: Iterable[Sequence[object]]) -> pa.Table:
    """Rows, as tuples in the order of the schema's columns, for `SparkSession.createDataFrame`."""
    columns = list(zip(*rows, strict=True)) or [()] * len(schema.fields)
    target = arrow_schema(schema)
    arrays = [
        pa.array(column, type=field.type) for column, field in zip(columns, target, strict=True)
    ]
    return pa.table(arrays, schema=target)
