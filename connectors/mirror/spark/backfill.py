"""Pieces of a backfill as Spark jobs: each is one task of the batch copier on some executor.

Each piece is a job of its own, so that what it copied is known, and written down, as soon as it
ends, and pieces of other partitions do not wait for it. Spark must not run a task twice: the first
run may still be writing. So a task that is not its first run copies nothing and says so, and what
the first one copied is looked for on the target.
"""

from __future__ import annotations

from pyspark.sql import SparkSession

from connectors.mirror.backfill.engines import STALL_S, PieceEngine, PieceOutcome
from connectors.mirror.backfill.scheduler import Chunk
from connectors.mirror.spark.copy.shards import CopyFlow, copy_shards
from connectors.spark.errors import SparkJobFailed

__all__ = ["slots_of", "spark_engine"]


def slots_of(session: SparkSession) -> int:
    """Return how many tasks the session runs in parallel."""
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
