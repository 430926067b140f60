"""Logs failed records (KIP-298), and makes the error handling of source records."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Generic, TypeVar

from connect.clock import Clock
from connect.data.record import SourceRecord
from connect.runtime.error_handling.metrics import ErrorMetrics
from connect.runtime.error_handling.tolerance import ErrorHandling, ErrorReport, RecordErrors

__all__ = ["LogReporter", "describe_source", "source_errors"]

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


def source_errors(
    task: str, config: Mapping[str, str], clock: Clock, most_retry_s: float = math.inf
) -> RecordErrors[SourceRecord]:
    """Return the error handling of a source task's records, as its connector's config says. `task`:
    its name in the log. `most_retry_s`: a limit of `errors.retry.timeout`. Raises `ConfigError`."""
    handling = ErrorHandling.from_config(config)
    handling = replace(handling, retry_timeout_s=min(handling.retry_timeout_s, most_retry_s))
    metrics = ErrorMetrics(clock)
    errors: RecordErrors[SourceRecord] = RecordErrors(
        handling, metrics, lambda record: f"a record for topic {record.topic}", clock=clock
    )
    if handling.log:
        describe = describe_source if handling.log_records else None
        errors.report_to([LogReporter(task, metrics, describe)])
    return errors
