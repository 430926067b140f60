"""The one Spark session of this process: started in the background when needed, and shared.

A session costs a JVM, some seconds and some hundred megabytes, so it exists only while a user needs
it. Nothing waits for it: a connector takes a lease, requests the session when it has work (`want`),
releases it when it has none (`rest`), and is called when there is a session. One thread owns
everything. It starts the JVM, checks it, restarts it with a growing backoff when the JVM or its
master is lost, and stops it when it was idle for some time. `close` ends it with the process.
"""

from __future__ import annotations

import atexit
import logging
import os
import socket
import threading
from collections.abc import Callable, Mapping
from typing import NamedTuple

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.sql import SparkSession

from connect.cache_directory import cache_directory
from connect.clock import SYSTEM_CLOCK, Deadline
from connect.errors import ConfigError
from connect.log_fields import without_log_fields
from connect.loop import BackgroundLoop, Backoff, OnError
from connect.metrics.registry import MetricValue
from connectors.spark.connector_jars import check_connector_jars
from connectors.spark.errors import SparkUnavailable, first_line
from connectors.spark.jvm import SparkJvm, hush_accumulators
from connectors.spark.properties import (
    DRIVER_HOST,
    MASTER,
    check_spark_properties,
    has_kafka_connector,
    idle_timeout_s,
    is_local,
    session_properties,
    spark_properties,
    standalone_masters,
    worker_properties,
)
from connectors.spark.requirements import is_submitted
from connectors.spark.session_state import SESSION_READY, SparkPhase, SparkState
from connectors.spark.shipping import ship
from connectors.spark.submitted import SubmittedJvm, submitted_properties

__all__ = [
    "SharedSession",
    "SparkLease",
    "SparkPhase",
    "SparkState",
    "shared_session",
]

log = logging.getLogger(__name__)

LOOK_S = 5.0
"""How often the running session is checked."""

START_TIMEOUT_S = 300.0
"""Time limit of a start. The first one may have to download the Kafka connector."""

REACH_TIMEOUT_S = 5.0
CLOSE_TIMEOUT_S = 5.0
RETRY_FIRST_S, RETRY_CAP_S = 2.0, 60.0


class _Wanted(NamedTuple):
    """The required configuration of a session."""

    given: dict[str, str]
    kafka: bool
    background: bool
    """Whether only background jobs use it: its JVM has the lowest CPU priority."""
    frames: bool
    """Whether executors need what Python data sources need."""


class SparkLease:
    """One user's lease of the session, for any thread. The session exists, or is being started,
    while a lease wants it."""

    def __init__(
        self,
        shared: SharedSession,
        on_ready: Callable[[], None],
        on_failed: Callable[[], None],
        *,
        background: bool,
    ) -> None:
        self._shared = shared
        self._on_ready = on_ready
        self._on_failed = on_failed
        self._wanting = False
        self.background = background

    def want(self, *, start: bool = True) -> SparkSession | None:
        """Request the session until `rest` or `release`.

        Returns None if it does not exist yet; `on_ready` is called once it does. With
        `start=False`, it is requested only if it exists.
        """
        return self._shared._want(self, start)

    def rest(self) -> None:
        """End the request. The session stops after some idle time; `want` starts it again."""
        self._shared._rest(self)

    @property
    def session(self) -> SparkSession | None:
        """Return the session; None if there is none."""
        return self._shared.session

    @property
    def state(self) -> SparkState:
        return self._shared.state

    def look(self) -> None:
        """Check now whether the session still exists. Call it after a failure."""
        self._shared._loop.wake()

    def release(self) -> None:
        """End the lease; implies `rest`."""
        self._shared._release(self)

    def _ready(self) -> None:
        self._on_ready()

    def _failed(self) -> None:
        self._on_failed()


