"""One flow of dedicated mode: a worker of the flow's group, against the target cluster.

All processes with the flow are one Connect group, which shares its connectors and tasks. Whoever
comes to lead it writes the connectors' configs, where those stored are others. Starting runs on a
thread of its own and is tried again until it works, as clusters come and go; so is a worker that
ends by itself. A config that can never work ends the flow, and only it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from connect.clock import SYSTEM_CLOCK, Clock, Deadline
from connect.errors import ConfigError, ConnectError
from connect.loop import BackgroundLoop, Backoff, OnError
from connect.runtime.connector_status import ConnectorStatus, UnknownConnector
from connect.runtime.errors import BadRequest, NotFound, NotLeader
from connect.runtime.herder import ConnectHerder
from connect.runtime.states import State, Status
from connectors.mirrormaker.config.precedence import MIRROR_CONNECTORS

__all__ = ["FlowHerder", "FlowPlan", "FlowState", "MirrorFlow"]

log = logging.getLogger(__name__)

START_TIMEOUT_S = 30.0
"""How long one try to start may take: mostly reading the worker's topics to their ends."""

RETRY_FIRST_S, RETRY_CAP_S = 0.5, 15.0
"""Waits between tries: short first, as clusters and mirror are often started together."""

JOIN_TIMEOUT_S = 30.0
"""How long a worker that has started is given to join its group, or to be refused."""

WATCH_S = 1.0
"""How often it is looked whether the worker has ended by itself."""


class FlowHerder(ConnectHerder, Protocol):
    """What a flow needs of its worker's herder."""

    def start(self, deadline: Deadline) -> None:
        """Read what is stored and begin to join the group."""

    def await_ready(self, timeout_s: float) -> bool:
        """Wait until the worker was in its group once. False: not by then. Raises what ended it."""

    def status(self, name: str) -> ConnectorStatus:
        """Raises `UnknownConnector`."""


class FlowState(Enum):
    """STARTING also while tries fail for reasons that may pass; FAILED is for good."""

    STARTING = "STARTING"
    RUNNING = "RUNNING"
    FAILED = "FAILED"
    STOPPED = "STOPPED"


@dataclass(frozen=True, slots=True)
class FlowPlan:
    """What a flow runs. `connectors`: name -> config, in the order in which they are put."""

    source: str
    target: str
    connectors: Mapping[str, Mapping[str, str]]

    @property
    def name(self) -> str:
        return f"{self.source}->{self.target}"


