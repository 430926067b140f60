"""One flow of dedicated mode: a worker of the flow's group, connected to the target cluster.

All processes that run the flow form one Connect group, which shares its connectors and tasks. The
group's leader writes the connectors' configs if the stored ones differ. Starting runs on its own
thread and is retried until it succeeds, because a cluster may be unreachable. A worker that ends
unexpectedly is restarted. An invalid config ends only its own flow.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol

from connect.clock import SYSTEM_CLOCK, Clock, Deadline
from connect.errors import ConfigError, ConnectError
from connect.log_fields import with_log_fields
from connect.loop import BackgroundLoop, Backoff, OnError
from connect.metrics.registry import MetricRegistry
from connect.runtime.connector_status import ConnectorStatus, UnknownConnector, show_health
from connect.runtime.errors import BadRequest, NotFound, NotLeader
from connect.runtime.herder import Herder
from connect.runtime.states import State, Status
from connectors.mirror.history.flow_events import changed_keys, write_change, write_failure
from connectors.mirrormaker.config.precedence import MIRROR_CONNECTORS

__all__ = ["FlowHerder", "FlowPlan", "FlowState", "MirrorFlow"]

log = logging.getLogger(__name__)

START_TIMEOUT_S = 30.0
"""Time limit for one attempt to start. Most of it is spent reading the worker's topics to their
ends."""

RETRY_FIRST_S, RETRY_CAP_S = 0.5, 15.0
"""Waits between attempts. They start short, because clusters and mirror often start together."""

JOIN_TIMEOUT_S = 30.0
"""Time limit for a started worker to join its group or to be rejected."""

WATCH_S = 1.0
"""Interval for checking whether the worker has ended unexpectedly."""


class FlowHerder(Herder, Protocol):
    """The part of the worker's herder interface that a flow uses."""

    def start(self, deadline: Deadline) -> None:
        """Read the stored state and begin to join the group."""

    def await_ready(self, timeout_s: float) -> bool:
        """Wait until the worker has joined its group once. Returns False after the timeout. Raises
        the error that ended the worker."""


class FlowState(Enum):
    """STARTING also covers retries after temporary errors; FAILED is permanent."""

    STARTING = "STARTING"
    RUNNING = "RUNNING"
    FAILED = "FAILED"
    STOPPED = "STOPPED"


@dataclass(frozen=True, slots=True)
class FlowPlan:
    """The connectors of a flow. `connectors`: config by name, in the order of creation."""

    source: str
    target: str
    connectors: Mapping[str, Mapping[str, str]] = field(repr=False)

    @property
    def name(self) -> str:
        return f"{self.source}->{self.target}"