class SharedSession:
    """Starts, shares and stops the session. `acquire`, `session`, `state` and `close` are for any
    thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._leases: list[SparkLease] = []
        self._wanted: _Wanted | None = None
        self._running: _Wanted | None = None
        self._jvm: SparkJvm | SubmittedJvm | None = None
        self._context: SparkContext | None = None
        self._session: SparkSession | None = None
        self._state = SparkState(SparkPhase.UNUSED)
        self._closed = False
        self.ended_by: Exception | None = None
        """Return the permanent error that prevents a session, as a `ConfigError`."""
        self._starts = 0
        self._idle_s = self._last_wanted = 0.0
        self._loop = self._new_loop()

    @property
    def session(self) -> SparkSession | None:
        """Return the session; None if there is none."""
        return self._session

    @property
    def state(self) -> SparkState:
        return self._state

    def acquire(
        self,
        who: str,
        props: Mapping[str, str],
        *,
        kafka: bool = False,
        on_ready: Callable[[], None] = lambda: None,
        on_failed: Callable[[], None] = lambda: None,
        wanted: bool = True,
        background: bool = False,
        frames: bool = False,
    ) -> SparkLease:
        """Take a lease and return at once. The session starts now if `wanted`, otherwise with the
        lease's first `want`.

        `props`: properties whose `spark.*` configure it. While others have a lease theirs count,
        and the log says what of these has no effect; where nobody has any more, it is started
        anew. Of their idle timeouts the longest counts. `kafka`: with Spark's Kafka source;
        `frames`: with what Python data sources need, also on executors. `on_ready`: called on the
        owner's thread for each session that becomes ready while wanted; `on_failed`: there too, for
        each start that fails; both must not block. `background`: for work that can wait. While all
        users are so, a session on this machine has the lowest CPU priority. Raises `ConfigError`
        for properties that no session can be made of.
        """
        lease = SparkLease(self, on_ready, on_failed, background=background)
        given = {**worker_properties(), **spark_properties(props)}
        check_spark_properties(given)
        with self._lock:
            if self._closed:
                raise SparkUnavailable("Spark is closed because the process is ending")
            before = self._wanted
            # Without other leases, the properties of the next user apply.
            counting = before.given if before is not None and self._leases else given
            idle_s = idle_timeout_s(props)
            self._idle_s = max(idle_s, self._idle_s) if self._leases else idle_s
            with_kafka = kafka or (before is not None and before.kafka)
            self._leases.append(lease)
            likeness = _Wanted(
                counting,
                with_kafka or has_kafka_connector(counting),
                all(each.background for each in self._leases),
                frames or (before is not None and before.frames),
            )
            if before is not None and not before.background and self._session is not None:
                # A restart only to lower the priority would cost more than it saves.
                likeness = likeness._replace(background=False)
            self._wanted = likeness
            lease._wanting = wanted
            ignored = sorted(key for key in given if given[key] != counting.get(key))
        if ignored:
            log.warning(
                "%s: another connector of this process configured the Spark session; ignored: %s",
                who,
                ", ".join(ignored),
            )
        if before is None:
            self._loop.start()
        elif wanted and self._session is not None and before == likeness:
            on_ready()
        elif wanted:
            jvm = self._jvm
            if before != likeness and jvm is not None:
                jvm.give_up()
            self._loop.wake()
        return lease

    def read(self) -> dict[str, MetricValue]:
        """Return values for the metrics page."""
        return {
            "status": str(self._state),
            "ready": float(self._session is not None),
            "start-count": float(self._starts),
        }

    def close(self, timeout: float = CLOSE_TIMEOUT_S) -> None:
        """End the session and its JVM. Each step takes at most `timeout` seconds. Later calls of
        `acquire` fail."""
        with self._lock:
            self._closed = True
        self._loop.request_stop()
        jvm = self._jvm
        if jvm is not None and self._session is None:
            jvm.close(timeout)  # Cancels a running start.
        self._loop.stop(timeout)
        self._shut(SparkState(SparkPhase.STOPPED), timeout)

    def _want(self, lease: SparkLease, start: bool) -> SparkSession | None:
        with self._lock:
            session = self._session
            if session is None and not start:
                return None
            again, lease._wanting = lease._wanting, True
        if session is None and not again:
            self._loop.wake()
        return session

    def _rest(self, lease: SparkLease) -> None:
        with self._lock:
            if lease._wanting:
                lease._wanting = False
                self._last_wanted = SYSTEM_CLOCK.monotonic()

    def _release(self, lease: SparkLease) -> None:
        self._rest(lease)
        with self._lock:
            if lease in self._leases:
                self._leases.remove(lease)

    def _new_loop(self) -> BackgroundLoop:
        # The process's, not of the flow that wants it first.
        with without_log_fields():
            return BackgroundLoop(
                "Spark session",
                self._step,
                interval_s=LOOK_S,
                backoff=Backoff(RETRY_FIRST_S, RETRY_CAP_S),
                classify=lambda e: OnError.END if isinstance(e, ConfigError) else OnError.RETRY,
                on_end=self._ended,
            )

    # Methods of the owner's thread.

    def _step(self) -> None:
        if self._session is not None:
            self._look()
        if self._session is None and self._wanting():
            self._start()

    def _wanting(self) -> list[SparkLease]:
        with self._lock:
            return [lease for lease in self._leases if lease._wanting]

    def _take_if_idle(self) -> bool:
        """Take the session from its users if it has been idle for long enough. Returns whether it
        did."""
        with self._lock:
            unused = SYSTEM_CLOCK.monotonic() - self._last_wanted
            wanted = any(lease._wanting for lease in self._leases)
            if wanted or unused < self._idle_s:
                return False
            self._session = None
        log.info("stopping Spark, idle for %.0f s", unused)
        return True

    def _look(self) -> None:
        """Check whether the session is still needed, alive and configured as its users need."""
        if self._take_if_idle():
            self._shut(SparkState(SparkPhase.IDLE, self._state.master), CLOSE_TIMEOUT_S)
            return
        if self._wanted != self._running:
            log.info("restarting Spark, because its users need other properties")
            self._shut(SparkState(SparkPhase.STARTING, self._state.master), CLOSE_TIMEOUT_S)
            return
        jvm, context = self._jvm, self._context
        assert jvm is not None
        assert context is not None
        if jvm.alive and not _is_stopped(context):
            return
        reason = f"lost: {jvm.last_words()}" if not jvm.alive else "lost: its master is gone"
        self._shut(SparkState(SparkPhase.FAILED, self._state.master, reason), CLOSE_TIMEOUT_S)
        raise SparkUnavailable(f"The Spark session was {reason}")

    def _start(self) -> None:
        with self._lock:
            wanted = self._wanted
        assert wanted is not None
        given = wanted.given
        if is_submitted():
            given = {**given, **submitted_properties()}
        props = session_properties(given, kafka=wanted.kafka, cache=cache_directory())
        master = props[MASTER]
        self._state = SparkState(SparkPhase.STARTING, master)
        try:
            if (address := _reach(master)) and "SPARK_LOCAL_IP" not in os.environ:
                props.setdefault(DRIVER_HOST, address)
            self._launch(wanted, props, low_priority=wanted.background and is_local(master))
        except (SparkUnavailable, ConfigError) as error:
            if self._wanted != wanted and not self._closed:
                self._shut(self._state, CLOSE_TIMEOUT_S)
                # The next round starts a session with the current properties.
                self._loop.wake()
                return
            self._fail(master, str(error))
            raise
        except Exception as error:
            reason = first_line(error)
            self._fail(master, reason)
            raise SparkUnavailable(f"Spark did not start on {master}: {reason}") from error
        self._running = wanted
        self._starts += 1
        self._state = SparkState(SparkPhase.READY, master)
        SESSION_READY.set()
        log.info("Spark %s is ready on %s", self._session_version(), master)
        for lease in self._wanting():
            lease._ready()

    def _fail(self, master: str, reason: str) -> None:
        self._shut(SparkState(SparkPhase.FAILED, master, reason), CLOSE_TIMEOUT_S)
        for lease in self._wanting():
            lease._failed()

    def _launch(self, wanted: _Wanted, props: dict[str, str], *, low_priority: bool) -> None:
        away = wanted.frames and not is_local(props[MASTER])
        jvm: SparkJvm | SubmittedJvm
        if is_submitted():
            jvm = SubmittedJvm(props)
        else:
            jvm = SparkJvm(props, low_priority=low_priority, own_directory=away)
        self._jvm = jvm
        jvm.start(Deadline(START_TIMEOUT_S))
        check_connector_jars(props)
        context = self._context = SparkContext(gateway=jvm.gateway, conf=jvm.conf)
        hush_accumulators(context)
        ship(context, jvm.directory, cache_directory(), frames=wanted.frames)
        self._session = SparkSession(context)

    def _session_version(self) -> str:
        return self._session.version if self._session is not None else ""

    def _ended(self, error: Exception) -> None:
        self.ended_by = error
        log.error("Spark cannot start: %s", error)

    # Run by the owner's thread, or by the closing thread after the owner's has ended.

    def _shut(self, state: SparkState, timeout: float) -> None:
        context, self._context, self._session = self._context, None, None
        SESSION_READY.clear()
        jvm, self._jvm = self._jvm, None
        self._state = state
        if context is not None and jvm is not None and jvm.alive:
            stopping = threading.Thread(
                target=_stop, args=(context,), name="spark-stop", daemon=True
            )
            stopping.start()
            stopping.join(timeout)
        if jvm is not None:
            jvm.close(timeout)
        if context is not None:
            _forget(context)


def _reach(master: str) -> str | None:
    """Raise if no standalone master can be reached, because Spark itself would try for a minute and
    report little. Returns this machine's address as the master sees it, for executors to connect
    to."""
    masters = standalone_masters(master)
    reasons = []
    for host, port in masters:
        try:
            with socket.create_connection((host, port), REACH_TIMEOUT_S) as connection:
                return str(connection.getsockname()[0])
        except OSError as error:
            reasons.append(f"{host}:{port}: {error.strerror or error}")
    if masters:
        raise SparkUnavailable(f"Cannot reach the Spark master {master}: {', '.join(reasons)}")
    return None


def _is_stopped(context: SparkContext) -> bool:
    try:
        return bool(context._jsc.sc().isStopped())
    except (Py4JError, OSError):
        return True


def _stop(context: SparkContext) -> None:
    try:
        context.stop()
    except (Py4JError, OSError) as error:
        log.debug("Cannot stop Spark properly, ending its JVM: %s", first_line(error))


def _forget(context: SparkContext) -> None:
    """Clear the class variables in which PySpark keeps the context and session, even of a dead
    JVM."""
    with SparkContext._lock:
        if SparkContext._active_spark_context is context:
            SparkContext._active_spark_context = None
    SparkSession._instantiatedSession = None
    if hasattr(SparkSession, "_activeSession"):
        SparkSession._activeSession = None


_shared_lock = threading.Lock()
_shared: SharedSession | None = None


def shared_session() -> SharedSession:
    """Return this process's session. It is created here, started by its first user, and closed with
    the process."""
    global _shared
    with _shared_lock:
        if _shared is None:
            _shared = SharedSession()
            atexit.register(_shared.close)
        return _shared
