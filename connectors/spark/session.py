"""The one Spark session of this process: started in the background when needed, and shared.

A session costs a JVM, some seconds and some hundred megabytes (or a share of a Spark Connect
server), so it exists only while a user needs it. Nothing waits for it: a connector takes a lease,
requests the session when it has work (`want`), releases it when it has none (`rest`), and is called
when there is a session. One thread owns everything. It starts the driver
(`connectors.spark.drivers`), checks it, restarts it with a growing backoff when the driver or its
master is lost, and stops it when it was idle for some time. `close` ends it with the process.

A session is never taken from a user. If another one needs what it lacks, such as Spark's Kafka
source, that user waits until all others have rested; then the session is restarted for all.
"""

from __future__ import annotations

import atexit
import logging
import threading
from collections.abc import Callable, Mapping

import pyspark  # noqa: F401 - before its parts
from pyspark.sql import SparkSession

from connect.clock import SYSTEM_CLOCK, Deadline
from connect.errors import ConfigError
from connect.log_fields import without_log_fields
from connect.loop import BackgroundLoop, Backoff, OnError
from connect.metrics.registry import MetricValue
from connectors.spark.drivers.classic import ClassicDriver
from connectors.spark.drivers.driver import SparkDriver
from connectors.spark.drivers.remote import RemoteDriver
from connectors.spark.drivers.submitted import submitted_properties
from connectors.spark.errors import SparkUnavailable, first_line
from connectors.spark.properties import (
    MASTER,
    REMOTE,
    check_spark_properties,
    has_kafka_connector,
    idle_timeout_s,
    place_of,
    remote_of,
    runs_here,
    spark_properties,
    worker_properties,
)
from connectors.spark.requirements import is_submitted
from connectors.spark.session_lease import SessionNeeds, SessionSettings, SparkLease
from connectors.spark.session_state import SESSION_READY, SparkPhase, SparkState

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

CLOSE_TIMEOUT_S = 5.0
RETRY_FIRST_S, RETRY_CAP_S = 2.0, 60.0


