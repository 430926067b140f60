"""One flow of dedicated mode: a herder against the target cluster, with the flow's connectors.

Starting runs on a thread of its own and is tried again until it works, as clusters come and go; a
config that can never work ends it, and only it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from connect.clock import SYSTEM_CLOCK, Clock, Deadline
from connect.errors import ConfigError, ConnectError
from connect.loop import BackgroundLoop, Backoff, OnError
from connect.runtime.connect_herder import BadRequest
from connect.runtime.herder import ConnectorStatus, Herder, UnknownConnector
from connect.runtime.states import State, Status

__all__ = ["FlowPlan", "FlowState", "MirrorFlow"]

log = logging.getLogger(__name__)

START_TIMEOUT_S = 30.0
"""How long one try to start may take: mostly reading the stored offsets to their end."""

RETRY_FIRST_S, RETRY_CAP_S = 0.5, 15.0
"""Waits between tries: short first, as clusters and mirror are often started together."""

NEVER_S = 365 * 86_400.0
"""The loop has nothing to do once the flow runs."""


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
    """Starts, watches and stops one flow. `start` and `stop` are its owner's, once each; the rest
    may be called from any thread."""

    def __init__(
        self,
        plan: FlowPlan,
        make_herder: Callable[[], Herder],
        probe: Callable[[], object],
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        """`make_herder` makes one that was not started. `probe` raises within seconds, saying
        so, where the target cannot be reached: starting a herder would find out much later."""
        self.plan = plan
        self._make_herder = make_herder
        self._probe = probe
        self._clock = clock
        self._lock = threading.Lock()
        self._state = FlowState.STARTING
        self._state_since_ms = clock.now_ms()
        self._error: str | None = None
        self._herder: Herder | None = None
        self._loop = BackgroundLoop(
            f"Start of {plan.name}",
            self._start,
            interval_s=NEVER_S,
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

    def statuses(self) -> Sequence[ConnectorStatus]:
        """The connectors' statuses; of a flow that does not run yet, UNASSIGNED and why."""
        herder = self._herder
        if herder is None:
            state = State.FAILED if self._state is FlowState.FAILED else State.UNASSIGNED
            status = Status(state, self.plan.name, self._state_since_ms, self._error)
            return [ConnectorStatus(name, status, ()) for name in self.plan.connectors]
        found = []
        for name in herder.connectors():
            try:
                found.append(herder.status(name))
            except UnknownConnector:
                continue
        return found

    def _start(self) -> None:
        try:
            self._probe()
            herder = self._make_herder()
            herder.start(Deadline(START_TIMEOUT_S, self._clock))
        except ConnectError as error:
            self._note(error)
            raise
        if not self._take(herder):
            herder.stop(Deadline(START_TIMEOUT_S, self._clock))
            return
        for name, config in self.plan.connectors.items():
            self._put(herder, name, config)
        log.info("%s: started", self.plan.name)

    def _take(self, herder: Herder) -> bool:
        """Keep a herder that has started. False: the flow was stopped meanwhile."""
        with self._lock:
            if self._state is FlowState.STOPPED:
                return False
            self._herder = herder
            self._state, self._error = FlowState.RUNNING, None
            return True

    def _put(self, herder: Herder, name: str, config: Mapping[str, str]) -> None:
        """One connector whose config is refused does not keep the flow's others from running."""
        try:
            herder.put_connector(config.get("name", name), config)
        except (BadRequest, ConfigError) as error:
            log.error("%s: connector %s is not run: %s", self.plan.name, name, error)
            self._error = f"{name}: {error}"

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
