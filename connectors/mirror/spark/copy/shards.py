"""Copies a shard of partitions on an executor: the batch copier as a Spark job of one task.

The job returns the ledger: the target offsets of each copied range, and the progress of each
partition. Records go from cluster to cluster through the Python process of the task, never through
the JVM.

`executor.py` is the part that runs on executors. The flow's client properties are sent inside the
job's function, like the options of Spark's own Kafka source: no plan, description or log shows
them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import pyspark  # noqa: F401 - before its parts
from pyspark.sql import SparkSession

from connectors.mirror.config.rates import FlowLimits
from connectors.mirror.copy.range_copier import SourceRange
from connectors.mirror.copy.transactions.executor_ids import ClaimedProducer
from connectors.mirror.spark.copy.executor import CopyFlow, ShardLimits, ShardResult, shard_copier
from connectors.spark.drivers.python_tasks import run_task
from connectors.spark.errors import SparkJobFailed, job_errors

__all__ = ["CopyFlow", "ShardLimits", "ShardResult", "copy_shard", "shard_result"]

_NO_NAMES: Mapping[str, str] = MappingProxyType({})


def copy_shard(
    session: SparkSession,
    flow: CopyFlow,
    shard: Sequence[SourceRange],
    limits: ShardLimits,
    claim: ClaimedProducer | None = None,
    pace: FlowLimits | None = None,
    names: Mapping[str, str] = _NO_NAMES,
) -> ShardResult:
    """Copy this shard and return its result.

    `claim`: the lane, for a flow that writes exactly once; valid for this call only; requires
    `limits.once`. `pace`: the shard's share of the flow's limits. `names`: as `shard_copier`.
    Raises `SparkJobFailed` if the job cannot run. To end it early, cancel the thread's job group.
    """
    with job_errors("The copy"):
        results = run_task(session, shard_copier(flow, shard, limits, claim, pace, names))
    return shard_result(results)


def shard_result(results: Sequence[str]) -> ShardResult:
    """Return the result of a job of one shard from the texts that its tasks returned. Raises
    `SparkJobFailed` if there is none."""
    if not results:
        raise SparkJobFailed("The copy failed in Spark: its task returned no result")
    return ShardResult.of_json(results[0])
