"""A worker's membership in its Connect group: join, heartbeat, rebalance, leave.

The owner's thread calls `poll` repeatedly, and all callbacks run there. The member's own thread
sends heartbeats and waits for the coordinator, so that an owner who is busy starting or stopping
tasks stays in the group for up to rebalance.timeout.ms. Classic group protocol, protocol type
`connect`, no static membership.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from kafka.errors import KafkaConfigurationError, KafkaError
from kafka.future import Future

from connect.clients.config.properties import wire_settings
from connect.clients.errors import from_kafka_python
from connect.clients.groups.member_coordinator import GroupCallbacks, GroupCoordinator
from connect.clients.groups.member_network import GroupNetwork, GroupTimeouts
from connect.clients.groups.owner_calls import OwnerCalls
from connect.clients.wire.bootstrap_probe import BootstrapProbe
from connect.clock import SYSTEM_CLOCK, Clock, Deadline
from connect.errors import ConfigError
from connect.metrics.coordinator_metrics import CoordinatorMetrics

__all__ = ["GroupCallbacks", "GroupMember", "GroupTimeouts"]

log = logging.getLogger(__name__)

# LeaveGroup is optional: without it the coordinator removes the member after the session timeout.
_LEAVE_TIMEOUT_S = 5.0
_CLOSE_TIMEOUT_S = 5.0
# Reserved out of the time to close, for the thread, which usually ends at once.
_LEAVE_SHARE = 0.6
# Granted even if no time is left, because connections must not be closed while the thread runs.
_LEAST_CLOSE_S = 0.5
# Bounds the delay if a wake-up is missed.
_LONGEST_WAIT_S = 10.0
# How often within rebalance.timeout.ms a waiting owner reports that it is alive.
_SIGNS_OF_LIFE = 3


class GroupMember:
    """One member of a Connect group.

    Only the owner's thread may call its methods, except `wakeup` and `request_rejoin`. The member's
    thread starts with the object, and `close` ends it.

    Retriable errors are retried without end, and logged now and then. `poll` and `ensure_active`
    raise other errors: `AuthenticationFailed`, `BrokerError` if the group refuses the member,
    `CorruptData` if brokers use another protocol, and errors of callbacks. The next poll retries.
    """

    def __init__(
        self,
        properties: Mapping[str, str],
        group_id: str,
        timeouts: GroupTimeouts,
        callbacks: GroupCallbacks,
        clock: Clock = SYSTEM_CLOCK,
        doing: Callable[[], str | None] = lambda: None,
    ) -> None:
        """Start the member. `properties` are the worker's, with Java names; only client keys are
        read. `doing`: returns a sentence that says what its owner is busy with.

        Raises `ConfigError`.
        """
        if timeouts.heartbeat_ms >= timeouts.session_ms:
            raise ConfigError(
                f"Invalid value {timeouts.heartbeat_ms} for configuration heartbeat.interval.ms: "
                f"must be less than session.timeout.ms ({timeouts.session_ms})",
                key="heartbeat.interval.ms",
                value=timeouts.heartbeat_ms,
            )
        self.metrics = CoordinatorMetrics(clock)
        """The member's metrics; its owner registers them."""
        settings = wire_settings(properties)
        self._group_id = group_id
        self._callbacks = callbacks
        self._clock = clock
        self._longest_wait_s = min(_LONGEST_WAIT_S, timeouts.rebalance_ms / 1000 / _SIGNS_OF_LIFE)
        self._network = GroupNetwork(settings, timeouts)
        self._calls = OwnerCalls(self._network.selector)
        try:
            self._coordinator = GroupCoordinator(
                self._network,
                self._calls,
                callbacks,
                group_id,
                timeouts,
                settings,
                self.metrics,
                doing,
            )
        except KafkaConfigurationError as error:
            self._network.close(_CLOSE_TIMEOUT_S)
            raise from_kafka_python(error, f"joining the group {group_id}") from error
        self._joining: Any = None
        self._probe = BootstrapProbe(settings, clock, self._calls.wake)
        self._closed = False

    @property
    def member_id(self) -> str:
        """The member id; empty while the member has none. Thread-safe."""
        return self._coordinator.member_id

    @property
    def generation(self) -> int:
        """The member's generation id; -1 while it is not in the group. During `perform_assignment`
        it is the generation of the rebalance in progress. Thread-safe."""
        return self._coordinator.generation_id

    @property
    def trouble(self) -> str | None:
        """Why the group's coordinator is unreachable; None if it is reachable or nothing has failed
        yet. Thread-safe.
        """
        if self._coordinator.coordinator_id is not None:
            return None
        probed, failed = self._probe.failure, self._network.connections.last_failure
        reason = probed or failed
        return None if reason is None else f"no coordinator of group {self._group_id}: {reason}"

    def poll(self, timeout_s: float) -> None:
        """Do the pending group work: join, rejoin, run callbacks. Report that the owner is alive.

        Returns after `timeout_s` at the latest, and earlier after `wakeup`, a completed rebalance
        or the loss of the coordinator. A join that takes longer goes on, and its callbacks run in
        the next call.
        """
        joins = self._coordinator.joins
        self._run(timeout_s, lambda: self._coordinator.joins != joins)

    def ensure_active(self, timeout_s: float) -> bool:
        """Poll until the member is in the group with no need to rejoin. Return whether it is.

        Returns False after `timeout_s`, a `wakeup`, or the loss of the coordinator.
        """
        self._run(timeout_s, lambda: not self._needs_join())
        return not self._needs_join()

    def request_rejoin(self, reason: str) -> None:
        """Rejoin at the next poll, and once more after a rebalance in progress. Thread-safe."""
        self._coordinator.request_rejoin(reason)

    def wakeup(self) -> None:
        """Make the running or the next poll return at once. Thread-safe."""
        self._calls.interrupt()

    def leave(self, reason: str, timeout_s: float = _LEAVE_TIMEOUT_S) -> None:
        """Leave the group, so that it rebalances at once. The next `poll` would join again.

        Never raises: without LeaveGroup the session times out.
        """
        self._coordinator.resting = True
        self._coordinator.has_assignment = False
        if not self._network.alive:
            return
        leaving = self._coordinator.maybe_leave_group_async
        done = self._network.start(leaving, reason, timeout_s * 1000)
        if not _wait(done, timeout_s):
            log.warning(
                "Group %s: no response to LeaveGroup within %g s; nothing has to be done,"
                " the group misses this member after session.timeout.ms",
                self._group_id,
                timeout_s,
            )
        elif done.exception is not None:
            log.warning(
                "Group %s: LeaveGroup failed; nothing has to be done, the group misses "
                "this member after session.timeout.ms: %s",
                self._group_id,
                done.exception,
            )

    def close(
        self, reason: str = "the worker is shutting down", deadline: Deadline | None = None
    ) -> None:
        """Leave the group, and end the thread and all connections by the deadline, if there is one.

        May be called again.
        """
        if self._closed:
            return
        self._closed = True
        left = 2 * _CLOSE_TIMEOUT_S
        if deadline is not None:
            left = max(_LEAST_CLOSE_S, min(left, deadline.remaining()))
        closing = Deadline(left, self._clock)
        self.leave(reason, min(_LEAVE_TIMEOUT_S, left * _LEAVE_SHARE))
        if self._network.alive:
            self._coordinator._close_heartbeat()
        self._network.close(min(_CLOSE_TIMEOUT_S, closing.remaining()))
        self._probe.close()

    # A single poll.

    def _run(self, timeout_s: float, done: Callable[[], bool]) -> None:
        deadline = Deadline(timeout_s, self._clock)
        self._coordinator.resting = False
        while True:
            self._mark_alive()
            self._step()
            self._check_evicted()
            if self._check_lost() or done() or self._calls.take_interrupt():
                return
            expired = deadline.expired()
            if not self._calls.next(self._pause(deadline)) and expired:
                return

    def _mark_alive(self) -> None:
        try:
            self._coordinator.poll_heartbeat()
        except KafkaError as error:
            what, needs = (
                f"A heartbeat to group {self._group_id}",
                f"Read on group {self._group_id}",
            )
            raise from_kafka_python(error, what, needs) from error

    def _step(self) -> None:
        """Start to join if needed. Raise the error of the last join."""
        joining = self._joining
        if joining is not None and joining.is_done:
            self._joining = None
            if joining.exception is not None:
                self._network.connections.forget_failures()
                error = joining.exception
                if isinstance(error, KafkaError):
                    what = f"Joining group {self._group_id}"
                    needs = f"Read on group {self._group_id}"
                    raise from_kafka_python(error, what, needs) from error
                raise error
        if self._joining is None and self._coordinator.need_rejoin():
            future = self._network.start(self._coordinator.stay_active_async)
            self._joining = future
            future.add_both(lambda _: self._calls.wake())

    def _needs_join(self) -> bool:
        return self._joining is not None or self._coordinator.need_rejoin()

    def _check_evicted(self) -> None:
        """Call the owner if the coordinator removed this member."""
        coordinator = self._coordinator
        if coordinator.evicted and coordinator.has_assignment:
            coordinator.evicted = False
            log.warning("Group %s: the coordinator removed this member; rejoining", self._group_id)
            self._callbacks.on_evicted()

    def _check_lost(self) -> bool:
        """Call the owner if the coordinator was lost. Return whether the call was made now."""
        self._find_out_why()
        coordinator = self._coordinator
        lost_at = coordinator.lost_at
        if lost_at is None or not coordinator.has_assignment or time.monotonic() < lost_at:
            return False
        log.warning(
            "Group %s: coordinator lost; stopping the assigned work, which other "
            "workers may take over, and rejoining when one is found%s",
            self._group_id,
            self._why(),
        )
        coordinator.has_assignment = False
        self._callbacks.on_coordinator_lost()
        coordinator.request_rejoin("the coordinator was lost")
        return True

    def _pause(self, deadline: Deadline) -> float:
        pause = min(deadline.remaining(), self._longest_wait_s, self._probe.pause_s())
        lost_at = self._coordinator.lost_at
        if lost_at is None or not self._coordinator.has_assignment:
            return pause
        return min(pause, max(0.0, lost_at - time.monotonic()))

    def _find_out_why(self) -> None:
        """Log now and then why there is no coordinator. Raise fatal errors."""
        missing = self._joining is not None and self._coordinator.coordinator_id is None
        if not self._probe.step(missing):
            return
        failure = self._probe.failure
        if failure is not None and not failure.retriable:
            raise failure
        log.warning(
            "Group %s: cannot find the coordinator, trying again%s",
            self._group_id,
            self._why() if failure is None else f"; {failure}",
        )

    def _why(self) -> str:
        failure = self._network.connections.last_failure
        return "" if failure is None else f"; the last connection failed: {failure}"


def _wait(future: Future, timeout_s: float) -> bool:
    """Return whether a future of the network thread is done in time."""
    done = threading.Event()
    future.add_both(lambda _: done.set())
    return done.wait(timeout_s)
