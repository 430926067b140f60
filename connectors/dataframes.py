"""The mirror's stored data as Spark DataFrames: offset syncs, copied ranges, checkpoints,
heartbeats and the history of one flow.

    from connectors.dataframes import open_frames

    with open_frames("mm2.properties", "A->B") as frames:
        frames.ranges().groupBy("topic").sum("records").show()

Topics are read with Spark's Kafka source whenever a frame is evaluated, so each evaluation sees the
current records. A missing topic gives no rows. The frames also work on topics of Java's MirrorMaker
2, which has no ranges. Formats: docs/reference/offset-map.md, and `connectors.mirror.formats`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

import pyarrow as pa
import pyspark  # noqa: F401 - before its parts
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from connect.clients.librdkafka.admin import Admin
from connectors.mirror.config import clients as client_configs
from connectors.mirror.config.source import SourceConfig
from connectors.mirror.history.database import read_history
from connectors.mirror.history.tables import TABLES
from connectors.mirror.replication_policy import offset_topics, replication_policy
from connectors.mirror.spark.translate.kafka_tables import (
    kafka_options,
    newest_pages,
    page_records,
    sync_records,
)
from connectors.mirror.spark.translate.map_breaks import map_breaks
from connectors.mirrormaker.flow_lookup import named_flow
from connectors.spark.program_session import own_session

__all__ = [
    "CHECKPOINT_ROWS",
    "HEARTBEAT_ROWS",
    "RANGE_ROWS",
    "SYNC_ROWS",
    "MirrorFrames",
    "open_frames",
]

_PARTITION = (StructField("topic", StringType()), StructField("partition", IntegerType()))

SYNC_ROWS = StructType(
    [
        *_PARTITION,
        StructField("upstream", LongType()),
        StructField("downstream", LongType()),
        StructField("written_at", TimestampType()),
    ]
)
"""One offset sync: offset `upstream` of the source topic is offset `downstream` on the target. The
topic is compacted, so in time only the newest sync of a partition remains."""

RANGE_ROWS = StructType(
    [
        *_PARTITION,
        StructField("source_start", LongType()),
        StructField("target_start", LongType()),
        StructField("records", LongType()),
    ]
)
"""`records` records from source offset `source_start` on are on the target from `target_start` on.
If records were copied twice, only the later copy is listed."""

CHECKPOINT_ROWS = StructType(
    [
        StructField("group", StringType()),
        *_PARTITION,
        StructField("upstream", LongType()),
        StructField("downstream", LongType()),
        StructField("metadata", StringType()),
        StructField("written_at", TimestampType()),
    ]
)
"""The newest checkpoint of each group and partition. `topic`: the topic's name on the target."""

HEARTBEAT_ROWS = StructType(
    [
        StructField("source", StringType()),
        StructField("target", StringType()),
        StructField("sent_at", TimestampType()),
        StructField("written_at", TimestampType()),
    ]
)
"""One heartbeat on the target. If the topic has LogAppendTime, `written_at` minus `sent_at` is the
latency."""

_ARROW_TYPES = {int: pa.int64(), str: pa.string()}
"""Spark type names of the history's columns, by their SQLAlchemy types."""


def _int(column: str, at: str, length: int, kind: str) -> str:
    return f"cast(conv(hex(substring({column}, {at}, {length})), 16, 10) as {kind})"


def _text(column: str, at: str) -> str:
    """Return an SQL expression for the STRING at byte `at` (from 1): an int16 length and UTF-8."""
    return f"cast(substring({column}, {at} + 2, {_int(column, at, 2, 'int')}) as string)"


def _time(column: str, at: str) -> str:
    return f"timestamp_millis({_int(column, at, 8, 'bigint')})"


_SECOND = f"(3 + {_int('key', '1', 2, 'int')})"
_THIRD = f"({_SECOND} + 2 + {_int('key', _SECOND, 2, 'int')})"


def _syncs(records: DataFrame) -> DataFrame:
    times = records.select(F.col("offset").alias("order"), F.col("timestamp").alias("written_at"))
    return sync_records(records).join(times, "order").select(*SYNC_ROWS.names)


def _ranges(records: DataFrame) -> DataFrame:
    return (
        map_breaks(newest_pages(page_records(records)))
        .withColumn("records", F.expr("source_end - source_start"))
        .where("records > 0")
        .select(*RANGE_ROWS.names)
    )


def _checkpoints(records: DataFrame) -> DataFrame:
    newest = F.max_by(F.struct("value", "timestamp"), "offset").alias("newest")
    return (
        records.groupBy("key")
        .agg(newest)
        .selectExpr("key", "newest.value as value", "newest.timestamp as written_at")
        .where(f"length(value) >= 20 and length(key) >= {_THIRD} + 3")
        .selectExpr(
            f"{_text('key', '1')} as `group`",
            f"{_text('key', _SECOND)} as topic",
            f"{_int('key', _THIRD, 4, 'int')} as partition",
            f"{_int('value', '3', 8, 'bigint')} as upstream",
            f"{_int('value', '11', 8, 'bigint')} as downstream",
            f"{_text('value', '19')} as metadata",
            "written_at",
        )
    )