class MirrorFlow:
    """Starts, watches and stops one flow's worker. The owner calls `start` and `stop` once each;
    any thread may call the rest."""

    def __init__(
        self,
        plan: FlowPlan,
        make_herder: Callable[[Callable[[], None]], FlowHerder],
        probe: Callable[[], object],
        metrics: MetricRegistry,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """`make_herder` returns a herder that is not started; its argument is called when the
        worker becomes group leader. `probe` fails within seconds if the target is unreachable,
        which starting a herder would detect much later. `metrics`: gets the health of the flow's
        connectors, also while there is no herder."""
        self.plan = plan
        self._make_herder = make_herder
        self._probe = probe
        self._metrics = metrics
        self._hide_health: Callable[[], None] = lambda: None
        self._clock = clock
        self._lock = threading.Lock()
        self._state = FlowState.STARTING
        self._state_since_ms = clock.now_ms()
        self._error: str | None = None
        self._herder: FlowHerder | None = None
        self._to_configure = threading.Event()
        # All threads of the flow's worker are its children.
        with with_log_fields(flow=plan.name):
            self._loop = BackgroundLoop(
                plan.name,
                self._step,
                interval_s=WATCH_S,
                backoff=Backoff(RETRY_FIRST_S, RETRY_CAP_S),
                classify=lambda e: OnError.END if isinstance(e, ConfigError) else OnError.RETRY,
                on_end=self._failed,
            )

    @property
    def state(self) -> FlowState:
        return self._state

    @property
    def error(self) -> str | None:
        """Return why the flow does not run; None while it runs or has not failed yet."""
        return self._error

    def not_ready(self) -> str | None:
        """Return why this process does not run the flow yet; None if its worker has joined the
        group."""
        herder = self._herder
        if herder is None:
            return self._error or "its worker is starting"
        try:
            health = herder.health()
        except ConnectError as error:
            return str(error)
        if health.ready:
            return None
        return health.trouble or self._error or health.stage or "its worker is joining its group"

    @property
    def herder(self) -> FlowHerder | None:
        """Return the worker's herder; None if there is none."""
        return self._herder

    def start(self) -> None:
        """Begin to start, and return at once."""
        self._hide_health = show_health(self._metrics, self.statuses)
        self._loop.start()

    def stop(self, deadline: Deadline) -> bool:
        """Stop everything and store the final offsets. Returns False if something did not stop in
        time."""
        self._hide_health()
        self._loop.request_stop()
        with self._lock:
            self._state = FlowState.STOPPED
            herder, self._herder = self._herder, None
        # An unfinished start holds no resources and ends by itself on a daemon thread.
        return True if herder is None else herder.stop(deadline)

    def renew(self, plan: FlowPlan) -> None:
        """Replace the connectors' configs. This process writes them if it leads the group, now or
        later."""
        self.plan = plan
        self._to_configure.set()
        self._loop.wake()

    def statuses(self) -> Sequence[ConnectorStatus]:
        """Return the connectors' statuses, whichever worker runs them; UNASSIGNED with a reason if
        the flow does not run yet."""
        herder = self._herder
        others = () if herder is None else herder.connectors()
        return [
            self._status(herder, name, lambda herder, name: herder.status(name))
            for name in dict.fromkeys((*self.plan.connectors, *others))
        ]

    def group_status(self, name: str) -> ConnectorStatus:
        """The status of one connector as in `statuses`, with the partitions of all its tasks, as
        far as the other workers answer."""
        return self._status(self._herder, name, lambda herder, name: herder.group_status(name))

    def _status(
        self,
        herder: FlowHerder | None,
        name: str,
        ask: Callable[[FlowHerder, str], ConnectorStatus],
    ) -> ConnectorStatus:
        if herder is None:
            state = State.FAILED if self._state is FlowState.FAILED else State.UNASSIGNED
            why = self._error or f"The worker of {self.plan.name} is starting"
            return self._unknown(name, state, why)
        try:
            return ask(herder, name)
        except UnknownConnector:
            why = self._error or self._why_unknown(herder)
            return self._unknown(name, State.UNASSIGNED, why)

    def _why_unknown(self, herder: FlowHerder) -> str:
        trouble = herder.health().trouble
        return trouble or f"The leader of {self.plan.name} has not configured it yet"

    def _unknown(self, name: str, state: State, why: str | None) -> ConnectorStatus:
        return ConnectorStatus(name, Status(state, self.plan.name, self._state_since_ms, why), ())

    # Methods of the loop's thread.

    def _step(self) -> None:
        herder = self._herder
        if herder is None:
            self._start()
            return
        try:
            herder.check()
        except Exception as error:
            self._give_up(herder, error)
            raise
        if self._to_configure.is_set():
            self._to_configure.clear()
            try:
                self._configure(herder)
            except ConnectError:
                self._to_configure.set()
                raise

    def _start(self) -> None:
        try:
            self._probe()
            self._to_configure.clear()
            herder = self._make_herder(self._note_leading)
            herder.start(Deadline(START_TIMEOUT_S, self._clock))
        except ConnectError as error:
            self._note(error)
            raise
        if not self._take(herder):
            herder.stop(Deadline(START_TIMEOUT_S, self._clock))
            return
        try:
            self._await_group(herder)
        except Exception as error:
            self._give_up(herder, error)
            raise
        log.info("%s: started", self.plan.name)

    def _await_group(self, herder: FlowHerder) -> None:
        """Wait until the worker has joined the group.

        Returns without an error if the group is only slow. Raises the error that ended the worker
        if the group rejected it; the next attempt then waits longer.
        """
        deadline = Deadline(JOIN_TIMEOUT_S, self._clock)
        while self._state is not FlowState.STOPPED:
            if herder.await_ready(WATCH_S):
                self._error = None
                return
            if deadline.expired():
                return

    def _note_leading(self) -> None:
        """Called on the herder's thread."""
        self._to_configure.set()
        self._loop.wake()

    def _take(self, herder: FlowHerder) -> bool:
        """Keep a herder that has started. Returns False if the flow was stopped meanwhile."""
        with self._lock:
            if self._state is FlowState.STOPPED:
                return False
            self._herder = herder
            self._state = FlowState.RUNNING
            return True

    def _give_up(self, herder: FlowHerder, error: Exception) -> None:
        """Stop the rest of a worker that has ended unexpectedly, so that another one is started."""
        with self._lock:
            if self._state is FlowState.STOPPED:
                return
            self._herder = None
            self._state, self._error = FlowState.STARTING, str(error) or type(error).__name__
            self._state_since_ms = self._clock.now_ms()
        herder.stop(Deadline(START_TIMEOUT_S, self._clock))

    def _configure(self, herder: FlowHerder) -> None:
        """As the leader, apply this process's properties to the group. A rejected connector config
        does not stop the flow's other connectors."""
        self._error = None
        for name, planned in self.plan.connectors.items():
            # As in MirrorMaker 2, a connector is named after its class; `name` is ignored.
            config = {**planned, "name": name}
            try:
                before = _stored(herder, name)
                if before == config:
                    log.info("%s: the stored config of %s is already current", self.plan.name, name)
                    continue
                herder.put_connector_config(name, config, allow_replace=True)
                log.info("%s: %s configured", self.plan.name, name)
                if before is not None:
                    text = f"The properties file changed {name}: {changed_keys(before, config)}"
                    write_change(planned, name, "file", text)
            except NotLeader:
                log.info(
                    "%s: another worker became the leader and will configure %s",
                    self.plan.name,
                    name,
                )
                return
            except (BadRequest, ConfigError) as error:
                log.error("%s: connector %s does not run: %s", self.plan.name, name, error)
                self._error = f"{name}: {error}"
                write_failure(planned, name, None, str(error))
        for name in MIRROR_CONNECTORS:
            if name not in self.plan.connectors and _stored(herder, name) is not None:
                herder.delete_connector(name)
                text = f"The properties file does not enable {name} any more"
                write_change(next(iter(self.plan.connectors.values()), {}), name, "file", text)
                log.info("%s: deleted %s, which the properties do not enable", self.plan.name, name)

    def _note(self, error: ConnectError) -> None:
        """Log the reason if it differs from the last one. (The retry loop logs only the first one
        above debug level.)"""
        reason = str(error)
        if self._error not in (None, reason):
            log.warning("%s cannot start yet and will retry: %s", self.plan.name, reason)
        self._error = reason

    def _failed(self, error: Exception) -> None:
        log.error("%s does not run: %s", self.plan.name, error)
        for name, planned in self.plan.connectors.items():
            write_failure(planned, name, None, str(error))
        with self._lock:
            if self._state is not FlowState.STOPPED:
                self._state = FlowState.FAILED
                self._error = str(error)


def _stored(herder: FlowHerder, name: str) -> Mapping[str, str] | None:
    try:
        return herder.connector_config(name)
    except NotFound:
        return None
