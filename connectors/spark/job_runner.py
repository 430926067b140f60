"""Runs a periodic job on Spark.

A `PeriodicJob` looks for work at its start and then at its interval, on its own thread, and does
the work. Runs never overlap: ticks during a run are skipped and counted. Looking for work needs no
session, so an idle flow never starts a JVM. If there is work but no session, the job waits for the
session and then looks again. A failed run is logged and retried, soon at first and later at most an
interval apart. A run that changed something is followed by another one at once, to check while
there is a session that nothing is left. A long run is logged. `stop` cancels its Spark jobs.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pyspark.sql import SparkSession

from connect.clock import SYSTEM_CLOCK, Clock
from connect.errors import ConfigError, ConnectError
from connect.loop import BackgroundLoop, Backoff, OnError
from connect.metrics.registry import MetricRegistry, MetricValue
from connectors.spark.errors import SparkUnavailable, first_line
from connectors.spark.queries import LONG_S, SPARK_JOB_GROUP, SparkQueries
from connectors.spark.session import SharedSession

__all__ = ["JobStatus", "PeriodicJob", "SparkWork"]

log = logging.getLogger(__name__)

RETRY_FIRST_S = 1.0
STOP_TIMEOUT_S = 2.0

SparkWork = Callable[[SparkSession], bool]
"""A unit of work. Returns True if it changed something, so that the job looks again."""


@dataclass(frozen=True, slots=True)
class JobStatus:
    """The status of a job. `text`: waiting for Spark, running, idle, or failed with the reason."""

    text: str
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
        find_work: Callable[[], SparkWork | None],
        *,
        interval_s: float,
        properties: Mapping[str, str],
        kafka: bool = False,
        on_fatal: Callable[[Exception], None] | None = None,
        long_run_s: float = LONG_S,
        shared: SharedSession | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """`find_work`: returns the current work, or None. It and the work run on the job's thread.
        `properties`: their `spark.*` configure the session if this job is its first user. `kafka`:
        the job reads with Spark's Kafka source. `on_fatal`: called on the job's thread when a
        `ConfigError` has ended the job."""
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
        self._queries = SparkQueries(
            name,
            properties,
            kafka=kafka,
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
        self._queries.cancel(for_good=True)

    def stop(self, timeout: float = STOP_TIMEOUT_S) -> bool:
        """End the job. Returns False if a run has not ended after `timeout` seconds; it then ends
        by itself."""
        self.request_stop()
        ended = self._loop.stop(timeout)
        self._queries.close()
        return ended

    @property
    def status(self) -> JobStatus:
        with self._lock:
            return JobStatus(
                self._text(), self._runs, self._failures, self._skipped, self._last_run_s
            )

    def register(self, registry: MetricRegistry) -> Callable[[], None]:
        """Register this job's metrics; return a function that removes them."""
        return registry.register(SPARK_JOB_GROUP, {"job": self.name}, self.read)

    def read(self) -> dict[str, MetricValue]:
        """Return values for the metrics page."""
        status = self.status
        values: dict[str, MetricValue] = {
            "status": status.text,
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
        if self._last_error and not self._queries.waiting:
            return f"failed: {self._last_error}"
        return self._queries.waiting or "idle"

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
        """Wake the job. Called on the session's thread."""
        if self._queries.waiting:
            self._loop.wake()

    # Methods of the job's thread.

    def _step(self) -> None:
        with self._lock:
            self._began = self._clock.monotonic()
        try:
            work = self._find_work()
            if work is None:
                self._queries.rest()
            changed = work is not None and self._run(work)
        except SparkUnavailable:
            return  # on_ready wakes the job when there is a session.
        except Exception as error:
            self._finish(error)
            self._queries.look()
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
            if not self._queries.waiting:
                self._queries.rest()

    def _run(self, work: SparkWork) -> bool:
        session = self._queries.session()
        with self._lock:
            self._running = True
        with self._queries.query(session, self.name):
            return not self._loop.stopping.is_set() and work(session)

    def _finish(self, error: Exception | None) -> None:
        """Record the end of a run."""
        with self._lock:
            self._last_run_s = self._running_s()
            self._runs += 1
            self._failures += error is not None
            self._last_error = "" if error is None else first_line(error)
        if error is not None and not isinstance(error, ConnectError):
            log.error("%s failed with an unexpected error", self.name, exc_info=error)
