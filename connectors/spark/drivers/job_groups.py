"""Groups of jobs, to cancel what one thread began: a job group, or with Spark Connect a tag.

A group of jobs has a name of its own, and belongs to the thread that names it.
"""

from __future__ import annotations

import logging
import threading
from typing import Any

import pyspark  # noqa: F401 - before its parts
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from connectors.spark.drivers.session_kind import is_remote
from connectors.spark.errors import first_line

__all__ = ["begin_jobs", "cancel_jobs", "describe_jobs"]

_LOG = logging.getLogger(__name__)


def begin_jobs(session: SparkSession, group: str, description: str) -> None:
    """Put the calling thread's jobs in this group from now on. Raises Spark's errors."""
    if is_remote(session):
        session.clearTags()
        session.addTag(_tag(group))
    else:
        session.sparkContext.setJobGroup(group, description, interruptOnCancel=True)


def describe_jobs(session: SparkSession, description: str) -> None:
    """Show this text for the calling thread's jobs in Spark's UI. With Spark Connect the UI shows
    their plans instead. Raises Spark's errors."""
    if not is_remote(session):
        session.sparkContext.setJobDescription(description)


def cancel_jobs(session: SparkSession, group: str, *, for_good: bool) -> None:
    """Cancel the jobs of this group; with `for_good`, those that begin later too, except with Spark
    Connect, where it only asks for it. Raises Spark's errors."""
    if is_remote(session):
        # The server may be away, and whoever stops a job must not wait for it.
        asking = threading.Thread(target=_interrupt, args=(session, group), daemon=True)
        asking.start()
        return
    context: Any = session.sparkContext._jsc.sc()
    if for_good:
        context.cancelJobGroupAndFutureJobs(group)
    else:
        context.cancelJobGroup(group)


def _interrupt(session: Any, group: str) -> None:
    try:
        session.interruptTag(_tag(group))
    except (PySparkException, OSError, ValueError) as error:
        _LOG.debug("%s could not be cancelled: %s", group, first_line(error))


def _tag(group: str) -> str:
    """A tag must not contain commas."""
    return group.replace(",", " ")
