"""How many tasks a session runs at a time, and how many to give it so that it grows."""

from __future__ import annotations

from typing import NamedTuple

import pyspark  # noqa: F401 - before its parts
from pyspark.sql import SparkSession

from connectors.spark.errors import job_errors

__all__ = ["Slots", "slots_of"]

_DYNAMIC = "spark.dynamicAllocation.enabled"
_MOST_EXECUTORS = "spark.dynamicAllocation.maxExecutors"
_EXECUTOR_CORES, _TASK_CPUS = "spark.executor.cores", "spark.task.cpus"


class Slots(NamedTuple):
    """`running`: tasks that run at a time, on the executors of this moment. `most`: more of them
    are of no use; with dynamic allocation the rest waits in Spark, which adds executors for it."""

    running: int
    most: int


def slots_of(session: SparkSession) -> Slots:
    """Return the slots of this moment: executors come and go. Raises `SparkJobFailed`."""
    with job_errors("Counting the executors"):
        return _slots(session)


def _slots(session: SparkSession) -> Slots:
    context = session.sparkContext
    scala = context._jsc.sc()
    # Not `defaultParallelism`: it is at least 2, and a property may set it to anything.
    profile = scala.resourceProfileManager().defaultResourceProfile()
    running = max(1, int(scala.maxNumConcurrentTasks(profile)))
    conf = scala.getConf()
    if conf.get(_DYNAMIC, "false") != "true":
        return Slots(running, running)
    # Spark adds executors once tasks have waited for a second without a break. More than one
    # waits, so that some are left when one of them starts.
    most = running + 1 + -(-running // 4)
    if conf.contains(_MOST_EXECUTORS) and conf.contains(_EXECUTOR_CORES):
        of_one = int(conf.get(_EXECUTOR_CORES)) // int(conf.get(_TASK_CPUS, "1"))
        most = min(most, max(running, int(conf.get(_MOST_EXECUTORS)) * of_one))
    return Slots(running, most)