def _heartbeats(records: DataFrame) -> DataFrame:
    return records.where("length(value) >= 10 and length(key) >= 4").selectExpr(
        f"{_text('key', '1')} as source",
        f"{_text('key', _SECOND)} as target",
        f"{_time('value', '3')} as sent_at",
        "timestamp as written_at",
    )


class MirrorFrames:
    """The frames of one flow. Any thread that may use the session may use them."""

    def __init__(self, session: SparkSession, properties: Mapping[str, str]) -> None:
        """`session`: has Spark's Kafka source. `properties`: those of the flow's source connector,
        as in `DedicatedFlow`."""
        config = SourceConfig.from_properties(properties)
        self._session = session
        self._props = properties
        self._policy = replication_policy(properties)
        self._source, self._target = config.source_cluster_alias, config.target_cluster_alias
        self._history_url = config.mirror_history_url
        self._offset_topics = offset_topics(properties)

    def offset_syncs(self) -> DataFrame:
        """Return offset syncs with the schema SYNC_ROWS."""
        return self._read(self._offset_topics.syncs, self._syncs_client(), _syncs, SYNC_ROWS)

    def ranges(self) -> DataFrame:
        """Return the copied ranges in the offset map with the schema RANGE_ROWS."""
        return self._read(self._offset_topics.map, self._syncs_client(), _ranges, RANGE_ROWS)

    def checkpoints(self) -> DataFrame:
        """Return checkpoints with the schema CHECKPOINT_ROWS."""
        topic = self._policy.checkpoints_topic(self._source)
        return self._read(topic, self._target_client(), _checkpoints, CHECKPOINT_ROWS)

    def heartbeats(self) -> DataFrame:
        """Return heartbeats of all flows that send them to the target, with the schema
        HEARTBEAT_ROWS."""
        topic = self._policy.heartbeats_topic()
        return self._read(topic, self._target_client(), _heartbeats, HEARTBEAT_ROWS)

    def events(self) -> DataFrame:
        """Return lost records, re-created topics, quarantined batches and stalled partitions.

        The columns are those of `mirror_events` (`connectors.mirror.history.tables`), and `at` as a
        timestamp.
        """
        return self._history("mirror_events")

    def copied(self) -> DataFrame:
        """Return the records copied between two commits of a partition: the columns of
        `mirror_ranges`, and `at`."""
        return self._history("mirror_ranges")

    def lags(self) -> DataFrame:
        """Return the lag of each partition at each commit: the columns of `mirror_lags`, and
        `at`."""
        return self._history("mirror_lags")

    def _history(self, name: str) -> DataFrame:
        """Return the flow's history rows. This process reads them rather than executors, because
        the default database is a local file."""
        rows = read_history(self._history_url, name, self._source, self._target)
        columns = TABLES.tables[name].columns
        schema = pa.schema([(c.name, _ARROW_TYPES[c.type.python_type]) for c in columns])
        frame = self._session.createDataFrame(pa.Table.from_pylist(rows, schema=schema))
        return frame.withColumn("at", F.timestamp_millis("at_ms")).drop("id", "at_ms")

    def _syncs_client(self) -> dict[str, str]:
        return client_configs.offset_syncs_consumer(self._props)

    def _target_client(self) -> dict[str, str]:
        return client_configs.client_properties(self._props, "target", "consumer", "frames")

    def _read(
        self,
        topic: str,
        client: Mapping[str, str],
        parse: Callable[[DataFrame], DataFrame],
        schema: StructType,
    ) -> DataFrame:
        # Spark's source fails on a topic that does not exist.
        with closing(Admin(client)) as admin:
            exists = topic in admin.list_topics()
        if not exists:
            return self._session.createDataFrame(to_arrow_schema(schema).empty_table())
        records = (
            self._session.read.format("kafka")
            .options(**kafka_options(client))
            .option("subscribe", topic)
            .option("failOnDataLoss", "false")
            .load()
        )
        return parse(records.select("key", "value", "offset", "timestamp"))


@contextmanager
def open_frames(path: str | Path, flow: str | None = None) -> Iterator[MirrorFrames]:
    """Yield the frames of the flow `A->B` of an mm2.properties file (without a name: of its only
    flow).

    Starts a Spark session on the file's `spark.master` and ends it with the block. Raises
    `ConfigError`, and `SparkUnavailable` if there is no session within five minutes.
    """
    chosen = named_flow(Path(path), flow)
    with own_session("frames", chosen.properties, kafka=True) as session:
        yield MirrorFrames(session, chosen.properties)
