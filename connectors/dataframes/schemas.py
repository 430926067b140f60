"""The tables of the data source and their columns, declared once: Spark's schemas and the reference
page come from here (`python -m connectors.dataframes.reference PAGE`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import pyspark  # noqa: F401 - before its parts
from pyspark.sql.types import (
    BooleanType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

__all__ = ["SCHEMAS", "TableSchema"]

Column = tuple[str, DataType, str]

_INT, _LONG, _TEXT, _TIME, _BOOL = (
    IntegerType(),
    LongType(),
    StringType(),
    TimestampType(),
    BooleanType(),
)


class TableSchema(NamedTuple):
    """A table. `rows`: what one row is; `stream`: what one row of a streaming read is; "" if the
    table cannot be streamed."""

    columns: StructType
    rows: str
    stream: str = ""


def _columns(*columns: Column) -> StructType:
    return StructType(
        [
            StructField(name, kind, nullable=True, metadata={"comment": doc})
            for name, kind, doc in columns
        ]
    )


_SOURCE: tuple[Column, ...] = (
    ("topic", _TEXT, "the topic's name on the source"),
    ("partition", _INT, "its partition"),
)
_COPY: Column = ("target_topic", _TEXT, "the topic's name on the target")
_RECORD: tuple[Column, ...] = (
    ("offset", _LONG, "the offset of the record in that topic"),
    ("timestamp", _TIME, "the timestamp of that record"),
)
_HISTORY: tuple[Column, ...] = (
    ("id", _LONG, "the number of the row, ascending"),
    ("process", _TEXT, "host and process that wrote the row"),
    ("connector", _TEXT, "the connector"),
    ("task", _INT, "its task"),
    ("source", _TEXT, "alias of the source"),
    ("target", _TEXT, "alias of the target"),
    *_SOURCE,
    _COPY,
)
_AT: Column = ("at", _TIME, "when the row was written")

SCHEMAS: Mapping[str, TableSchema] = {
    "lag": TableSchema(
        _columns(
            *_SOURCE,
            _COPY,
            ("current_offset", _LONG, "the next offset to copy; null: none is stored yet"),
            ("log_start_offset", _LONG, "the first offset of the source's log"),
            (
                "log_end_offset",
                _LONG,
                "the log end offset, or the last stable offset under read_committed",
            ),
            ("lag", _LONG, "offsets still to be copied; null: none is stored yet"),
        ),
        "A partition that the flow copies, now",
    ),
    "groups": TableSchema(
        _columns(
            ("group_id", _TEXT, "the consumer group"),
            *_SOURCE,
            _COPY,
            ("current_offset", _LONG, "what the group has committed on the source"),
            ("target_offset", _LONG, "the same place on the target; null: it is not there yet"),
            ("target_current_offset", _LONG, "what the group has committed on the target"),
            ("target_log_end_offset", _LONG, "the end offset of the copy"),
            ("read_again", _LONG, "records that the group would read twice; null: not known"),
            ("ready", _BOOL, "whether the group can go on at the target from target_offset"),
            ("live", _BOOL, "false: the source does not answer, these are the last checkpoints"),
            ("error", _TEXT, "why the group's offsets cannot be read; then only group_id is set"),
        ),
        "A group's committed offset in a partition that the flow copies, now: failover readiness",
    ),
    "ranges": TableSchema(
        _columns(
            *_HISTORY,
            ("source_start", _LONG, "the first source offset of the range"),
            ("source_end", _LONG, "the source offset after it"),
            ("target_end", _LONG, "the target offset after its last copy"),
            ("records", _LONG, "records copied"),
            ("bytes", _LONG, "bytes of their batches"),
            _AT,
        ),
        "A range of a partition that was copied between two commits (history)",
        "A new row of the history",
    ),
    "lag_history": TableSchema(
        _columns(
            *_HISTORY,
            ("lag_records", _LONG, "offsets still to be copied"),
            ("lag_ms", _LONG, "age of the first record still to be copied"),
            ("time_to_loss_ms", _LONG, "time until retention deletes that record"),
            _AT,
        ),
        "The lag of a partition at a commit at which it was behind (history)",
        "A new row of the history",
    ),
    "events": TableSchema(
        _columns(
            *_HISTORY,
            ("kind", _TEXT, "what happened"),
            ("action", _TEXT, "what the mirror did"),
            ("side", _TEXT, "source or target"),
            ("first", _LONG, "the first offset concerned"),
            ("last", _LONG, "the last one"),
            ("records", _LONG, "offsets concerned"),
            ("resume", _LONG, "the offset at which copying went on"),
            ("text", _TEXT, "the same as a sentence"),
            _AT,
        ),
        "A loss, a quarantined batch, a stalled partition, a failure, a change (history)",
        "A new row of the history",
    ),
    "offset_map": TableSchema(
        _columns(
            *_SOURCE,
            ("source_start", _LONG, "the first source offset of the run"),
            ("target_start", _LONG, "the target offset of its copy"),
            ("records", _LONG, "consecutive offsets of the run, each one higher on both sides"),
            ("session", _LONG, "the writer's session; a later one counts from its first offset on"),
        ),
        "A run of records and where it is on the target. A range copied twice is listed once, "
        "where its later copy is",
        "A run of a page as it is written. A page that grows is written again: the newest row of "
        "a source_start counts",
    ),
    "offset_syncs": TableSchema(
        _columns(
            *_SOURCE,
            ("upstream_offset", _LONG, "a record's offset on the source"),
            ("downstream_offset", _LONG, "its offset on the target"),
            *_RECORD,
        ),
        "An offset sync. The topic is compacted: over time only the newest of a partition stays",
        "A new offset sync",
    ),
    "checkpoints": TableSchema(
        _columns(
            ("group_id", _TEXT, "the consumer group"),
            ("topic", _TEXT, "the topic's name on the target"),
            ("partition", _INT, "its partition"),
            ("upstream_offset", _LONG, "what the group had committed on the source"),
            ("downstream_offset", _LONG, "the same place on the target"),
            ("metadata", _TEXT, "the metadata of the commit"),
            *_RECORD,
        ),
        "The newest checkpoint of a group and a partition",
        "A new checkpoint",
    ),
    "heartbeats": TableSchema(
        _columns(
            ("source", _TEXT, "alias of the source"),
            ("target", _TEXT, "alias of the target"),
            ("sent_at", _TIME, "when the heartbeat was sent"),
            *_RECORD,
        ),
        "A heartbeat on the target, of any flow that sends them there",
        "A new heartbeat",
    ),
    "audit": TableSchema(
        _columns(
            *_SOURCE,
            _COPY,
            ("source_start", _LONG, "the first source offset of the range"),
            ("source_end", _LONG, "the source offset after it"),
            ("target_start", _LONG, "the first target offset of the range"),
            ("target_end", _LONG, "the target offset after it"),
            ("source_records", _LONG, "records read on the source"),
            ("target_records", _LONG, "records read on the target"),
            ("equal", _LONG, "records that are equal on both sides"),
            ("pending", _LONG, "not copied yet"),
            ("compacted", _LONG, "removed from one side by compaction"),
            ("expired_on_source", _LONG, "deleted from the source by retention"),
            ("expired_on_target", _LONG, "deleted from the target by retention"),
            ("missing", _LONG, "on the source only"),
            ("changed", _LONG, "other records at their offset"),
            ("moved", _LONG, "out of order"),
            ("duplicate", _LONG, "on the target a second time"),
            ("extra", _LONG, "on the target only"),
            ("error", _TEXT, "why the range could not be audited"),
        ),
        "A range of a partition whose records were compared on both sides, each time the frame is "
        "evaluated: this reads both logs",
    ),
}
