"""The mirror's stored data as Spark DataFrames: offset syncs, copied ranges, checkpoints,
heartbeats and the history of one flow.

    from connectors.dataframes import open_frames

    with open_frames("mm2.properties", "A->B") as frames:
        frames.ranges().groupBy("topic").sum("records").show()

Topics are read with Spark's Kafka source whenever a frame is used, so each use sees what is there
then. A topic that does not exist gives no rows. Works on topics of Java's MirrorMaker 2, too, which
has no ranges. Formats: docs/reference/offset-map.md, and `connectors.mirror.formats`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

import pyarrow as pa
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
"""One offset sync: `upstream` on the source topic is at `downstream` on the target. The topic is
compacted, so in time only the newest sync of a partition remains."""

RANGE_ROWS = StructType(
    [
        *_PARTITION,
        StructField("source_start", LongType()),
        StructField("target_start", LongType()),
        StructField("records", LongType()),
    ]
)
"""`records` records from `source_start` on are on the target from `target_start` on. Of records
that were copied twice, only the later copy is listed."""

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
"""The newest checkpoint of each group and partition, with the topic's name on the target."""

HEARTBEAT_ROWS = StructType(
    [
        StructField("source", StringType()),
        StructField("target", StringType()),
        StructField("sent_at", TimestampType()),
        StructField("written_at", TimestampType()),
    ]
)
"""One heartbeat as it stands on the target. Where the topic has LogAppendTime, `written_at` less
`sent_at` is how long it took."""

_ARROW_TYPES = {int: pa.int64(), str: pa.string()}
"""Of the history's columns, by what SQLAlchemy gives for them."""


def _int(column: str, at: str, length: int, kind: str) -> str:
    return f"cast(conv(hex(substring({column}, {at}, {length})), 16, 10) as {kind})"


def _text(column: str, at: str) -> str:
    """The STRING at byte `at` (from 1): an int16 length and UTF-8."""
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
    """The frames of one flow. Safe to use from any thread that may use the session."""

    def __init__(self, session: SparkSession, properties: Mapping[str, str]) -> None:
        """`session`: with Spark's Kafka source. `properties`: the flow's source connector's, as in
        `NamedFlow`."""
        config = SourceConfig.from_properties(properties)
        self._session = session
        self._props = properties
        self._policy = replication_policy(properties)
        self._source, self._target = config.source_cluster_alias, config.target_cluster_alias
        self._history_url = config.mirror_history_url
        self._offset_topics = offset_topics(properties)

    def offset_syncs(self) -> DataFrame:
        """SYNC_ROWS."""
        return self._read(self._offset_topics.syncs, self._syncs_client(), _syncs, SYNC_ROWS)

    def ranges(self) -> DataFrame:
        """RANGE_ROWS, from the offset map."""
        return self._read(self._offset_topics.map, self._syncs_client(), _ranges, RANGE_ROWS)

    def checkpoints(self) -> DataFrame:
        """CHECKPOINT_ROWS."""
        topic = self._policy.checkpoints_topic(self._source)
        return self._read(topic, self._target_client(), _checkpoints, CHECKPOINT_ROWS)

    def heartbeats(self) -> DataFrame:
        """HEARTBEAT_ROWS of all flows that send heartbeats to the target."""
        topic = self._policy.heartbeats_topic()
        return self._read(topic, self._target_client(), _heartbeats, HEARTBEAT_ROWS)

    def events(self) -> DataFrame:
        """Records lost, topics re-created, batches quarantined, and stalled partitions: the columns
        of `mirror_events` (`connectors.mirror.history.tables`), and `at` as a time."""
        return self._history("mirror_events")

    def copied(self) -> DataFrame:
        """Records copied between two commits of a partition: `mirror_ranges`, and `at`."""
        return self._history("mirror_ranges")

    def lags(self) -> DataFrame:
        """The lag of each partition at each commit: `mirror_lags`, and `at`."""
        return self._history("mirror_lags")

    def _history(self, name: str) -> DataFrame:
        """Return the flow's rows. They are read in this process, not by executors, because the
        default database is a file of this host."""
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
    """The frames of the flow `A->B` of an mm2.properties (without a name: of the only one), with a
    Spark session of their own on the master that the file's `spark.master` names. Raises
    `ConfigError`, and `SparkUnavailable` where there is no session within five minutes."""
    chosen = named_flow(Path(path), flow)
    with own_session("frames", chosen.properties, kafka=True) as session:
        yield MirrorFrames(session, chosen.properties)
