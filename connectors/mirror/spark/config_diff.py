"""Config sync: what to change on the target so that topics have their sources' configs.

MirrorMaker 2 sends every config of every topic each time; the outcome is the same here, but only
what differs is sent. Source: KIP-382 and Kafka 4.3.1.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

__all__ = ["config_changes"]


def config_changes(
    source: DataFrame, target: DataFrame, topics: DataFrame, properties: DataFrame
) -> DataFrame:
    """CONFIGS of the source, CONFIGS of the target, TOPICS, PROPERTIES -> CONFIG_CHANGES.

    What was set on the source is set on the target. What has the source's default is deleted from
    the target's topic, also where somebody set it there by hand; or set, where the source's
    defaults are wanted. Left alone: what the filter rejects or neither cluster may change
    (read-only, sensitive, set in the brokers' files), and what the target does not know.
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
