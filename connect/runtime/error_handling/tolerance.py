"""Error handling for a record that a stage of its task cannot process (KIP-298): retry, skip or
fail.

Transformations and converters run through `RecordErrors.run`, which applies `errors.tolerance` and
`errors.retry.*`, and passes failed records to the task's reporters
(`connect.runtime.error_handling.reporters`). Failures elsewhere, for example in the producer or in
a sink task, are passed to `RecordErrors.failed`.
"""

from __future__ import annotations

import enum
import logging
import random
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from typing import Generic, ParamSpec, Protocol, TypeVar

from connect.clock import SYSTEM_CLOCK, Clock
from connect.config.connector import CONNECTOR_KEYS
from connect.config.definition import ConfigDef
from connect.data.record import ConnectRecord
from connect.data.transforms.chain import TransformChain, TransformStage
from connect.errors import ConnectError, TaskFailed
from connect.futures import done_future
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

# Kafka Connect's initial wait, doubled with each retry.
_FIRST_WAIT_S = 0.3
# Limit of the exponent: after so many doublings the wait is years long.
_MOST_DOUBLINGS = 40

_CONFIG_DEF = ConfigDef([key for key in CONNECTOR_KEYS if key.name.startswith("errors.")])
# Key -> values that match the behaviour of transfer tasks, so that no warning is due.
_UNASKED: Mapping[str, frozenset[str]] = {
    "errors.tolerance": frozenset({"", "none"}),
    "errors.retry.timeout": frozenset({"", "0"}),
    "errors.log.enable": frozenset({"", "false"}),
    "errors.deadletterqueue.topic.name": frozenset({""}),
}


class Stage(enum.Enum):
    """The stage of a task that failed, with Kafka Connect's names."""

    TRANSFORMATION = "TRANSFORMATION"
    KEY_CONVERTER = "KEY_CONVERTER"
    VALUE_CONVERTER = "VALUE_CONVERTER"
    HEADER_CONVERTER = "HEADER_CONVERTER"
    KAFKA_PRODUCE = "KAFKA_PRODUCE"
    TASK_PUT = "TASK_PUT"


@dataclass(frozen=True, slots=True)
class ErrorHandling:
    """A connector's `errors.*` settings. `retry_timeout_s` is infinite for unlimited retries."""

    tolerate: bool = False
    retry_timeout_s: float = 0.0
    retry_delay_max_s: float = 60.0
    log: bool = False
    log_records: bool = False

    @classmethod
    def from_config(cls, config: Mapping[str, str]) -> ErrorHandling:
        """Parse a connector's config. Raises `ConfigError`."""
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
    """A failed record in its original form, and its error.

    `executing` is the Java name, if there is one, of the class that failed.
    """

    original: T
    stage: Stage
    executing: str
    error: Exception


class ErrorReporter(Protocol[T]):
    """Receives every failed record, on any thread of the task."""

    def report(self, report: ErrorReport[T]) -> Future[None] | None:
        """Report a failed record.

        Returns a future that completes when the report is durable, or None if it already is. At
        most one of a task's reporters returns a future. Raises `ConnectError` if the report is
        impossible, which fails the task.
        """


class RecordSkipped(Exception):
    """Raised by `RecordErrors.run`: the record failed and was reported; continue with the next
    one.
    """


class RetriesInterrupted(Exception):
    """Raised by `RecordErrors.run`: the task is stopping while a record was being retried.

    The record was not handled and must be read again after the next start. Java counts it as
    skipped, and so loses it.
    """


def retry_wait_s(
    attempt: int, most_s: float, remaining_s: float, spread: Callable[[float, float], float]
) -> float:
    """Return the wait after the `attempt`-th failure, counted from 1.

    It is 0.3 s, doubled each time. Above `most_s` it is a random value between 0 and `most_s`,
    chosen by `spread(low, high)`. It never exceeds the time that remains for retries.
    """
    wait: float = _FIRST_WAIT_S * 2 ** min(attempt - 1, _MOST_DOUBLINGS)
    if wait > most_s:
        wait = spread(0.0, most_s)
    return min(wait, remaining_s)


class RecordErrors(Generic[T]):
    """The error handling of one task; `T` is the type of its original records.

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
        """Create the error handling.

        `place` describes a record in error texts. `wait(seconds)` returns true after `stop`; tests
        pass their own.
        """
        self.handling = handling
        self.metrics = metrics
        self._place = place
        self._clock = clock
        self._spread = spread
        self._stopping = threading.Event()
        self._wait = wait or self._stopping.wait
        self._reporters: tuple[ErrorReporter[T], ...] = ()

    def report_to(self, reporters: Sequence[ErrorReporter[T]]) -> None:
        """Set the reporters, in this order. Called once, before the first record."""
        self._reporters = tuple(reporters)

    def stop(self) -> None:
        """Stop all retries. Called from any thread."""
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
        """Return the result of `operation(*args)`, with retries.

        Raises `RecordSkipped` if the record failed and that is tolerated, `TaskFailed` if not, and
        `RetriesInterrupted` if the task is stopping.
        """
        try:
            return operation(*args, **kwargs)
        except Exception as error:  # noqa: BLE001 - plugin code; judged and reported
            failure = error
        again = partial(operation, *args, **kwargs)
        return self._again(failure, original, stage, executing, again)

    def _again(
        self,
        failure: Exception,
        original: T,
        stage: Stage,
        executing: str,
        operation: Callable[[], R],
    ) -> R:
        """Return the result of an operation that failed once. Raises as `run`."""
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
                return operation()
            except Exception as error:  # noqa: BLE001 - plugin code; judged and reported
                failure = error
        self._give_up(ErrorReport(original, stage, executing, failure))
        raise RecordSkipped from failure

    def transform(self, original: T, chain: TransformChain, record: Rec) -> Rec | None:
        """Return the record after all transformations, or None if one dropped it. Raises as
        `run`.
        """
        current = record
        for apply, stage in chain.steps:
            try:
                made = apply(current)
            except Exception as error:  # noqa: BLE001 - plugin code; judged and reported
                made = self._transform_again(error, original, stage, current)
            if made is None:
                return None
            current = made
        return current

    def _transform_again(
        self, failure: Exception, original: T, stage: TransformStage, record: Rec
    ) -> Rec | None:
        again = partial(stage.apply, record)
        try:
            return self._again(failure, original, Stage.TRANSFORMATION, stage.class_name, again)
        except TaskFailed as error:
            raise TaskFailed(f"transforms.{stage.alias}: {error}") from error.__cause__

    def failed(self, report: ErrorReport[T]) -> Future[None]:
        """Handle a failure of this record outside of `run`. Done when it is reported durably.

        Raises `TaskFailed` if errors are not tolerated; the record is reported all the same.
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
        return done_future(None) if told is None else told


def _text(error: Exception) -> str:
    """Return the error's text. Errors from outside the framework need their class, too."""
    return str(error) if isinstance(error, ConnectError) else repr(error)
