"""Plans the ACL sync: who may read mirrored topics on the target, by MirrorMaker 2's rules.

Only ACL entries for a single topic by name are mirrored. Only the mirror may write to copies: an
entry that allows WRITE is left out, and one that allows ALL allows READ on the target. Entries that
deny are copied unchanged. Nothing is ever deleted. Source: KIP-382 and Kafka 4.3.1.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

__all__ = ["acl_plan"]

_ENTRY = ("topic", "pattern", "principal", "host", "operation", "permission")


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
