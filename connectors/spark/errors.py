"""Errors of Spark sessions and jobs.

    ConnectError
    └── RetriableError
        ├── SparkUnavailable    there is no session: no Java, master or connector, or it was lost
        └── SparkJobFailed      a job of a running session failed

Both may be temporary: a master may come back, and a download may succeed later.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from connect.errors import RetriableError

__all__ = ["SparkJobFailed", "SparkUnavailable", "first_line", "job_errors", "reason_in"]

_LONGEST = 400
_WRAPPED = "Exception thrown in awaitResult"
_DEEPEST = 8
_RPC = re.compile(r"RPC that terminated with:\s+status = (\S+)\s+details = \"(.*)\"")
_TRACEBACK = "Traceback (most recent call last):"


class SparkUnavailable(RetriableError):
    """There is no Spark session to run on."""

    http_status = 503


class SparkJobFailed(RetriableError):
    """A Spark job failed. The message is the first line of Spark's reason."""


def first_line(error: BaseException) -> str:
    """Return the reason in one line.

    For a Java exception, this is its message without the gateway's stack trace. For Python code
    that failed on an executor, it is Spark's message and then the Python exception.
    """
    java = getattr(error, "java_exception", None)
    return reason_in(_java_text(java) if java is not None else str(error), type(error).__name__)


def reason_in(text: str, otherwise: str) -> str:
    """Return the first line of `text`. If a Python traceback starts there, add its last line.
    `otherwise`: the result for an empty text."""
    text = _rpc_details(text)
    lines = text.splitlines()
    first = next((number for number, line in enumerate(lines) if line.strip()), None)
    if first is None:
        return otherwise
    line = lines[first].strip()
    if line.endswith(_TRACEBACK):
        raised = (each for each in lines[first + 1 :] if each[:1].strip())
        line = f"{line.removesuffix(_TRACEBACK)}{next(raised, '').strip()}"
    return line[:_LONGEST]


def _rpc_details(text: str) -> str:
    """Return what a failed request to a Spark Connect server says of its reason."""
    found = _RPC.search(text)
    return text if found is None else f"{found[1]}: {found[2]}"


def _java_text(java: Any) -> str:
    """Return the message of a Java exception. If it only says that a wait failed, use its cause."""
    for _ in range(_DEEPEST):
        cause = java.getCause()
        if cause is None or _WRAPPED not in str(java.getMessage()):
            break
        java = cause
    return str(java.toString())


@contextmanager
def job_errors(what: str) -> Iterator[None]:
    """Turn exceptions of Spark and its gateway into `SparkJobFailed`."""
    # Imported here: PySpark takes memory that a process without a session need not spend.
    import pyspark  # noqa: F401 - before its parts
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JError) as error:
        raise SparkJobFailed(f"{what} failed in Spark: {first_line(error)}") from error
    except ValueError as error:
        if "closed channel" not in str(error):
            raise
        raise SparkJobFailed(f"{what} failed: its session of Spark Connect has ended") from error
    except (ConnectionError, EOFError) as error:
        raise SparkJobFailed(f"{what} failed: the Spark driver's JVM has ended") from error