class SharedSession:
    """Starts, shares and stops the session. `acquire`, `session`, `state` and `close` are for any
    thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._leases: list[SparkLease] = []
        self._wanted: SessionSettings | None = None
        self._running: SessionSettings | None = None
        self._driver: SparkDriver | None = None
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

        `props`: properties whose `spark.*` configure it. While others have a lease, their
        properties count, and the log names those of these that have no effect. Once nobody has a
        lease, the session is started again with these. The longest idle timeout counts. `kafka`:
        with Spark's Kafka source; `frames`: with what Python data sources need, also on executors.
        `on_ready`: called on the owner's thread for each session that becomes ready while wanted;
        `on_failed`: there too, for each start that fails; both must not block. `background`: for
        work that can wait. While all users are so, a session on this machine has the lowest CPU
        priority. Raises `ConfigError` for properties that no session can be made of, and, unless
        `background`, for another master than that of the session that others use.
        """
        needs = SessionNeeds(kafka, frames, background)
        lease = SparkLease(self, on_ready, on_failed, needs)
        given = {**worker_properties(), **spark_properties(props)}
        check_spark_properties(given)
        with self._lock:
            if self._closed:
                raise SparkUnavailable("Spark is closed because the process is ending")
            before = self._wanted
            # Without other leases, the properties of the next user apply.
            counting = before.given if before is not None and self._leases else given
            if not background:
                _check_master(who, given, counting)
            idle_s = idle_timeout_s(props)
            self._idle_s = max(idle_s, self._idle_s) if self._leases else idle_s
            self._leases.append(lease)
            self._wanted = SessionSettings(
                counting,
                kafka or has_kafka_connector(counting) or (before is not None and before.kafka),
                frames or (before is not None and before.frames),
                all(each.needs.background for each in self._leases) and runs_here(counting),
            )
            lease.wanting = wanted
            ready = wanted and self._lends_to(lease)
            lease.holding = ready
            starting = self._driver if self._session is None and before != self._wanted else None
            ignored = sorted(key for key in given if given[key] != counting.get(key))
        if ignored:
            log.warning(
                "%s: another connector of this process configured the Spark session; ignored: %s",
                who,
                ", ".join(ignored),
            )
        if before is None:
            self._loop.start()
        elif ready:
            on_ready()
        elif wanted:
            if starting is not None:
                starting.give_up()
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
        driver = self._driver
        if driver is not None and self._session is None:
            driver.abort(timeout)
        self._loop.stop(timeout)
        self._shut(SparkState(SparkPhase.STOPPED), timeout)

    # Called by leases.

    def want(self, lease: SparkLease, start: bool) -> SparkSession | None:
        with self._lock:
            if self._lends_to(lease):
                lease.wanting = lease.holding = True
                return self._session
            if not start:
                return None
            again, lease.wanting = lease.wanting, True
        if not again:
            self._loop.wake()
        return None

    def rest(self, lease: SparkLease) -> None:
        with self._lock:
            if lease.wanting:
                lease.wanting = False
                self._last_wanted = SYSTEM_CLOCK.monotonic()
        self.give_back(lease)

    def give_back(self, lease: SparkLease) -> None:
        with self._lock:
            lease.holding = False
            waiting = self._restart_is_due()
        if waiting:
            self._loop.wake()

    def release(self, lease: SparkLease) -> None:
        self.rest(lease)
        with self._lock:
            if lease in self._leases:
                self._leases.remove(lease)

    def session_of(self, lease: SparkLease) -> SparkSession | None:
        with self._lock:
            return self._session if self._suits(lease) else None

    def state_of(self, lease: SparkLease) -> SparkState:
        with self._lock:
            running = self._running
            if self._session is None or self._suits(lease) or running is None:
                return self._state
            missing = running.lacks(lease.needs) or "this user's properties"
        reason = f"others use it without {missing}; it is restarted once they are idle"
        return SparkState(SparkPhase.BUSY, self._state.master, reason)

    def is_asked_back(self) -> bool:
        with self._lock:
            return self._session is not None and self._restart_is_due()

    def look(self) -> None:
        self._loop.wake()

    # With the lock.

    def _suits(self, lease: SparkLease) -> bool:
        """Whether the session that runs has what this user needs."""
        running, wanted = self._running, self._wanted
        return (
            self._session is not None
            and running is not None
            and wanted is not None
            and running.given == wanted.given
            and not running.lacks(lease.needs)
        )

    def _restart_is_due(self) -> bool:
        return any(lease.wanting and not self._suits(lease) for lease in self._leases)

    def _lends_to(self, lease: SparkLease) -> bool:
        """Whether the user may begin, or go on, to use the session."""
        return self._suits(lease) and (lease.holding or not self._restart_is_due())

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
            return [lease for lease in self._leases if lease.wanting]

    def _take_if_idle(self) -> bool:
        """Take the session from its users if it has been idle for long enough. Returns whether it
        did."""
        with self._lock:
            unused = SYSTEM_CLOCK.monotonic() - self._last_wanted
            wanted = any(lease.wanting for lease in self._leases)
            if wanted or unused < self._idle_s:
                return False
            self._session = None
        log.info("stopping Spark, idle for %.0f s", unused)
        return True

    def _take_if_unsuited(self) -> bool:
        """Take the session from its users if one needs what it lacks, and no other one uses it now.
        Returns whether it did."""
        with self._lock:
            if not self._restart_is_due() or any(lease.holding for lease in self._leases):
                return False
            self._session = None
        log.info("restarting Spark, because its users need other properties")
        return True

    def _look(self) -> None:
        """Check whether the session is still needed, alive and configured as its users need."""
        if self._take_if_idle():
            self._shut(SparkState(SparkPhase.IDLE, self._state.master), CLOSE_TIMEOUT_S)
            return
        if self._take_if_unsuited():
            self._shut(SparkState(SparkPhase.STARTING, self._state.master), CLOSE_TIMEOUT_S)
            return
        assert self._driver is not None
        lost = self._driver.why_lost()
        if not lost:
            return
        reason = f"lost: {lost}"
        self._shut(SparkState(SparkPhase.FAILED, self._state.master, reason), CLOSE_TIMEOUT_S)
        raise SparkUnavailable(f"The Spark session was {reason}")

    def _start(self) -> None:
        with self._lock:
            wanted = self._wanted
        assert wanted is not None
        given = wanted.given
        if is_submitted():
            given = {**given, **submitted_properties()}
            given.pop(REMOTE, None)
        place = place_of(given)
        self._state = SparkState(SparkPhase.STARTING, place)
        try:
            driver = self._driver = _driver(wanted, given)
            session = driver.start(Deadline(START_TIMEOUT_S))
            with self._lock:
                self._running, self._session = wanted, session
        except (SparkUnavailable, ConfigError) as error:
            if self._wanted != wanted and not self._closed:
                self._shut(self._state, CLOSE_TIMEOUT_S)
                # The next round starts a session with the current properties.
                self._loop.wake()
                return
            self._fail(place, str(error))
            raise
        except Exception as error:
            reason = first_line(error)
            self._fail(place, reason)
            raise SparkUnavailable(f"Spark did not start on {place}: {reason}") from error
        self._starts += 1
        self._state = SparkState(SparkPhase.READY, place)
        SESSION_READY.set()
        log.info("Spark %s is ready on %s", session.version, place)
        with self._lock:
            ready = [lease for lease in self._leases if lease.wanting and self._lends_to(lease)]
            for lease in ready:
                lease.holding = True
        for lease in ready:
            lease.on_ready()

    def _fail(self, master: str, reason: str) -> None:
        self._shut(SparkState(SparkPhase.FAILED, master, reason), CLOSE_TIMEOUT_S)
        for lease in self._wanting():
            lease.on_failed()

    def _ended(self, error: Exception) -> None:
        self.ended_by = error
        log.error("Spark cannot start: %s", error)

    # Run by the owner's thread, or by the closing thread after the owner's has ended.

    def _shut(self, state: SparkState, timeout: float) -> None:
        with self._lock:
            self._session = None
            for lease in self._leases:
                lease.holding = False
        SESSION_READY.clear()
        driver, self._driver = self._driver, None
        self._state = state
        if driver is not None:
            driver.close(timeout)


def _driver(wanted: SessionSettings, given: Mapping[str, str]) -> SparkDriver:
    if remote_of(given):
        return RemoteDriver(given, kafka=wanted.kafka)
    return ClassicDriver(
        given, kafka=wanted.kafka, frames=wanted.frames, background=wanted.background
    )


def _check_master(who: str, given: Mapping[str, str], counting: Mapping[str, str]) -> None:
    named, used = (place_of(each) for each in (given, counting))
    if named != used:
        raise ConfigError(
            f"{who} names the Spark master {named}, but others of this process use {used}, and a "
            "process has one Spark session: name the same master, or run it in a process of its "
            "own",
            key=MASTER,
            value=named,
        )


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
