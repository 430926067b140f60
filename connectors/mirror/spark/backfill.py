"""Copies pieces of a backfill as Spark jobs: each is one task of the batch copier on some executor.

Each piece is its own job, so that its result is known and stored as soon as it ends, without
waiting for pieces of other partitions. A task that Spark runs again must not copy, because the
first run may still be writing. So it only reports that it is not the first run, and the target is
searched for the records that the first run copied.
"""

from __future__ import annotations

from pyspark.sql import SparkSession

from connectors.mirror.backfill.engines import STALL_S, PieceEngine, PieceOutcome
from connectors.mirror.backfill.scheduler import Chunk
from connectors.mirror.spark.copy.executor import ShardLimits
from connectors.mirror.spark.copy.shards import CopyFlow, copy_shard
from connectors.spark.errors import SparkJobFailed, job_errors

__all__ = ["spark_engine"]


def spark_engine(session: SparkSession, flow: CopyFlow) -> PieceEngine:
    """Return an engine that copies on this session's executors."""

    def copy(piece: Chunk) -> PieceOutcome:
        offsets = sum(each.end - each.start for each in piece.ranges)
        what = f"piece {piece.number}: {len(piece.ranges)} partitions, {offsets:,} offsets"
        limits = ShardLimits(STALL_S, piece.seconds, once=True)
        try:
            with job_errors("The backfill"):
                session.sparkContext.setJobDescription(f"Backfill, {what}")
            result = copy_shard(session, flow, piece.ranges, limits, pace=piece.pace)
        except SparkJobFailed as error:
            return PieceOutcome((), (), str(error), sure=False)
        return PieceOutcome(
            tuple(result.progress), tuple(result.copied), result.error, sure=not result.again
        )

    return copy
