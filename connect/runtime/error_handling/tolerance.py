"""Error handling for a record that a stage of its task cannot process (KIP-298): retry, skip, or
fail the task.

Transformations and converters run through `RecordErrors.run`, which decides by `errors.tolerance`
and `errors.retry.*` and tells the task's reporters (`connect.runtime.error_handling.reporters`).
What fails elsewhere, in the producer or in a sink's own hands, is told to `RecordErrors.failed`.
"""

from __future__ import annotations

import enum
import logging
import random
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Generic, ParamSpec, Protocol, TypeVar

from connect.clock import SYSTEM_CLOCK, Clock
from connect.config.connector import CONNECTOR_KEYS
from connect.config.definition import ConfigDef
from connect.data.record import ConnectRecord
from connect.data.transforms.chain import TransformChain
from connect.errors import ConnectError, TaskFailed
from connect.loop import is_retriable
from connect.runtime.error_handling.metrics import ErrorMetrics

__all__ = [
    "ErrorHandling",
    "ErrorReport",
    "ErrorReporter",
    "RecordErrors",
    "RecordSkipped",
    "RetriesInterrupted",
    "Stage",
    "retry_wait_s",
    "warn_of_error_handling",
]

_log = logging.getLogger(__name__)

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
Rec = TypeVar("Rec", bound=ConnectRecord)

# Kafka Connect's first wait; each further one is twice as long.
_FIRST_WAIT_S = 0.3
# Doubled as often as this the first wait is years long, whatever the longest one is.
_MOST_DOUBLINGS = 40

_CONFIG_DEF = ConfigDef([key for key in CONNECTOR_KEYS if key.name.startswith("errors.")])
# Key -> the values that ask for nothing that a transfer task would not do.
_UNASKED: Mapping[str, frozenset[str]] = {
    "errors.tolerance": frozenset({"", "none"}),
    "errors.retry.timeout": frozenset({"", "0"}),
    "errors.log.enable": frozenset({"", "false"}),
    "errors.deadletterqueue.topic.name": frozenset({""}),
}


class Stage(enum.Enum):
    """Where in its task a record was, by Kafka Connect's names."""

    TRANSFORMATION = "TRANSFORMATION"
    KEY_CONVERTER = "KEY_CONVERTER"
    VALUE_CONVERTER = "VALUE_CONVERTER"
    HEADER_CONVERTER = "HEADER_CONVERTER"
    KAFKA_PRODUCE = "KAFKA_PRODUCE"
    TASK_PUT = "TASK_PUT"


@dataclass(frozen=True, slots=True)
class ErrorHandling:
    """A connector's `errors.*`. `retry_timeout_s` is infinite where retries have no end."""

    tolerate: bool = False
    retry_timeout_s: float = 0.0
    retry_delay_max_s: float = 60.0
    log: bool = False
    log_records: bool = False

    @classmethod
    def from_config(cls, config: Mapping[str, str]) -> ErrorHandling:
        """Raises `ConfigError`."""
        parsed = _CONFIG_DEF.parse(config)
        timeout_ms = parsed.integer("errors.retry.timeout")
        return cls(
            tolerate=parsed.string("errors.tolerance") == "all",
            retry_timeout_s=timeout_ms / 1000 if timeout_ms >= 0 else float("inf"),
            retry_delay_max_s=parsed.integer("errors.retry.delay.max.ms") / 1000,
            log=parsed.boolean("errors.log.enable"),
            log_records=parsed.boolean("errors.log.include.messages"),
        )


def warn_of_error_handling(connector: str, config: Mapping[str, str]) -> None:
    """Warn about `errors.*` keys that have no effect on tasks that forward record batches."""
    for key, values in _UNASKED.items():
        if config.get(key, "").strip().lower() not in values:
            _log.warning(
                "%s has no effect on connector %s: its tasks forward record batches unchanged"
                " and fail if they cannot forward one",
                key,
                connector,
            )
            return


@dataclass(frozen=True, slots=True)
class ErrorReport(Generic[T]):
    """One failed record: what it was before anything was done to it, and what went wrong.

    `executing` is the Java name, where there is one, of the class that did not take it.
    """

    original: T
    stage: Stage
    executing: str
    error: Exception


class ErrorReporter(Protocol[T]):
    """Receives every failed record. Called from any thread of the task."""

    def report(self, report: ErrorReport[T]) -> Future[None] | None:
        """The future is done once the report is safe; None: it already is. Of a task's reporters
        at most one gives a future. Raises `ConnectError` when it cannot report at all, which fails
        the task."""


class RecordSkipped(Exception):
    """Raised out of `RecordErrors.run`: the record failed and was reported; go on with the next."""


class RetriesInterrupted(Exception):
    """Raised out of `RecordErrors.run`: the task is stopping while a record was being tried again.

    Nothing was decided about the record: it must come again when the task is started next. (Java
    counts it as skipped, and so loses it.)
    """


