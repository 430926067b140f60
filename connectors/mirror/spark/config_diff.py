"""Plans the config sync: the changes that give topics on the target their sources' configs.

The result is the same as in MirrorMaker 2, which sends every config of every topic each time. Here
only differences are sent. Source: KIP-382 and Kafka 4.3.1.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

__all__ = ["config_changes"]


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
