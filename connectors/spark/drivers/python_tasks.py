"""Python functions in Spark tasks, which need neither PyArrow nor pandas there.

A function travels inside the job: no plan, log, event log or page of Spark's UI shows what it
holds. Its code and packages are sent by a session's start (`connectors.spark.shipping`), or, with
Spark Connect, before the session's first function: its periodic jobs need none.
"""

from __future__ import annotations

import tempfile
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyspark  # noqa: F401 - before its parts
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StringType

from connect.cache_directory import cache_directory
from connectors.spark import arrow, rdd
from connectors.spark.drivers.remote import SESSION_PYTHON
from connectors.spark.drivers.session_kind import is_remote
from connectors.spark.packages import cached_environment, pack_code
from connectors.spark.properties import ENVIRONMENT

__all__ = ["prepare_tasks", "run_task", "task_function"]

_shipping = threading.Lock()
_shipped: weakref.WeakSet[Any] = weakref.WeakSet()


def task_function(
    session: SparkSession, work: Callable[..., Any], returns: DataType
) -> Callable[..., Any]:
    """Return a function of columns that Spark runs once for each row: `work` acts, or reads what
    may change. Raises as `prepare_tasks`."""
    prepare_tasks(session)
    return F.udf(work, returns, useArrow=False).asNondeterministic()


def run_task(session: SparkSession, work: Callable[[int], str]) -> list[str]:
    """Run `work(0)` in one task, and return what the task returned: one text, unless Spark lost it.
    Raises Spark's errors.

    Where there are RDDs it is one, because a session plans and compiles for seconds before its
    first query, and for a tenth of a second before each one.
    """
    if not is_remote(session):
        return rdd.collect(session.sparkContext.parallelize([0], 1).map(work))
    task = task_function(session, work, StringType())
    result = session.range(0, 1, 1, 1).select(task(F.col("id").cast("int")).alias("result"))
    return list(arrow.collect(result)["result"].to_pylist())


def prepare_tasks(session: Any) -> None:
    """With Spark Connect, send this program's code to the server, once for each session; and its
    packages, unless the session has a Python that has them. Raises Spark's errors, `OSError`, and
    `ConfigError` if a package is missing here."""
    with _shipping:
        if not is_remote(session) or session in _shipped:
            return
        with tempfile.TemporaryDirectory(prefix="spark-code-") as directory:
            session.addArtifacts(str(pack_code(Path(directory))), pyfile=True)
        if not session.conf.get(SESSION_PYTHON, ""):
            archive = cached_environment(cache_directory())
            session.addArtifacts(f"{archive}#{ENVIRONMENT}", archive=True)
            session.conf.set(SESSION_PYTHON, f"./{ENVIRONMENT}/bin/python")
        _shipped.add(session)
