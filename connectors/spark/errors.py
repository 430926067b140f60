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
from typing import Any

from connect.errors import RetriableError

__all__ = ["SparkJobFailed", "SparkUnavailable", "first_line", "job_errors", "reason_in"]

_LONGEST = 400
_WRAPPED = "Exception thrown in awaitResult"
_DEEPEST = 8
_TRACEBACK = "Traceback (most recent call last):"


class SparkUnavailable(RetriableError):
    """There is no Spark session to run on."""

    http_status = 503


class SparkJobFailed(RetriableError):
    """A Spark job failed; the message is the first line of Spark's reason."""


def first_line(error: BaseException) -> str:
    """The reason in one line: of a Java exception its message, not the stack of the gateway; of
    Python code that failed on an executor what it raised, after what Spark says of it."""
    java = getattr(error, "java_exception", None)
    return reason_in(_java_text(java) if java is not None else str(error), type(error).__name__)


def reason_in(text: str, otherwise: str) -> str:
    """The first line of `text`; where a traceback of Python begins there, its last line too."""
    lines = text.splitlines()
    first = next((number for number, line in enumerate(lines) if line.strip()), None)
    if first is None:
        return otherwise
    line = lines[first].strip()
    if line.endswith(_TRACEBACK):
        raised = (each for each in lines[first + 1 :] if each[:1].strip())
        line = f"{line.removesuffix(_TRACEBACK)}{next(raised, '').strip()}"
    return line[:_LONGEST]


def _java_text(java: Any) -> str:
    """What an exception of Java's says; of one that only says that a wait failed, its cause."""
    for _ in range(_DEEPEST):
        cause = java.getCause()
        if cause is None or _WRAPPED not in str(java.getMessage()):
            break
        java = cause
    return str(java.toString())


@contextmanager
def job_errors(what: str) -> Iterator[None]:
    """Raise `SparkJobFailed` for what Spark and its gateway raise."""
    # Imported here: PySpark takes memory that a process without a session need not spend.
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JError) as error:
        raise SparkJobFailed(f"{what} failed in Spark: {first_line(error)}") from error
    except (ConnectionError, EOFError) as error:
        raise SparkJobFailed(f"{what} failed: Spark's process is gone") from error
