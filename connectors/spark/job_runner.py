"""Periodic jobs that Spark or the process computes, one run at a time.

A `PeriodicJob` looks for work at its start, then at its interval, on a thread of its own. Ticks
that pass during a run are skipped and counted. `BackgroundSpark` decides who computes the work; if
it is Spark and a session is being started, the job looks again when the start has ended. A run that
fails is logged and repeated, soon at first, then at most an interval later. A run that changed
something is followed by another at once, which verifies the result. A slow run is logged; `stop`
cancels what Spark does for it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from connect.clock import SYSTEM_CLOCK, Clock
from connect.errors import ConfigError, ConnectError
from connect.loop import BackgroundLoop, Backoff, OnError
from connect.metrics.registry import MetricRegistry, MetricValue
from connectors.spark.background import BackgroundSpark, Copying
from connectors.spark.errors import SparkUnavailable, first_line
from connectors.spark.session_state import LONG_S, SPARK_JOB_GROUP, SPARK_SESSION_GROUP

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from connectors.spark.queries import SparkQueries
    from connectors.spark.session import SharedSession

__all__ = ["JobStatus", "PeriodicJob", "PeriodicWork"]

log = logging.getLogger(__name__)

RETRY_FIRST_S = 1.0
STOP_TIMEOUT_S = 2.0


@dataclass(frozen=True, slots=True)
class PeriodicWork:
    """The work of one run, in two ways with one outcome. Both return whether they changed something
    that the next run should verify."""

    on_spark: Callable[[SparkSession], bool]
    in_process: Callable[[], bool]


@dataclass(frozen=True, slots=True)
class JobStatus:
    """How a job is doing. `text`: waiting for Spark, running, idle, or failed, and why. `engine`:
    who computed the last work, and why it was not Spark; empty before the first."""

    text: str
    engine: str
    runs: int
    failures: int
    skipped: int
    last_run_s: float | None


class PeriodicJob:
    """Runs one job periodically. The owner calls `start` and `stop` once each; any thread may call
    the rest."""

    def __init__(
        self,
        name: str,
        find_work: Callable[[], PeriodicWork | None],
        *,
        interval_s: float,
        properties: Mapping[str, str],
        copying: Copying,
        on_fatal: Callable[[Exception], None] | None = None,
        long_run_s: float = LONG_S,
        shared: SharedSession | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """`find_work`: returns what there is to do now, or None; it and the work are called on the
        job's thread. `properties`: their `spark.*` configure the session if this job is its first
        user. `copying`: whether copies of this process have not caught up yet. `on_fatal`: a
        `ConfigError` ended the job; called on the job's thread. Raises `ConfigError`."""
        self.name = name
        self._find_work = find_work
        self._clock = clock
        self._lock = threading.Lock()
        self._seeing = False
        self._began: float | None = None
        self._running = False
        self._runs = self._failures = self._skipped = 0
        self._last_run_s: float | None = None
        self._last_error = ""
        self._engine = ""
        self._registry: MetricRegistry | None = None
        self._removers: list[Callable[[], None]] = []
        self._spark = BackgroundSpark(
            name,
            properties,
            copying=copying,
            on_ready=self._session_ready,
            shared=shared,
            long_s=long_run_s,
        )
        self._loop = BackgroundLoop(
            name,
            self._step,
            interval_s=interval_s,
            backoff=Backoff(min(RETRY_FIRST_S, interval_s), max(RETRY_FIRST_S, interval_s)),
            classify=lambda error: OnError.END if isinstance(error, ConfigError) else OnError.RETRY,
            on_end=on_fatal,
            clock=clock,
            on_skipped=self._skip,
        )

    def start(self) -> None:
        """Start the thread and return at once."""
        self._loop.start()

    def wake(self) -> None:
        """Run now, or right after the current run."""
        self._loop.wake()

    def request_stop(self) -> None:
        """Ask the job to end and cancel its Spark work, without waiting."""
        self._loop.request_stop()
        self._spark.cancel()

    def stop(self, timeout: float = STOP_TIMEOUT_S) -> bool:
        """End the job. Returns False if a run has not ended after `timeout` seconds; it then ends
        by itself."""
        self.request_stop()
        ended = self._loop.stop(timeout)
        self._spark.close()
        return ended

    @property
    def status(self) -> JobStatus:
        with self._lock:
            return JobStatus(
                self._text(),
                self._engine,
                self._runs,
                self._failures,
                self._skipped,
                self._last_run_s,
            )

    def register(self, registry: MetricRegistry) -> Callable[[], None]:
        """Register this job's metrics, and those of the session once it uses one; return a function
        that removes them. Call it before `start`."""
        self._registry = registry
        self._removers.append(registry.register(SPARK_JOB_GROUP, {"job": self.name}, self.read))
        return self._remove_metrics

    def _remove_metrics(self) -> None:
        with self._lock:
            self._registry = None
            removers, self._removers = self._removers, []
        for remove in removers:
            remove()

    def _register_session(self, queries: SparkQueries) -> None:
        with self._lock:
            registry, self._registry = self._registry, None
            if registry is not None:
                read = queries.read_session
                self._removers.append(registry.register(SPARK_SESSION_GROUP, {}, read))

    def read(self) -> dict[str, MetricValue]:
        """Return values for the metrics page."""
        status = self.status
        values: dict[str, MetricValue] = {
            "status": status.text,
            "engine": status.engine,
            "run-count": float(status.runs),
            "failure-count": float(status.failures),
            "skipped-count": float(status.skipped),
            "running-ms": self._running_s() * 1000,
        }
        if status.last_run_s is not None:
            values["last-run-ms"] = status.last_run_s * 1000
        return values

    def _text(self) -> str:
        if self._running:
            return f"running for {self._running_s():.0f} s"
        if self._last_error and not self._spark.waiting:
            return f"failed: {self._last_error}"
        return self._spark.waiting or "idle"

    def _running_s(self) -> float:
        began = self._began
        return 0.0 if began is None else self._clock.monotonic() - began

    def _skip(self, ticks: int) -> None:
        with self._lock:
            first = self._skipped == 0
            self._skipped += ticks
        log.log(
            logging.WARNING if first else logging.DEBUG,
            "%s took longer (%.1f s) than its interval: %d runs skipped",
            self.name,
            self._last_run_s or 0.0,
            ticks,
        )

    def _session_ready(self) -> None:
        """Called on the session's thread when a start has succeeded or failed."""
        if self._spark.waiting:
            self._loop.wake()

    # Methods of the job's thread.

    def _step(self) -> None:
        with self._lock:
            self._began = self._clock.monotonic()
        try:
            work = self._find_work()
            if work is None:
                self._spark.rest()
            changed = work is not None and self._run(work)
        except SparkUnavailable:
            return  # called again when the start has ended
        except Exception as error:
            self._finish(error)
            self._spark.look()
            raise
        else:
            # Only once: a state that can never be reached would otherwise be changed for ever.
            self._seeing = changed and not self._seeing
            if self._seeing:
                self._loop.wake()
            self._finish(None)
        finally:
            with self._lock:
                self._began, self._running = None, False
            if not self._spark.waiting:
                self._spark.rest()

    def _run(self, work: PeriodicWork) -> bool:
        queries = self._spark.queries()
        if queries is None:
            self._begin(f"process: {self._spark.reason}")
            return not self._loop.stopping.is_set() and work.in_process()
        self._register_session(queries)
        session = queries.session()
        self._begin("spark")
        with queries.query(session, self.name):
            return not self._loop.stopping.is_set() and work.on_spark(session)

    def _begin(self, engine: str) -> None:
        with self._lock:
            changed, self._engine = self._engine != engine, engine
            self._running = True
        if changed:
            log.info("%s: computed by %s", self.name, engine)

    def _finish(self, error: Exception | None) -> None:
        """Record the end of a run."""
        with self._lock:
            self._last_run_s = self._running_s()
            self._runs += 1
            self._failures += error is not None
            self._last_error = "" if error is None else first_line(error)
        if error is not None and not isinstance(error, ConnectError):
            log.error(
                "%s failed with an unexpected error; this is a defect: report it with the trace",
                self.name,
                exc_info=error,
            )