def retry_wait_s(
    attempt: int, most_s: float, remaining_s: float, spread: Callable[[float, float], float]
) -> float:
    """The wait after the `attempt`-th failed try, the first being 1.

    0.3 s, doubled each time; where that is above `most_s`, anything between 0 and `most_s`, which
    `spread(low, high)` chooses; and never longer than what remains until the last try.
    """
    wait: float = _FIRST_WAIT_S * 2 ** min(attempt - 1, _MOST_DOUBLINGS)
    if wait > most_s:
        wait = spread(0.0, most_s)
    return min(wait, remaining_s)


class RecordErrors(Generic[T]):
    """The error handling of one task; `T` is what its records are before anything is done to them.

    `run` and `transform` are for the task's thread, `failed` and `stop` for any.
    """

    def __init__(
        self,
        handling: ErrorHandling,
        metrics: ErrorMetrics,
        place: Callable[[T], str],
        *,
        clock: Clock = SYSTEM_CLOCK,
        spread: Callable[[float, float], float] = random.uniform,
        wait: Callable[[float], bool] | None = None,
    ) -> None:
        """`place` says in an error's text which record it was. `wait(seconds)` returns true once
        `stop` was called; tests have their own."""
        self.handling = handling
        self.metrics = metrics
        self._place = place
        self._clock = clock
        self._spread = spread
        self._stopping = threading.Event()
        self._wait = wait or self._stopping.wait
        self._reporters: tuple[ErrorReporter[T], ...] = ()

    def report_to(self, reporters: Sequence[ErrorReporter[T]]) -> None:
        """Who is told from now on, in this order. Called once, before the first record."""
        self._reporters = tuple(reporters)

    def stop(self) -> None:
        """Try nothing again any more. Called from any thread."""
        self._stopping.set()

    def run(
        self,
        original: T,
        stage: Stage,
        executing: str,
        operation: Callable[P, R],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> R:
        """What `operation(*args)` returns, at once or after some tries.

        Raises `RecordSkipped` when the record failed and that is tolerated, `TaskFailed` when it
        is not, and `RetriesInterrupted` when the task is stopping.
        """
        try:
            return operation(*args, **kwargs)
        except Exception as error:  # noqa: BLE001 - plugin code; judged and reported
            failure = error
        began = self._clock.monotonic()
        attempt = 1
        while is_retriable(failure):
            self.metrics.count("total-record-failures")
            remaining_s = began + self.handling.retry_timeout_s - self._clock.monotonic()
            if remaining_s <= 0:
                break
            longest_s = self.handling.retry_delay_max_s
            stopped = self._wait(retry_wait_s(attempt, longest_s, remaining_s, self._spread))
            self.metrics.count("total-retries")
            if stopped:
                raise RetriesInterrupted from failure
            attempt += 1
            try:
                return operation(*args, **kwargs)
            except Exception as error:  # noqa: BLE001 - plugin code; judged and reported
                failure = error
        self._give_up(ErrorReport(original, stage, executing, failure))
        raise RecordSkipped from failure

    def transform(self, original: T, chain: TransformChain, record: Rec) -> Rec | None:
        """The record after all transformations; None: one of them dropped it. Raises as `run`."""
        current: Rec | None = record
        for stage in chain:
            if current is None:
                break
            try:
                current = self.run(
                    original, Stage.TRANSFORMATION, stage.class_name, stage.apply, current
                )
            except TaskFailed as error:
                raise TaskFailed(f"transforms.{stage.alias}: {error}") from error.__cause__
        return current

    def failed(self, report: ErrorReport[T]) -> Future[None]:
        """Something else of the task failed for this record. Done once that is reported safely.

        Raises `TaskFailed` where errors are not tolerated; it was reported all the same.
        """
        self.metrics.count("total-record-failures")
        self.metrics.failed_now()
        reported = self._report(report)
        if not self.handling.tolerate:
            self.metrics.count("total-record-errors")
            raise self._not_tolerated(report) from report.error
        return reported

    def _give_up(self, report: ErrorReport[T]) -> None:
        self.metrics.count("total-record-failures")
        self.metrics.count("total-record-errors")
        self.metrics.failed_now()
        self._report(report)
        if not self.handling.tolerate:
            raise self._not_tolerated(report) from report.error
        self.metrics.count("total-records-skipped")

    def _not_tolerated(self, report: ErrorReport[T]) -> TaskFailed:
        return TaskFailed(
            f"Tolerance exceeded in error handler: stage {report.stage.value} with class"
            f" {report.executing} failed for {self._place(report.original)}: {_text(report.error)}"
        )

    def _report(self, report: ErrorReport[T]) -> Future[None]:
        told: Future[None] | None = None
        for reporter in self._reporters:
            told = reporter.report(report) or told
        if told is None:
            told = Future()
            told.set_result(None)
        return told


def _text(error: Exception) -> str:
    """Errors of ours are written to be read; of others the class is needed, too."""
    return str(error) if isinstance(error, ConnectError) else repr(error)
