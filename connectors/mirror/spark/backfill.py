"""Copies pieces of a backfill as Spark jobs: each is one task of the batch copier on some executor.

Each piece is its own job, so that its result is known and stored as soon as it ends, without
waiting for pieces of other partitions. A task that Spark runs again must not copy, because the
first run may still be writing. So it only reports that it is not the first run, and the target is
searched for the records that the first run copied.

A Spark Connect server outlives the connection to it, and may run a job that this process waits for
no more. So its tasks begin soon or not at all, and a piece without a result counts as being copied
until the last moment at which it may be. Its properties are its own: a task may be run again, also
beside the first run (`spark.speculation`).
"""

from __future__ import annotations

from pyspark.sql import SparkSession

from connect.clock import SYSTEM_CLOCK, Clock
from connectors.mirror.backfill.engines import STALL_S, PieceEngine, PieceOutcome
from connectors.mirror.backfill.job import DRAIN_S
from connectors.mirror.backfill.scheduler import Chunk
from connectors.mirror.spark.copy.executor import ShardLimits
from connectors.mirror.spark.copy.shards import CopyFlow, copy_shard
from connectors.spark.drivers.job_groups import describe_jobs
from connectors.spark.drivers.python_tasks import prepare_tasks
from connectors.spark.drivers.session_kind import is_remote
from connectors.spark.errors import SparkJobFailed, job_errors

__all__ = ["remote_limits", "spark_engine"]

_BEGIN_S = 30.0
"""With Spark Connect, how long a piece may wait for its task."""
_SKEW_S = 10.0
"""By how much the clocks of the server's machines and of this one may differ."""
_LATE_S = _BEGIN_S + _SKEW_S


def spark_engine(session: SparkSession, flow: CopyFlow, clock: Clock = SYSTEM_CLOCK) -> PieceEngine:
    """Return an engine that copies on this session's executors. Raises `SparkJobFailed`, and as
    `prepare_tasks`."""
    remote = is_remote(session)
    late_s = _LATE_S if remote else 0.0
    with job_errors("The backfill"):
        prepare_tasks(session)
        speculates = remote and session.conf.get("spark.speculation", "false") == "true"

    def copy(piece: Chunk) -> PieceOutcome:
        offsets = sum(each.end - each.start for each in piece.ranges)
        what = f"piece {piece.number}: {len(piece.ranges)} partitions, {offsets:,} offsets"
        limits = ShardLimits(STALL_S, piece.seconds, once=True)
        if remote:
            limits = remote_limits(limits, clock.now_ms() / 1000, speculates=speculates)
        try:
            with job_errors("The backfill"):
                describe_jobs(session, f"Backfill, {what}")
            result = copy_shard(session, flow, piece.ranges, limits, pace=piece.pace)
        except SparkJobFailed as error:
            return PieceOutcome((), (), str(error), sure=False, late_s=late_s)
        return PieceOutcome(
            tuple(result.progress),
            tuple(result.copied),
            result.error,
            sure=not result.again,
            late_s=late_s,
        )

    return copy


def remote_limits(limits: ShardLimits, now: float, *, speculates: bool) -> ShardLimits:
    """Return the limits of a piece that goes out to a Spark Connect server at the time `now`.
    `speculates`: it may run a task a second time beside the first run, which is to win."""
    again_s = limits.most_s + DRAIN_S if speculates else 0.0
    return limits._replace(again_s=again_s, not_after=now + _BEGIN_S)
