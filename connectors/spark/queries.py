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

import pyspark  # noqa: F401 - before its parts
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from connect.clock import SYSTEM_CLOCK
from connect.metrics.registry import MetricValue
from connectors.spark.drivers.job_groups import begin_jobs, cancel_jobs
from connectors.spark.errors import SparkJobFailed, SparkUnavailable, first_line, job_errors
from connectors.spark.session import SharedSession, SparkLease, shared_session
from connectors.spark.session_state import LONG_S, SparkState

__all__ = ["SparkQueries"]

_LOG = logging.getLogger(__name__)

LONGEST_S = 600.0
"""Time limit of a query. A longer one is cancelled and fails."""


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
        on_failed: Callable[[], None] = lambda: None,
        shared: SharedSession | None = None,
        long_s: float = LONG_S,
        background: bool = False,
    ) -> None:
        """`props`: those whose `spark.*` configure the session, should this be its first user;
        `kafka`: it reads with Spark's Kafka source. `on_ready`: there is a session now.
        `on_failed`: no session could be started. `long_s`: a slower query is logged. `background`:
        a session on this machine may run at the lowest CPU priority."""
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
        self._shared = shared or shared_session()
        self._lease: SparkLease = self._shared.acquire(
            name,
            props,
            kafka=kafka,
            on_ready=on_ready,
            on_failed=on_failed,
            wanted=False,
            background=background,
        )

    def request(self, *, start: bool = True) -> SparkSession | None:
        """Return the session and keep it until `rest`. If there is none it is started, unless
        `start` is False: `on_ready` or `on_failed` is called."""
        # Clear the flag before looking, so that no session is missed.
        self._waiting = start
        session = self._lease.want(start=start)
        self._waiting = session is None and start
        return session

    def session(self, *, start: bool = True) -> SparkSession:
        """As `request`, but raises `SparkUnavailable` if there is none."""
        session = self.request(start=start)
        if session is None:
            raise SparkUnavailable(f"Spark is {self._lease.state}")
        return session

    @property
    def state(self) -> SparkState:
        return self._lease.state

    def read_session(self) -> dict[str, MetricValue]:
        """Return the session's values for the metrics page."""
        return self._shared.read()

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
                begin_jobs(session, self._group, self.name)
                yield
        except Exception as raised:
            error = raised
            self.look()
            raise
        finally:
            for timer in timers:
                timer.cancel()
            self._end(error)
            self._lease.give_back()

    def cancel(self, *, for_good: bool = False) -> None:
        """Cancel the current query; with `for_good`, later ones too."""
        session = self._running
        if session is not None:
            try:
                cancel_jobs(session, self._group, for_good=for_good)
            except (Py4JError, OSError, PySparkException) as error:
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
        _LOG.warning(
            "%s has been running for %.0f s; if Spark's page shows that it waits, "
            "give it more executors",
            self.name,
            self._long_s,
        )


def _since(began: float) -> float:
    return SYSTEM_CLOCK.monotonic() - began
