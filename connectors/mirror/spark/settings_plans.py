"""Config and ACL sync computed on Spark, from the rows that `connectors.mirror.settings` reads.

The config changes give topics on the target their sources' configs. The result is the same as in
MirrorMaker 2, which sends every config of every topic each time. Here only differences are sent.

The ACL plan says who may read mirrored topics on the target, by MirrorMaker 2's rules. Only ACL
entries for a single topic by name are mirrored. Only the mirror may write to copies: an entry that
allows WRITE is left out, and one that allows ALL allows READ on the target. Entries that deny are
copied unchanged. Nothing is ever deleted. Source: KIP-382 and Kafka 4.3.1.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from connect.clients.librdkafka.acls import Acl
from connectors.mirror.settings.plans import ConfigRow, Plan, PropertyRow
from connectors.mirror.spark.tables import ACLS, CONFIGS, PROPERTIES, TOPICS, table_frame
from connectors.spark.arrow import collect

__all__ = ["acl_plan", "acl_plan_on_spark", "config_changes", "config_changes_on_spark"]


_ENTRY = ("topic", "pattern", "principal", "host", "operation", "permission")


def config_changes_on_spark(
    session: SparkSession,
    source: Iterable[ConfigRow],
    target: Iterable[ConfigRow],
    topics: Iterable[tuple[str, str]],
    properties: Iterable[PropertyRow],
) -> Plan:
    """Compute the same as `connectors.mirror.settings.plans.config_changes`."""
    changes = config_changes(
        table_frame(session, CONFIGS, source),
        table_frame(session, CONFIGS, target),
        table_frame(session, TOPICS, topics),
        table_frame(session, PROPERTIES, properties),
    )
    return list(collect(changes).to_pylist())


def acl_plan_on_spark(
    session: SparkSession, source: Iterable[Acl], target: Iterable[Acl], topics: Mapping[str, str]
) -> Plan:
    """Compute the same as `connectors.mirror.settings.plans.acl_plan`."""
    plan = acl_plan(
        table_frame(session, ACLS, source),
        table_frame(session, ACLS, target),
        table_frame(session, TOPICS, topics.items()),
    )
    return list(collect(plan).to_pylist())


def config_changes(
    source: DataFrame, target: DataFrame, topics: DataFrame, properties: DataFrame
) -> DataFrame:
    """Compute the changes on the target from the source's CONFIGS, the target's CONFIGS, TOPICS and
    PROPERTIES.

    Columns: `remote`; `name`; `value`, the value to set, or null to delete the config, so that the
    target's default applies; `before`, the effective value before the change.

    A config that is set on the source is set on the target. A config that has the source's default
    is deleted on the target, even if a user set it there; or it is set, if the filter wants the
    source's defaults. Configs are skipped if the filter rejects them, if a cluster does not allow
    changes (read-only, sensitive, set in the brokers' files), or if the target does not know them.
    """
    wanted = (
        source.join(F.broadcast(topics), "topic")
        .join(F.broadcast(properties), "name")
        .where("copied and not read_only and not sensitive and source != 'STATIC_BROKER_CONFIG'")
        .withColumn("delete", F.expr("source = 'DEFAULT_CONFIG' and not default_copied"))
        .where("delete or value is not null")
        .select("remote", "name", F.expr("if(delete, null, value)").alias("value"), "delete")
    )
    has = target.where("not read_only").select(
        F.col("topic").alias("remote"),
        "name",
        F.col("value").alias("before"),
        (F.col("source") == "DYNAMIC_TOPIC_CONFIG").alias("own"),
    )
    return (
        wanted.join(has, ["remote", "name"])
        .where("if(delete, own, not own or not (value <=> before))")
        .select("remote", "name", "value", "before")
    )


def acl_plan(source: DataFrame, target: DataFrame, topics: DataFrame) -> DataFrame:
    """Plan entries for the target, without duplicates, from the source's ACLS, the target's ACLS
    and TOPICS: the mirrored topics among those in the source's entries.

    The columns are those of ACLS, and the outcome: `create`, `exists`, or a reason not to mirror
    the source's entry: it allows WRITE (`write`), is not for a single topic by name (`pattern`), or
    its topic is not mirrored (`topic`).
    """
    judged = source.join(F.broadcast(topics), "topic", "left").withColumn(
        "left_out",
        F.expr(
            "case when pattern != 'LITERAL' then 'pattern'"
            " when permission = 'ALLOW' and operation = 'WRITE' then 'write'"
            " when remote is null then 'topic' end"
        ),
    )
    planned = judged.select(
        F.expr("if(left_out is null, remote, topic)").alias("topic"),
        "pattern",
        "principal",
        "host",
        F.expr(
            "if(left_out is null and permission = 'ALLOW' and operation = 'ALL', 'READ', operation)"
        ).alias("operation"),
        "permission",
        "left_out",
    ).distinct()
    there = target.select(*_ENTRY).distinct().withColumn("there", F.lit(True))
    return planned.join(there, list(_ENTRY), "left").select(
        *_ENTRY,
        F.expr("coalesce(left_out, if(there is null, 'create', 'exists'))").alias("outcome"),
    )
