"""How many tasks a session runs at a time, and how many to give it so that it grows."""

from __future__ import annotations

import re
import threading
import weakref
from typing import Any, NamedTuple

import pyspark  # noqa: F401 - before its parts
from pyspark.sql import SparkSession

from connect.clock import Deadline
from connectors.spark.drivers.session_kind import is_remote
from connectors.spark.errors import job_errors

__all__ = ["Slots", "slots_of"]

_DYNAMIC = "spark.dynamicAllocation.enabled"
_MOST_EXECUTORS = "spark.dynamicAllocation.maxExecutors"
_EXECUTOR_CORES, _TASK_CPUS = "spark.executor.cores", "spark.task.cpus"
_REMOTE_S = 10.0
_lock = threading.Lock()
_known: weakref.WeakKeyDictionary[Any, tuple[Slots, Deadline]] = weakref.WeakKeyDictionary()
_SPLITS = re.compile(r"splits=(\d+)")


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
    if is_remote(session):
        return _known_remote_slots(session)
    context = session.sparkContext
    scala = context._jsc.sc()
    # Not `defaultParallelism`: it is at least 2, and a property may set it to anything.
    profile = scala.resourceProfileManager().defaultResourceProfile()
    running = max(1, int(scala.maxNumConcurrentTasks(profile)))
    conf = scala.getConf()
    if conf.get(_DYNAMIC, "false") != "true":
        return Slots(running, running)
    of_all = None
    if conf.contains(_MOST_EXECUTORS) and conf.contains(_EXECUTOR_CORES):
        of_one = int(conf.get(_EXECUTOR_CORES)) // int(conf.get(_TASK_CPUS, "1"))
        of_all = int(conf.get(_MOST_EXECUTORS)) * of_one
    return _growing(running, of_all)


def _known_remote_slots(session: SparkSession) -> Slots:
    """As `_remote_slots`, but asks only now and then: each time is a job in the server's UI."""
    with _lock:
        slots, until = _known.get(session, (None, None))
        if slots is None or until is None or until.expired():
            slots = _remote_slots(session)
            _known[session] = slots, Deadline(_REMOTE_S)
        return slots


def _remote_slots(session: SparkSession) -> Slots:
    """A server tells only in how many partitions it reads: as many as its executors have cores, and
    at least 2 on a cluster, or `spark.default.parallelism`."""
    rows = session.sql("EXPLAIN SELECT * FROM range(1)").collect()
    found = _SPLITS.search(str(rows[0][0]))
    cores = 1 if found is None else int(found[1])
    conf = session.conf
    running = max(1, cores // int(conf.get(_TASK_CPUS, "1") or 1))
    if conf.get(_DYNAMIC, "false") != "true":
        return Slots(running, running)
    return _growing(running, None)


def _growing(running: int, of_all: int | None) -> Slots:
    # Spark adds executors once tasks have waited for a second without a break. More than one
    # waits, so that some are left when one of them starts.
    most = running + 1 + -(-running // 4)
    return Slots(running, most if of_all is None else min(most, max(running, of_all)))
