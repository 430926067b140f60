"""Group offset sync: which translated offsets to commit for groups on the target.

Only for groups without members there, and never backwards. Source: KIP-545 and Kafka 4.3.1, which
leaves groups that run to the brokers to refuse; here they are left out from the start.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

__all__ = ["group_writes"]


def group_writes(checkpoints: DataFrame, groups: DataFrame, offsets: DataFrame) -> DataFrame:
    """CHECKPOINTS (with the target's topics), TARGET_GROUPS, TARGET_OFFSETS -> GROUP_WRITES.

    A group that does not exist on the target, or is dead there, gets all its checkpoints; an empty
    one those for partitions where it has no offset, or an earlier one. The caller leaves out
    checkpoints of empty groups whose offsets could not be read.
    """
    # A dead group's offsets are gone with it.
    kept = offsets.join(groups.where("state = 'EMPTY'"), "group", "left_semi")
    has = kept.select("group", "topic", "partition", F.col("offset").alias("committed"))
    return (
        checkpoints.join(groups, "group", "left")
        .where("state is null or state in ('EMPTY', 'DEAD')")
        .join(has, ["group", "topic", "partition"], "left")
        .where("committed is null or committed < downstream")
        .select("group", "topic", "partition", F.col("downstream").alias("offset"), "metadata")
    )
