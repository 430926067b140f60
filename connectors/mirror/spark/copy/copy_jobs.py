"""Runs the flights of one flow as Spark jobs while there is a session.

One thread holds the lease of the shared session: it waits for the session, counts its slots, and
notices when it is lost. Each flight has a thread and a job group of its own, so that its result is
known as soon as it ends and it can be cancelled alone.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import Future
from functools import partial
from typing import Protocol
from uuid import uuid4

from pyspark.sql import SparkSession

from connect.clients.wire.one_shot_threads import OneShotThreads
from connect.clock import Deadline
from connect.errors import ConfigError, ConnectError
from connect.loop import BackgroundLoop, Backoff, OnError
from connectors.mirror.spark.copy.executor import ShardLimits
from connectors.mirror.spark.copy.flights import Flight
from connectors.mirror.spark.copy.shards import CopyFlow, ShardResult
from connectors.mirror.spark.transform.changes import FlowChanges
from connectors.spark.errors import SparkJobFailed, job_errors
from connectors.spark.session import SharedSession, SparkPhase, shared_session
from connectors.spark.slots import Slots, slots_of

__all__ = ["CopyJobs", "JobsHost", "flight_limits"]

_LOG = logging.getLogger(__name__)

_LOOK_S = 0.5
_RETRY_FIRST_S, _RETRY_CAP_S = 1.0, 30.0
_PASSING = (SparkPhase.UNUSED, SparkPhase.IDLE, SparkPhase.STARTING, SparkPhase.BUSY)
_STUCK_S = 300.0
"""A flight that has not ended so long after its task must have ended is cancelled: its process may
hang, or Spark has no executor for it."""


class JobsHost(Protocol):
    """Deals flights and stores results. Called on other threads; must not block."""

    def flight_ended(self, flight: Flight, outcome: ShardResult | ConnectError) -> None:
        """Handle the end of a flight. After an error, a task that could not be reached may still
        copy the shard without a result."""

    def engine_state(self, trouble: str | None) -> None:
        """Set why nothing can be copied now; None: it can."""

    def engine_failed(self, error: ConfigError) -> None:
        """Handle a permanent error: the engine cannot run with this configuration."""


def flight_limits(seconds: float, unheard_s: float, *, speculates: bool) -> ShardLimits:
    """Return the limits of a flight that is copied for `seconds`. `unheard_s`: how much longer a
    task whose result is lost may copy. `speculates`: Spark may run a task a second time beside the
    first run.

    Only the first run of a task copies. A lost executor's Python process may still write what
    another run would copy, too, and what it wrote is not known. So the partitions wait until it
    must be over, and are compared with the target.
    """
    return ShardLimits(
        stall_s=float("inf"),
        most_s=seconds,
        follow=True,
        once=True,
        again_s=seconds + unheard_s if speculates else 0.0,
    )


class CopyJobs:
    """The Spark jobs of one flow. The owner calls `start` and `stop` once each."""

    def __init__(
        self,
        name: str,
        props: Mapping[str, str],
        flow: CopyFlow,
        host: JobsHost,
        changes: FlowChanges,
        shared: SharedSession | None = None,
    ) -> None:
        """`props`: their `spark.*` configure the session. `changes`: the flow's transformations."""
        self.name = name
        self._flow = flow
        self._host = host
        self._changes = changes
        self._group = f"{name} {uuid4()}"
        self._trouble: str | None = None
        self._lock = threading.Lock()
        self._session: SparkSession | None = None
        self._slots: Slots | None = None
        self._speculates = False
        self._in_flight: dict[int, tuple[SparkSession, Deadline]] = {}
        self._threads = OneShotThreads(f"Spark copy of {name}")
        self._loop = BackgroundLoop(
            f"Spark copy of {name}",
            self._step,
            interval_s=_LOOK_S,
            backoff=Backoff(_RETRY_FIRST_S, _RETRY_CAP_S),
            classify=lambda error: OnError.END if isinstance(error, ConfigError) else OnError.RETRY,
            on_end=self._ended,
        )
        self._lease = (shared or shared_session()).acquire(
            f"The copy of {name}", props, on_ready=self._loop.wake, frames=changes.frames
        )

    def start(self) -> None:
        """Start the thread and return at once."""
        self._loop.start()

    def stop(self, timeout: float) -> bool:
        """Cancel the flights. Returns False if a thread is still ending."""
        deadline = Deadline(timeout)
        self._loop.request_stop()
        # The JVM may hang, so another thread calls it.
        self._threads.run("cancel", lambda: self._cancel(only_stuck=False))
        self._threads.stop()
        left = self._threads.join(deadline)
        ended = self._loop.stop(deadline.remaining())
        self._lease.release()
        return ended and not left

    def _cancel(self, *, only_stuck: bool) -> None:
        with self._lock:
            flying = dict(self._in_flight)
        for number, (session, deadline) in flying.items():
            if only_stuck and not deadline.expired():
                continue
            try:
                with job_errors("Cancelling a shard"):
                    scala = session.sparkContext._jsc.sc()
                    scala.cancelJobGroupAndFutureJobs(self._group_of(number))
            except SparkJobFailed as error:
                _LOG.debug("%s: %s", self.name, error)

    def _group_of(self, number: int) -> str:
        return f"{self._group} {number}"

    def _ended(self, error: Exception) -> None:
        if isinstance(error, ConfigError):
            self._host.engine_failed(error)

    # Methods of the thread that holds the lease.

    def _step(self) -> None:
        if self._lease.asked_back:
            self._drain()
            return
        session = self._lease.want()
        if session is None:
            self._set(None, None)
            self._say(f"waiting for Spark, which is {self._lease.state}")
            return
        try:
            with job_errors(f"The copy of {self.name}"):
                slots = slots_of(session)
                conf = session.sparkContext.getConf()
                self._speculates = conf.get("spark.speculation", "false") == "true"
                self._changes.check(session)
        except SparkJobFailed as error:
            self._set(None, None)
            self._lease.look()
            self._say(str(error))
            raise
        self._set(session, slots)
        self._say(None)
        self._cancel(only_stuck=True)

    def _drain(self) -> None:
        """Send nothing more out. Give the session back when nothing is in flight, in a later step
        than the first: the owner may have looked at the slots just before."""
        with self._lock:
            drained = self._slots is None and not self._in_flight
            self._slots = None
            if drained:
                self._session = None
        self._say("waiting for Spark, which is restarted for another job")
        if drained:
            self._lease.give_back()

    def _set(self, session: SparkSession | None, slots: Slots | None) -> None:
        with self._lock:
            self._session, self._slots = session, slots

    def _say(self, trouble: str | None) -> None:
        if trouble != self._trouble:
            if trouble is not None:
                level = logging.INFO if self._lease.state.phase in _PASSING else logging.WARNING
                _LOG.log(level, "cannot copy %s: %s", self.name, trouble)
            elif self._trouble is not None:
                _LOG.info("copying %s again", self.name)
        self._trouble = trouble
        self._host.engine_state(trouble)

    # Flights (`FlightJobs`).

    @property
    def slots(self) -> Slots | None:
        with self._lock:
            return self._slots

    def run(self, flight: Flight) -> None:
        with self._lock:
            session = self._session
            if session is not None:
                deadline = Deadline(flight.seconds + self._changes.unheard_s + _STUCK_S)
                self._in_flight[flight.number] = session, deadline
        done = self._threads.run(str(flight.number), partial(self._copy, session, flight))
        done.add_done_callback(partial(self._landed, flight))

    def _copy(self, session: SparkSession | None, flight: Flight) -> ShardResult:
        """Copy one shard. Called on the flight's thread."""
        if session is None:
            raise SparkJobFailed(f"the session of {self.name} has ended")
        limits = flight_limits(flight.seconds, self._changes.unheard_s, speculates=self._speculates)
        with job_errors(f"The copy of {self.name}"):
            session.sparkContext.setJobGroup(
                self._group_of(flight.number), self._description(flight), interruptOnCancel=True
            )
        pace = None if flight.pace is None else flight.pace.limits
        return self._changes.copy(session, self._flow, flight, limits, pace)

    def _description(self, flight: Flight) -> str:
        """Return the job's description for Spark's UI."""
        offsets = sum(each.end - each.start for each in flight.shard)
        topics = Counter(each.source[0] for each in flight.shard)
        first, count = topics.most_common(1)[0]
        of = f"{count} of {first}" + (f", {len(topics) - 1} more topics" if len(topics) > 1 else "")
        return (
            f"{self.name}: shard {flight.number}, {len(flight.shard)} partitions ({of}), "
            f"{offsets:,} offsets and later ones"
        )

    def _landed(self, flight: Flight, done: Future[ShardResult]) -> None:
        with self._lock:
            session, _ = self._in_flight.pop(flight.number, (None, None))
        error = done.exception(timeout=0)
        if error is None:
            self._host.flight_ended(flight, done.result(timeout=0))
            return
        with self._lock:
            if session is self._session:
                self._session = self._slots = None
        # Nothing more goes out before the session was looked at.
        self._loop.wake()
        if not isinstance(error, ConnectError):
            _LOG.error(
                "%s: a shard failed unexpectedly; this is a defect: report it with the trace",
                self.name,
                exc_info=error,
            )
            error = SparkJobFailed(f"a shard failed: {type(error).__name__}: {error}")
        self._host.flight_ended(flight, error)
