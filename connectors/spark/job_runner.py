"""Periodic Spark jobs that never pile up, never hold anything up, and say how they are doing.

A `PeriodicJob` looks for work at start, then at its interval, on a thread of its own, and does it,
one run at a time: ticks that pass while a run goes on are skipped and counted. Looking needs no
session, so one in whose flow nothing changes starts no JVM. Where there is work and no session it
waits, and looks anew as soon as there is one. A run that fails is logged and tried again, soon at
first, then at most an interval later. One that changed something is followed by another at once,
which sees that all is done while there is a session. One that takes long is reported; `stop`
cancels what Spark does for it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from uuid import uuid4

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from connect.clock import SYSTEM_CLOCK, Clock
from connect.errors import ConfigError, ConnectError
from connect.loop import BackgroundLoop, Backoff, OnError
from connect.metrics.registry import MetricRegistry, MetricValue
from connectors.spark.errors import first_line, job_errors
from connectors.spark.session import SharedSession, SparkLease, shared_session

__all__ = ["SPARK_JOB_GROUP", "JobStatus", "PeriodicJob", "SparkWork"]

log = logging.getLogger(__name__)

SPARK_JOB_GROUP = "spark-job-metrics"
RETRY_FIRST_S = 1.0
LONG_RUN_S = 60.0
"""A run that takes longer is reported once, while it goes on."""

STOP_TIMEOUT_S = 2.0

SparkWork = Callable[[SparkSession], bool]
"""True: something was changed, so that what was looked at is not so any more."""


@dataclass(frozen=True, slots=True)
class JobStatus:
    """How a job is doing. `text`: waiting for Spark, running, idle, or failed, and why."""

    text: str
    runs: int
    failures: int
    skipped: int
    last_run_s: float | None


class PeriodicJob:
    """See the module. `start` and `stop` once each, by the owner; all else from any thread."""

    def __init__(
        self,
        name: str,
        find_work: Callable[[], SparkWork | None],
        *,
        interval_s: float,
        properties: Mapping[str, str],
        kafka: bool = False,
        on_fatal: Callable[[Exception], None] | None = None,
        long_run_s: float = LONG_RUN_S,
        shared: SharedSession | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """`find_work`: what there is to do now, if anything; it and the work are called on the
        job's thread. `properties`: those whose `spark.*`
        configure the session, should this be its first user; `kafka`: it reads with Spark's Kafka
        source. `on_fatal`: a `ConfigError` ended the job; called on the job's thread."""
        self.name = name
        self._find_work = find_work
        self._properties = properties
        self._kafka = kafka
        self._shared = shared or shared_session()
        self._clock = clock
        self._long_run_s = long_run_s
        self._group = f"{name} {uuid4()}"
        self._lock = threading.Lock()
        self._lease: SparkLease | None = None
        self._waiting = self._seeing = False
        self._began: float | None = None
        self._running: SparkSession | None = None
        self._runs = self._failures = self._skipped = 0
        self._last_run_s: float | None = None
        self._last_error = ""
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
        """Begin; returns at once."""
        self._lease = self._shared.acquire(
            self.name,
            self._properties,
            kafka=self._kafka,
            on_ready=self._session_ready,
            wanted=False,
        )
        self._loop.start()

    def wake(self) -> None:
        """Run now, or right after the run that goes on."""
        self._loop.wake()

    def request_stop(self) -> None:
        """Ask the job to end, and Spark to give up what it does for it; waits for neither."""
        self._loop.request_stop()
        self._cancel()

    def stop(self, timeout: float = STOP_TIMEOUT_S) -> bool:
        """End the job. False: a run is still going on after `timeout` seconds; it ends by itself,
        without effect on others."""
        self.request_stop()
        ended = self._loop.stop(timeout)
        if self._lease is not None:
            self._lease.release()
        return ended

    @property
    def status(self) -> JobStatus:
        with self._lock:
            return JobStatus(
                self._text(), self._runs, self._failures, self._skipped, self._last_run_s
            )

    def register(self, registry: MetricRegistry) -> Callable[[], None]:
        """Show this job's figures; returns what removes them again."""
        return registry.register(SPARK_JOB_GROUP, {"job": self.name}, self.read)

    def read(self) -> dict[str, MetricValue]:
        """Figures for the metrics page."""
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
        if self._running is not None:
            return f"running for {self._running_s():.0f} s"
        if self._waiting and self._lease is not None:
            return f"waiting for Spark, which is {self._lease.state}"
        if self._last_error:
            return f"failed: {self._last_error}"
        return "idle"

    def _running_s(self) -> float:
        began = self._began
        return 0.0 if began is None else self._clock.monotonic() - began

    def _skip(self, ticks: int) -> None:
        with self._lock:
            first = self._skipped == 0
            self._skipped += ticks
        log.log(
            logging.WARNING if first else logging.DEBUG,
            "%s takes longer (%.1f s) than its interval: %d runs skipped",
            self.name,
            self._last_run_s or 0.0,
            ticks,
        )

    def _session_ready(self) -> None:
        """On the session's thread."""
        if self._waiting:
            self._loop.wake()

    def _cancel(self) -> None:
        session = self._running
        if session is not None:
            try:
                session.sparkContext._jsc.sc().cancelJobGroupAndFutureJobs(self._group)
            except (Py4JError, OSError) as error:
                log.debug("%s could not be cancelled: %s", self.name, first_line(error))

    # The job's thread.

    def _step(self) -> None:
        assert self._lease is not None
        with self._lock:
            self._began = self._clock.monotonic()
        self._waiting = False
        watch = threading.Timer(self._long_run_s, self._report_long)
        watch.daemon = True
        watch.start()
        try:
            work = self._find_work()
            session = None if work is None else self._wanted_session(self._lease)
            if work is not None and session is None:
                return
            changed = work is not None and session is not None and self._run(work, session)
            # Once: what can never be as wanted would be changed for ever.
            self._seeing = changed and not self._seeing
            if self._seeing:
                self._loop.wake()
            self._finish(None)
        except Exception as error:
            self._finish(error)
            self._lease.look()
            raise
        finally:
            watch.cancel()
            with self._lock:
                self._began = self._running = None
            if not self._waiting:
                self._lease.rest()

    def _wanted_session(self, lease: SparkLease) -> SparkSession | None:
        # Before the look, so that no session comes unnoticed.
        self._waiting = True
        session = lease.want()
        if session is not None:
            self._waiting = False
        return session

    def _run(self, work: SparkWork, session: SparkSession) -> bool:
        with self._lock:
            self._running = session
        with job_errors(self.name):
            session.sparkContext.setJobGroup(self._group, self.name, interruptOnCancel=True)
            return not self._loop.stopping.is_set() and work(session)

    def _finish(self, error: Exception | None) -> None:
        """A run is over."""
        with self._lock:
            self._last_run_s = self._running_s()
            self._runs += 1
            self._failures += error is not None
            self._last_error = "" if error is None else first_line(error)
        if error is not None and not isinstance(error, ConnectError):
            log.error("%s failed unexpectedly", self.name, exc_info=error)

    def _report_long(self) -> None:
        log.warning("%s has been running for %.0f s", self.name, self._long_run_s)
