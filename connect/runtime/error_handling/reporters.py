"""Logs failed records (KIP-298)."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Generic, TypeVar

from connect.data.record import SourceRecord
from connect.runtime.error_handling.metrics import ErrorMetrics
from connect.runtime.error_handling.tolerance import ErrorReport

__all__ = ["LogReporter", "describe_source"]

_log = logging.getLogger(__name__)

T = TypeVar("T")


class LogReporter(Generic[T]):
    """Logs a line for each failed record, with the error's trace. Thread-safe.

    The record itself is included only if the connector's config allows it.
    """

    def __init__(
        self, task: str, metrics: ErrorMetrics, describe: Callable[[T], str] | None
    ) -> None:
        self._task = task
        self._metrics = metrics
        self._describe = describe

    def report(self, report: ErrorReport[T]) -> None:
        _log.error("%s", self.line(report), exc_info=report.error)
        self._metrics.count("total-errors-logged")

    def line(self, report: ErrorReport[T]) -> str:
        """Return the log line with Kafka Connect's text, which log filters match."""
        described = "" if self._describe is None else self._describe(report.original)
        return (
            f"Error encountered in task {self._task}. Executing stage '{report.stage.value}' with"
            f" class '{report.executing}'{described}."
        )


def describe_source(record: SourceRecord) -> str:
    """Return the description of a source record for `LogReporter`."""
    return f", where source record is = {record}"
