"""One client's use of the Spark session: its lease, one query at a time, and its metrics.

A query that is no longer needed is cancelled, even if it has not started yet. A slow query is
logged. A query that exceeds its time limit is cancelled. Spark's errors are raised as
`connect.errors`.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from uuid import uuid4

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from connect.clock import SYSTEM_CLOCK
from connect.metrics.registry import MetricValue
from connectors.spark.errors import SparkJobFailed, SparkUnavailable, first_line, job_errors
from connectors.spark.session import SharedSession, SparkLease, shared_session

__all__ = ["SPARK_JOB_GROUP", "SparkQueries"]

_LOG = logging.getLogger(__name__)

SPARK_JOB_GROUP = "spark-job-metrics"
LONGEST_S = 600.0
"""Time limit of a query. A longer one is cancelled and fails."""
LONG_S = 60.0
"""A query that runs longer than this is logged once."""


class SparkQueries:
    """One client's queries. Call `session`, `query` and `rest` on one thread; any thread may call
    the rest."""

    def __init__(
        self,
        name: str,
        props: Mapping[str, str],
        *,
        kafka: bool = False,
        on_ready: Callable[[], None] = lambda: None,
        shared: SharedSession | None = None,
        long_s: float = LONG_S,
    ) -> None:
        """`props`: their `spark.*` configure the session if this client is its first user. `kafka`:
        the client reads with Spark's Kafka source. `on_ready`: called when there is a session.
        `long_s`: a query that takes longer is logged."""
        self.name = name
        self._group = f"{name} {uuid4()}"
        self._long_s = long_s
        self._lock = threading.Lock()
        self._running: SparkSession | None = None
        self._closed = False
        self._waiting = False
        self._began: float | None = None
        self._runs = self._failures = 0
        self._last_run_s: float | None = None
        self._last_error = ""
        self._lease: SparkLease = (shared or shared_session()).acquire(
            name, props, kafka=kafka, on_ready=on_ready, wanted=False
        )

    def session(self, *, start: bool = True) -> SparkSession:
        """Return the session and keep it until `rest`.

        Raises `SparkUnavailable` if there is none. It is then started, unless `start` is False.
        """
        # Clear the flag before looking, so that no session is missed.
        self._waiting = start
        session = self._lease.want(start=start)
        self._waiting = session is None and start
        if session is None:
            raise SparkUnavailable(f"Spark is {self._lease.state}")
        return session

    def look(self) -> None:
        """Check now whether the session still exists. Call it after a failure."""
        self._lease.look()

    def rest(self) -> None:
        """Release the session until the next query."""
        self._waiting = False
        self._lease.rest()

    @contextmanager
    def query(self, session: SparkSession, what: str) -> Iterator[None]:
        """Run the block as one query. Raises `SparkJobFailed`."""
        timers = [
            threading.Timer(self._long_s, self._report_long),
            threading.Timer(LONGEST_S, self.cancel),
        ]
        self._begin(session)
        error: Exception | None = None
        try:
            for timer in timers:
                timer.daemon = True
                timer.start()
            with job_errors(what):
                session.sparkContext.setJobGroup(self._group, self.name, interruptOnCancel=True)
                yield
        except Exception as raised:
            error = raised
            self.look()
            raise
        finally:
            for timer in timers:
                timer.cancel()
            self._end(error)

    def cancel(self, *, for_good: bool = False) -> None:
        """Cancel the current query; with `for_good`, later ones too."""
        session = self._running
        if session is not None:
            try:
                context = session.sparkContext._jsc.sc()
                if for_good:
                    context.cancelJobGroupAndFutureJobs(self._group)
                else:
                    context.cancelJobGroup(self._group)
            except (Py4JError, OSError) as error:
                _LOG.debug("%s could not be cancelled: %s", self.name, first_line(error))

    def close(self) -> None:
        """Cancel the current query, and reject later ones."""
        with self._lock:
            self._closed = True
        self.cancel(for_good=True)
        self._lease.release()

    @property
    def waiting(self) -> str:
        """Return why the client waits; empty if it does not."""
        return f"waiting for Spark, which is {self._lease.state}" if self._waiting else ""

    def read(self) -> dict[str, MetricValue]:
        """Return values for the metrics page."""
        with self._lock:
            began, last = self._began, self._last_run_s
            values: dict[str, MetricValue] = {
                "status": self._status(),
                "run-count": float(self._runs),
                "failure-count": float(self._failures),
                "running-ms": 0.0 if began is None else _since(began) * 1000,
            }
        if last is not None:
            values["last-run-ms"] = last * 1000
        return values

    def _status(self) -> str:
        if self._began is not None:
            return f"running for {_since(self._began):.0f} s"
        if self._last_error and not self._waiting:
            return f"failed: {self._last_error}"
        return self.waiting or "idle"

    def _begin(self, session: SparkSession) -> None:
        with self._lock:
            if self._closed:
                raise SparkJobFailed(f"{self.name} is being stopped")
            self._began, self._running = SYSTEM_CLOCK.monotonic(), session

    def _end(self, error: Exception | None) -> None:
        with self._lock:
            assert self._began is not None
            self._last_run_s = _since(self._began)
            self._began = self._running = None
            self._runs += 1
            self._failures += error is not None
            self._last_error = "" if error is None else first_line(error)

    def _report_long(self) -> None:
        _LOG.warning("%s has been running for %.0f s", self.name, self._long_s)


def _since(began: float) -> float:
    return SYSTEM_CLOCK.monotonic() - began
