"""A group member that a test drives: joins happen when the herder asks for them, unless the test
holds them; the group has this one worker, which leads, unless the test says what another leader
assigns (`Plan`)."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from connect.clock import Deadline
from connect.metrics.coordinator_metrics import CoordinatorMetrics
from connect.protocol.membership import (
    CONFIG_MISMATCH,
    NO_ERROR,
    PROTOCOL_VERSIONS,
    Assignment,
    ConnectorTask,
    decode_metadata,
    encode_assignment,
)
from connect.runtime.distributed.membership import Membership

__all__ = ["OTHER_URL", "URL", "DrivenMember", "Plan"]

URL = "http://me:8083/"
OTHER_URL = "http://other:8083/"
_TIMEOUT_S = 20.0


@dataclass(frozen=True, slots=True)
class Plan:
    """What another worker, which leads, assigns in one round. `offset` None: as far as this worker
    has read. `protocol` None: the one it prefers."""

    assigned: Sequence[ConnectorTask] = ()
    revoked: Sequence[ConnectorTask] = ()
    delay_ms: int = 0
    offset: int | None = None
    failed: bool = False
    leader: str = "other"
    protocol: str | None = None


class DrivenMember:
    """The part of `GroupMember` that herders use. `events` says what has happened, in order."""

    def __init__(self, callbacks: Membership) -> None:
        self.metrics = CoordinatorMetrics()
        self.generation = -1
        self.events: list[str] = []
        self.reported: list[tuple[ConnectorTask, ...] | None] = []
        """What it said in each join that it runs."""
        self.trouble: str | None = None
        self.otherwise: Plan | None = None
        """The plan of rounds that have none of their own; None: this worker leads them."""
        self._callbacks = callbacks
        self._changed = threading.Condition()
        self._plans: deque[Plan] = deque()
        self._needed = True
        self._held = self._woken = self._lost = self._evicted = False
        self._turns = 0
        self._failure: Exception | None = None

    # What the test does; from any thread.

    def hold(self) -> None:
        """Let no join go on, until `go_on`."""
        with self._changed:
            self._held = True

    def go_on(self) -> None:
        with self._changed:
            self._held = False
            self._changed.notify_all()

    def plan(self, *plans: Plan) -> None:
        """What the next rounds assign; the first begins now."""
        with self._changed:
            self._plans.extend(plans)
        self.rebalance()

    def rebalance(self) -> None:
        """Somebody else joins or leaves."""
        with self._changed:
            self._needed = True
            self._changed.notify_all()

    def lose(self) -> None:
        """The coordinator is lost."""
        with self._changed:
            self._lost = True
            self._changed.notify_all()

    def evict(self) -> None:
        """The group goes on without it."""
        with self._changed:
            self._evicted = self._needed = True
            self._changed.notify_all()

    def fail(self, error: Exception) -> None:
        """The group refuses us."""
        with self._changed:
            self._failure = error
            self._changed.notify_all()

    @property
    def has_plans(self) -> bool:
        """Whether there are planned rounds to come."""
        with self._changed:
            return bool(self._plans)

    def turns(self, count: int) -> None:
        """Have the herder look around so many times."""
        for _ in range(count):
            with self._changed:
                self._woken = True
                self._changed.notify_all()
                before = self._turns
                deadline = Deadline(_TIMEOUT_S)
                while self._turns == before:
                    assert self._changed.wait(deadline.remaining()), "the herder does not poll"

    # What the herder calls.

    def ensure_active(self, timeout_s: float) -> bool:
        self._run(timeout_s, active=True)
        return not self._needed

    def poll(self, timeout_s: float) -> None:
        self._run(timeout_s, active=False)

    def request_rejoin(self, reason: str) -> None:
        self.events.append(f"rejoin: {reason}")
        self.rebalance()

    def wakeup(self) -> None:
        with self._changed:
            self._woken = True
            self._changed.notify_all()

    def leave(self, reason: str) -> None:
        self.events.append(f"leave: {reason}")
        with self._changed:
            self._needed = True

    def close(self, *, deadline: Deadline) -> None:
        self.events.append("close")

    def _run(self, timeout_s: float, *, active: bool) -> None:
        deadline = Deadline(timeout_s)
        while True:
            with self._changed:
                self._turns += 1
                self._changed.notify_all()
                if self._failure is not None:
                    raise self._failure
                evicted, self._evicted = self._evicted, False
                lost, self._lost = self._lost, False
                join = self._needed and not self._held
                if not (lost or evicted or join):
                    if self._woken or (active and not self._needed) or deadline.expired():
                        self._woken = False
                        return
                    self._changed.wait(deadline.remaining())
                    continue
            if evicted:
                self.events.append("evicted")
                self._callbacks.on_evicted()
            elif lost:
                self.events.append("lost")
                self._callbacks.on_coordinator_lost()
                self._needed = True
            else:
                self._join()
            return

    def _join(self) -> None:
        self._callbacks.on_join_prepare()
        self._needed = False
        offers = self._callbacks.metadata()
        self.generation += 1
        with self._changed:
            plan = self._plans.popleft() if self._plans else self.otherwise
        protocol = plan.protocol if plan is not None and plan.protocol else offers[0][0]
        mine = decode_metadata(dict(offers)[protocol])
        self.reported.append(None if mine.assignment is None else mine.assignment.assigned)
        if plan is None:
            members = {"me": dict(offers)[protocol]}
            answer = self._callbacks.perform_assignment("me", protocol, members)["me"]
        else:
            version = PROTOCOL_VERSIONS[protocol]
            assignment = Assignment(
                version,
                CONFIG_MISMATCH if plan.failed else NO_ERROR,
                plan.leader,
                OTHER_URL if plan.leader == "other" else URL,
                mine.config_offset if plan.offset is None else plan.offset,
                tuple(plan.assigned),
                tuple(plan.revoked),
                plan.delay_ms,
            )
            answer = encode_assignment(assignment, version)
        self._callbacks.on_join_complete(self.generation, "me", protocol, answer)
        self.events.append(f"joined {self.generation}")