class MirrorFlow:
    """Starts, watches and stops one flow's worker. `start` and `stop` are its owner's, once each;
    the rest may be called from any thread."""

    def __init__(
        self,
        plan: FlowPlan,
        make_herder: Callable[[Callable[[], None]], FlowHerder],
        probe: Callable[[], object],
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """`make_herder` makes one that was not started; it gets what is to be called when the
        worker has become its group's leader. `probe` raises within seconds, saying so, where the
        target cannot be reached: starting a herder would find out much later."""
        self.plan = plan
        self._make_herder = make_herder
        self._probe = probe
        self._clock = clock
        self._lock = threading.Lock()
        self._state = FlowState.STARTING
        self._state_since_ms = clock.now_ms()
        self._error: str | None = None
        self._herder: FlowHerder | None = None
        self._to_configure = threading.Event()
        self._loop = BackgroundLoop(
            plan.name,
            self._step,
            interval_s=WATCH_S,
            backoff=Backoff(RETRY_FIRST_S, RETRY_CAP_S),
            classify=lambda error: OnError.END if isinstance(error, ConfigError) else OnError.RETRY,
            on_end=self._failed,
        )

    @property
    def state(self) -> FlowState:
        return self._state

    @property
    def error(self) -> str | None:
        """Why it does not run; None when it does, or nothing has failed yet."""
        return self._error

    @property
    def herder(self) -> FlowHerder | None:
        """The worker's herder; None while there is none."""
        return self._herder

    def start(self) -> None:
        """Begin to start; returns at once."""
        self._loop.start()

    def stop(self, deadline: Deadline) -> bool:
        """Stop everything, final offsets stored. False: something did not end in time."""
        self._loop.request_stop()
        with self._lock:
            self._state = FlowState.STOPPED
            herder, self._herder = self._herder, None
        # A try to start that is under way holds nothing: it ends by itself, on a daemon thread.
        return True if herder is None else herder.stop(deadline)

    def renew(self, plan: FlowPlan) -> None:
        """From now on its connectors' configs are these: written by this process, if it leads, or
        when it comes to lead."""
        self.plan = plan
        self._to_configure.set()
        self._loop.wake()

    def statuses(self) -> Sequence[ConnectorStatus]:
        """The connectors' statuses, on whatever worker; of a flow that does not run yet,
        UNASSIGNED and why."""
        herder = self._herder
        if herder is None:
            state = State.FAILED if self._state is FlowState.FAILED else State.UNASSIGNED
            why = self._error or f"The worker of {self.plan.name} is starting"
            return [self._unknown(name, state, why) for name in self.plan.connectors]
        found = []
        for name in dict.fromkeys((*self.plan.connectors, *herder.connectors())):
            try:
                found.append(herder.status(name))
            except UnknownConnector:
                why = self._error or self._why_unknown(herder)
                found.append(self._unknown(name, State.UNASSIGNED, why))
        return found

    def _why_unknown(self, herder: FlowHerder) -> str:
        trouble = herder.health().trouble
        return trouble or f"The leader of {self.plan.name} has not configured it yet"

    def _unknown(self, name: str, state: State, why: str | None) -> ConnectorStatus:
        return ConnectorStatus(name, Status(state, self.plan.name, self._state_since_ms, why), ())

    # On the loop's thread.

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
        """A worker that its group refuses has not started: the next try waits longer. Raises what
        ended it. Where the group only takes its time, it is not waited for any longer."""
        deadline = Deadline(JOIN_TIMEOUT_S, self._clock)
        while self._state is not FlowState.STOPPED:
            if herder.await_ready(WATCH_S):
                self._error = None
                return
            if deadline.expired():
                return

    def _note_leading(self) -> None:
        """On the herder's thread."""
        self._to_configure.set()
        self._loop.wake()

    def _take(self, herder: FlowHerder) -> bool:
        """Keep a herder that has started. False: the flow was stopped meanwhile."""
        with self._lock:
            if self._state is FlowState.STOPPED:
                return False
            self._herder = herder
            self._state = FlowState.RUNNING
            return True

    def _give_up(self, herder: FlowHerder, error: Exception) -> None:
        """The worker has ended by itself: what is left of it goes, and another one is started."""
        with self._lock:
            if self._state is FlowState.STOPPED:
                return
            self._herder = None
            self._state, self._error = FlowState.STARTING, str(error) or type(error).__name__
            self._state_since_ms = self._clock.now_ms()
        herder.stop(Deadline(START_TIMEOUT_S, self._clock))

    def _configure(self, herder: FlowHerder) -> None:
        """As the leader: see to it that the group runs what this process's properties say. A
        connector whose config is refused does not keep the flow's others from running."""
        self._error = None
        for name, planned in self.plan.connectors.items():
            # As in MirrorMaker 2 connectors are called by their classes, whatever `name` says.
            config = {**planned, "name": name}
            try:
                if _stored(herder, name) == config:
                    log.info("%s: %s is configured as it is stored", self.plan.name, name)
                    continue
                herder.put_connector_config(name, config, allow_replace=True)
                log.info("%s: %s configured", self.plan.name, name)
            except NotLeader:
                log.info("%s: another worker leads now, and configures %s", self.plan.name, name)
                return
            except (BadRequest, ConfigError) as error:
                log.error("%s: connector %s is not run: %s", self.plan.name, name, error)
                self._error = f"{name}: {error}"
        for name in MIRROR_CONNECTORS:
            if name not in self.plan.connectors and _stored(herder, name) is not None:
                herder.delete_connector(name)
                log.info("%s: %s deleted: these properties have none", self.plan.name, name)

    def _note(self, error: ConnectError) -> None:
        """Log a reason that is not the last one; the loop logs the first, and then at debug."""
        reason = str(error)
        if self._error not in (None, reason):
            log.warning("%s cannot start yet: %s", self.plan.name, reason)
        self._error = reason

    def _failed(self, error: Exception) -> None:
        log.error("%s is not run: %s", self.plan.name, error)
        with self._lock:
            if self._state is not FlowState.STOPPED:
                self._state = FlowState.FAILED
                self._error = str(error)


def _stored(herder: FlowHerder, name: str) -> Mapping[str, str] | None:
    try:
        return herder.connector_config(name)
    except NotFound:
        return None
