"""Decides whether a periodic job computes a round on Spark or in its process.

A session on this machine starts a JVM, which takes seconds of the cores that the copies need. So a
job uses a session that exists; it starts one on this machine only after the copies of the process
have caught up once, and never without Java. Until then, and after a start that failed, the job
computes in its process. A session on a cluster (`spark.master`,
`spark.remote`) is started at once.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from connectors.spark.errors import SparkUnavailable
from connectors.spark.properties import (
    check_spark_properties,
    runs_here,
    spark_properties,
    start_delay_s,
    worker_properties,
)
from connectors.spark.requirements import why_no_spark
from connectors.spark.session_state import LONG_S, SESSION_READY, SparkPhase

if TYPE_CHECKING:
    from connectors.spark.queries import SparkQueries
    from connectors.spark.session import SharedSession

__all__ = ["BackgroundSpark", "Copying"]

Copying = Callable[[float], bool]
"""Whether copies of this process have not caught up yet. Its argument: the age of the process, in
seconds, at which they count as caught up."""


class BackgroundSpark:
    """Spark for one periodic job. `queries` is for the job's thread; any thread may call the
    rest."""

    def __init__(
        self,
        name: str,
        props: Mapping[str, str],
        *,
        copying: Copying,
        on_ready: Callable[[], None],
        shared: SharedSession | None = None,
        long_s: float = LONG_S,
    ) -> None:
        """`props`: their `spark.*` configure the session if this job is its first user. `on_ready`:
        called on the session's thread when a session is ready or could not be started. `shared`:
        the session to use instead of the process's. Raises `ConfigError`."""
        self._name = name
        self._props = props
        self._copying = copying
        self._on_ready = on_ready
        self._shared = shared
        self._long_s = long_s
        given = {**worker_properties(), **spark_properties(props)}
        check_spark_properties(given)
        self._given = given
        self._local = runs_here(given)
        self._start_delay_s = start_delay_s(props)
        self._lock = threading.Lock()
        self._closed = False
        self._opened: SparkQueries | None = None
        self.reason = ""
        """Why the last round was not computed on Spark; empty if it was."""

    def queries(self) -> SparkQueries | None:
        """Return the queries of this job if Spark is to compute the next round; None: the process
        computes it, `reason` says why. Raises `SparkUnavailable` after `close`."""
        self.reason = self._why_in_process()
        return None if self.reason else self._open()

    @property
    def waiting(self) -> str:
        """Return why the job waits for Spark; empty if it does not."""
        return "" if self._opened is None else self._opened.waiting

    def look(self) -> None:
        """Check now whether the session still exists; called after a failure."""
        if self._opened is not None:
            self._opened.look()

    def rest(self) -> None:
        """End the request for a session until the next round."""
        if self._opened is not None:
            self._opened.rest()

    def cancel(self) -> None:
        """Cancel the current query and all later ones."""
        if self._opened is not None:
            self._opened.cancel(for_good=True)

    def close(self) -> None:
        """Cancel the current query; `queries` raises from now on."""
        with self._lock:
            self._closed = True
            opened = self._opened
        if opened is not None:
            opened.close()

    def _why_in_process(self) -> str:
        if (problem := why_no_spark(self._given)) is not None:
            return problem
        opened = self._opened
        if opened is not None and opened.state.phase is SparkPhase.FAILED:
            opened.request()
            return f"Spark is {opened.state}"
        if not self._local or SESSION_READY.is_set():
            return ""
        if self._copying(self._start_delay_s):
            return "the copies of this process have not caught up yet"
        return ""

    def _open(self) -> SparkQueries:
        # Imported here: PySpark takes memory that a process without a session need not spend.
        from connectors.spark.queries import SparkQueries

        with self._lock:
            if self._closed:
                raise SparkUnavailable(f"{self._name} is being stopped")
            if self._opened is None:
                self._opened = SparkQueries(
                    self._name,
                    self._props,
                    on_ready=self._on_ready,
                    on_failed=self._on_ready,
                    shared=self._shared,
                    long_s=self._long_s,
                    background=True,
                )
            return self._opened
