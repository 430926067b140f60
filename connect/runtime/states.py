"""The states of connectors and tasks, the allowed transitions, and each instance's current status.

Names are Kafka Connect's. Statuses are kept in memory; a listener may store them elsewhere, for
example in the status topic.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from connect.clock import SYSTEM_CLOCK, Clock
from connect.config.secrets import without_secrets
from connect.errors import ConnectError
from connect.storage.instance_id import InstanceId, State, TargetState

__all__ = [
    "ALLOWED_MOVES",
    "InstanceId",
    "InvalidTransition",
    "State",
    "Status",
    "StatusBook",
    "StatusListener",
    "TargetState",
]

_log = logging.getLogger(__name__)

# Enough history to see how an instance got to its state, and short enough to print.
_HISTORY = 10


_S = State
ALLOWED_MOVES: Mapping[State | None, frozenset[State]] = {
    None: frozenset({_S.UNASSIGNED, _S.RUNNING, _S.PAUSED, _S.FAILED, _S.STOPPED, _S.RESTARTING}),
    _S.UNASSIGNED: frozenset(
        {_S.RUNNING, _S.PAUSED, _S.FAILED, _S.STOPPED, _S.RESTARTING, _S.DESTROYED}
    ),
    _S.RUNNING: frozenset(
        {_S.PAUSED, _S.FAILED, _S.STOPPED, _S.RESTARTING, _S.UNASSIGNED, _S.DESTROYED}
    ),
    _S.PAUSED: frozenset(
        {_S.RUNNING, _S.FAILED, _S.STOPPED, _S.RESTARTING, _S.UNASSIGNED, _S.DESTROYED}
    ),
    _S.STOPPED: frozenset(
        {_S.RUNNING, _S.PAUSED, _S.FAILED, _S.RESTARTING, _S.UNASSIGNED, _S.DESTROYED}
    ),
    # A failure stays visible until someone restarts, stops, moves or deletes the instance.
    _S.FAILED: frozenset({_S.RESTARTING, _S.STOPPED, _S.UNASSIGNED, _S.DESTROYED}),
    _S.RESTARTING: frozenset(
        {_S.RUNNING, _S.PAUSED, _S.FAILED, _S.STOPPED, _S.UNASSIGNED, _S.DESTROYED}
    ),
    _S.DESTROYED: frozenset(),
}
"""The allowed transitions from each state (None: no state yet)."""


@dataclass(frozen=True, slots=True)
class Status:
    """An instance's state since `since_ms` (epoch).

    `trace` is the text of a failure, or of a problem while the rest runs. `version` is the
    plugin's; None if there is no plugin.
    """

    state: State
    worker_id: str
    since_ms: int
    trace: str | None = None
    version: str | None = None


class InvalidTransition(ConnectError):
    """A transition that `ALLOWED_MOVES` forbids. The message includes the instance's recent
    states."""


StatusListener = Callable[[InstanceId, Status], None]
"""Called with every change, in order, under the book's lock: it must be quick and must not call
back.
"""


class StatusBook:
    """The status of every instance of this worker. Thread-safe."""

    def __init__(
        self, worker_id: str, clock: Clock = SYSTEM_CLOCK, listener: StatusListener | None = None
    ) -> None:
        self._worker_id = worker_id
        self._clock = clock
        self.listener = listener
        """The listener. Set it before the first change."""
        self.on_failure: Callable[[InstanceId, str], None] = lambda instance, trace: None
        """Called once for each failure, with its trace, on the thread that notes it and without a
        lock. Set it before the first change."""
        self._lock = threading.Lock()
        self._statuses: dict[InstanceId, Status] = {}
        self._histories: dict[InstanceId, deque[State]] = {}
        self._versions: dict[InstanceId, str] = {}

    def set_version(self, instance: InstanceId, version: str) -> None:
        """Set the plugin version for the instance's statuses from now on."""
        with self._lock:
            self._versions[instance] = version

    def move(self, instance: InstanceId, state: State, trace: str | None = None) -> None:
        """Record a new state. A move to the current state changes nothing and notifies nobody.

        Raises `InvalidTransition`.
        """
        with self._lock:
            current = self._statuses.get(instance)
            if current is not None and current.state is state:
                return
            before = None if current is None else current.state
            history = self._histories.setdefault(instance, deque(maxlen=_HISTORY))
            if state not in ALLOWED_MOVES[before]:
                so_far = " -> ".join(past.value for past in history) or "nothing"
                raise InvalidTransition(
                    f"{instance} cannot become {state.value}; its states so far: {so_far}"
                )
            history.append(state)
            told = _without_secrets(trace)
            self._put(instance, state, told)
        if state is State.FAILED:
            self.on_failure(instance, told or "")

    def annotate(self, instance: InstanceId, trace: str | None) -> None:
        """Set the problem text of an instance that stays RUNNING; None clears it."""
        trace = _without_secrets(trace)
        with self._lock:
            current = self._statuses.get(instance)
            if current is None or current.state is not State.RUNNING or current.trace == trace:
                return
            self._put(instance, State.RUNNING, trace, since_ms=current.since_ms)

    def try_move(self, instance: InstanceId, state: State, trace: str | None = None) -> None:
        """Change the state as `move` does, but only log a forbidden transition."""
        try:
            self.move(instance, state, trace)
        except InvalidTransition as error:
            _log.warning("%s", error)

    def tell_again(self, instance: InstanceId) -> None:
        """Notify the listener of the instance's current status again; do nothing if it has no
        status."""
        with self._lock:
            status = self._statuses.get(instance)
            if status is not None and self.listener is not None:
                self.listener(instance, status)

    def forget(self, instance: InstanceId) -> None:
        """Remove a deleted instance. Listeners get DESTROYED."""
        with self._lock:
            if instance in self._statuses:
                self._put(instance, State.DESTROYED, None)
                del self._statuses[instance]
                self._histories.pop(instance, None)
            self._versions.pop(instance, None)

    def release(self, instance: InstanceId) -> None:
        """Another worker owns the instance now: forget it without notifying the listener."""
        with self._lock:
            self._statuses.pop(instance, None)
            self._histories.pop(instance, None)
            self._versions.pop(instance, None)

    def get(self, instance: InstanceId) -> Status | None:
        with self._lock:
            return self._statuses.get(instance)

    def is_failed(self, instance: InstanceId) -> bool:
        status = self.get(instance)
        return status is not None and status.state is State.FAILED

    def connectors(self) -> dict[str, Status]:
        """Return the statuses of all connectors of this worker, by name."""
        with self._lock:
            return {
                instance.connector: status
                for instance, status in sorted(self._statuses.items(), key=lambda item: item[0])
                if not instance.is_task
            }

    def tasks_of(self, connector: str) -> dict[int, Status]:
        """Return the statuses of a connector's tasks, by number."""
        with self._lock:
            return {
                instance.task: status
                for instance, status in sorted(self._statuses.items(), key=lambda item: item[0])
                if instance.connector == connector and instance.is_task
            }

    def validate(self) -> None:
        """Check the invariant that every status is the last of its history. For tests."""
        with self._lock:
            for instance, status in self._statuses.items():
                assert self._histories[instance][-1] is status.state, instance

    def _put(
        self, instance: InstanceId, state: State, trace: str | None, since_ms: int | None = None
    ) -> None:
        since = self._clock.now_ms() if since_ms is None else since_ms
        status = Status(state, self._worker_id, since, trace, self._versions.get(instance))
        self._statuses[instance] = status
        if self.listener is not None:
            self.listener(instance, status)


def _without_secrets(trace: str | None) -> str | None:
    """A plugin's error may quote its config."""
    return None if trace is None else without_secrets(trace)
