"""What goes wrong between us and Spark.

    ConnectError
    └── RetriableError
        ├── SparkUnavailable    there is no session: no Java, no master, no connector, or lost
        └── SparkJobFailed      a job of a running session failed

Both can pass: a master comes back, a download succeeds later.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from connect.errors import RetriableError

__all__ = ["SparkJobFailed", "SparkUnavailable", "first_line", "job_errors"]

_LONGEST = 400


class SparkUnavailable(RetriableError):
    """There is no Spark session to run on."""

    http_status = 503


class SparkJobFailed(RetriableError):
    """A Spark job failed; the message is the first line of Spark's reason."""


def first_line(error: BaseException) -> str:
    """The reason in one line: of a Java exception its message, not the stack of the gateway."""
    java = getattr(error, "java_exception", None)
    text = str(java.toString()) if java is not None else str(error)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return (lines[0] if lines else type(error).__name__)[:_LONGEST]


@contextmanager
def job_errors(what: str) -> Iterator[None]:
    """Raise `SparkJobFailed` for what Spark and its gateway raise."""
    try:
        yield
    except (PySparkException, Py4JError) as error:
        raise SparkJobFailed(f"{what} failed in Spark: {first_line(error)}") from error
    except (ConnectionError, EOFError) as error:
        raise SparkJobFailed(f"{what} failed: Spark's process is gone") from error
