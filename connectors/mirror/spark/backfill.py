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
from connectors.mirror.spark.copy.shards import CopyFlow, copy_shards
from connectors.spark.errors import SparkJobFailed

__all__ = ["slots_of", "spark_engine"]


def slots_of(session: SparkSession) -> int:
    """Return the number of tasks that the session runs in parallel."""
    return int(session.sparkContext.defaultParallelism)


def spark_engine(session: SparkSession, flow: CopyFlow) -> PieceEngine:
    """Return an engine that copies on this session's executors."""

    def copy(piece: Chunk) -> PieceOutcome:
        try:
            results = list(
                copy_shards(
                    session,
                    flow,
                    [piece.ranges],
                    stall_s=STALL_S,
                    most_s=piece.seconds,
                    rate=piece.rate,
                    once=True,
                )
            )
        except SparkJobFailed as error:
            return PieceOutcome((), (), str(error), sure=False)
        if len(results) != 1:
            return PieceOutcome((), (), "its task returned no result", sure=False)
        (result,) = results
        return PieceOutcome(result.progress, result.copied, result.error, sure=not result.again)

    return copy
