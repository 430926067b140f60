"""Plans the group offset sync: which translated offsets to commit for groups on the target.

Only for groups without members there, and never backwards. Source: KIP-545 and Kafka 4.3.1, where
brokers reject commits for running groups; here those groups are left out beforehand.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from connect.clients.groups.consumer_groups import Committed, GroupListing
from connect.protocol.messages import TopicPartition
from connectors.mirror.checkpoints.group_offset_sync import Checkpoints, GroupPlan
from connectors.mirror.spark.tables import CHECKPOINTS, TARGET_GROUPS, TARGET_OFFSETS, table_frame
from connectors.spark.arrow import collect

__all__ = ["group_writes", "plan_on_spark"]


def group_writes(checkpoints: DataFrame, groups: DataFrame, offsets: DataFrame) -> DataFrame:
    """Compute the offsets to commit on the target (`group`, `topic`, `partition`, `offset`,
    `metadata`) from CHECKPOINTS (with the target's topics), TARGET_GROUPS and TARGET_OFFSETS.

    A group that does not exist on the target, or is dead there, gets all its checkpoints. An empty
    group gets those for partitions where it has no offset or an earlier one. The caller leaves out
    checkpoints of empty groups whose offsets could not be read.
    """
    # A dead group has no offsets any more.
    kept = offsets.join(groups.where("state = 'EMPTY'"), "group", "left_semi")
    has = kept.select("group", "topic", "partition", F.col("offset").alias("committed"))
    return (
        checkpoints.join(groups, "group", "left")
        .where("state is null or state in ('EMPTY', 'DEAD')")
        .join(has, ["group", "topic", "partition"], "left")
        .where("committed is null or committed < downstream")
        .select("group", "topic", "partition", F.col("downstream").alias("offset"), "metadata")
    )


def plan_on_spark(
    session: SparkSession,
    checkpoints: Checkpoints,
    states: Mapping[str, GroupListing],
    committed: Mapping[str, Mapping[TopicPartition, Committed]],
) -> GroupPlan:
    """Plan like `group_offset_sync.plan_group_offsets`, for all groups at once. Raises Spark's
    errors."""
    unread = {group for group in checkpoints if group in states and states[group].empty}
    unread -= committed.keys()
    rows = [
        (group, *key, each.upstream_offset, each.downstream_offset, each.metadata, True, 0, 0)
        for group, of_group in checkpoints.items()
        if group not in unread
        for key, each in of_group.items()
    ]
    listed = [(group, states[group].state) for group in checkpoints if group in states]
    offsets = [
        (group, *key, each.offset)
        for group, of_group in committed.items()
        for key, each in of_group.items()
    ]
    found = collect(
        group_writes(
            table_frame(session, CHECKPOINTS, rows),
            table_frame(session, TARGET_GROUPS, listed),
            table_frame(session, TARGET_OFFSETS, offsets),
        )
    )
    names = ("group", "topic", "partition", "offset", "metadata")
    plan: dict[str, dict[TopicPartition, Committed]] = defaultdict(dict)
    for group, topic, partition, offset, metadata in zip(
        *(found[name].to_pylist() for name in names), strict=True
    ):
        plan[group][topic, partition] = Committed(offset, metadata)
    return dict(plan)
