"""Stands for `GroupMember`: the same rules as it and kafka-python's coordinator have, without their
network. Callbacks run in the owner's polls; heartbeats go on between them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from enum import Enum, auto

from connect.clients.groups.member_coordinator import lost_at
from connect.clients.groups.member_network import GroupTimeouts, dead_after_ms
from connect.clock import Deadline
from connect.metrics.coordinator_metrics import CoordinatorMetrics
from connect.runtime.distributed.membership import Membership
from tests.simulation.workers.engine import Engine, Process
from tests.simulation.workers.group import Answer, SimCoordinator

__all__ = ["SimMember", "Timeouts"]

_LOOK_S = 1.0
_RETRY_S = 0.1


class Timeouts:
    """Of all workers."""

    session_s = GroupTimeouts().session_ms / 1000
    rebalance_s = GroupTimeouts().rebalance_ms / 1000
    heartbeat_s = GroupTimeouts().heartbeat_ms / 1000
    dead_s = dead_after_ms(GroupTimeouts()) / 1000


class _State(Enum):
    UNJOINED = auto()
    REBALANCING = auto()
    STABLE = auto()


class SimMember:
    """See the module. `wake` has the owner poll soon, `due` says by when it polls again."""

    def __init__(
        self,
        process: Process,
        coordinator: SimCoordinator,
        callbacks: Membership,
        wake: Callable[[], None],
        due: Callable[[float], None],
    ) -> None:
        self.metrics = CoordinatorMetrics(process.clock)
        self.member_id = ""
        self.generation = -1
        self._process = process
        self._engine: Engine = process.engine
        self._coordinator = coordinator
        self._callbacks = callbacks
        self._wake = wake
        self._due = due
        self._state = _State.UNJOINED
        self._calls: deque[Callable[[], None]] = deque()
        self._joining = False
        self._rejoining = False
        self._rejoin_needed = True
        self._rejoin_requested = False
        self._resting = True
        self._has_assignment = self._evicted = False
        self._known = False
        """Whether it has a coordinator."""
        self._knows_move = 0
        self._lost_at: float | None = None
        self.heard = 0.0
        self._beats = False
        self._beating = False
        self._completing = False
        self._protocol = ""
        self._polled = 0.0
        self.closed = False
        self.heard_generation = -1
        """The generation of the last assignment that it heard: what its worker is to run."""
        self.verified = 0.0
        """When keepalive last showed that the connection of a request lives."""
        self.left_at: float | None = None
        """When it left the group by itself; None once it is in it again."""
        self._woken = False

    # What the herder calls.

    def ensure_active(self, timeout_s: float) -> bool:
        self._run()
        if self._needs_join():
            self._due(timeout_s)
        return not self._needs_join()

    def poll(self, timeout_s: float) -> None:
        self._run()
        self._due(0.0 if self._woken else timeout_s)
        self._woken = False

    def request_rejoin(self, reason: str) -> None:
        self._rejoin_requested = self._rejoin_needed = True
        self._wake()

    def wakeup(self) -> None:
        self._woken = True
        self._wake()

    def leave(self, reason: str) -> None:
        self._engine.note(f"{self._process.name}: leaves: {reason}")
        self._resting = True
        self._has_assignment = False
        if self.left_at is None:
            self.left_at = self._engine.now
        self._leave()

    def close(self, *, deadline: Deadline) -> None:
        self.leave("the worker is shutting down")
        self.closed = True

    # The owner's side.

    def _run(self) -> None:
        self._polled = self._engine.now
        self._resting = False
        while True:
            if not self._joining and self._need_rejoin():
                self._joining = True
                self._engine.at(0.0, self._join, self._process)
            if self._evicted and self._has_assignment:
                self._evicted = False
                self._engine.note(f"{self._process.name}: is out of the group")
                self._callbacks.on_evicted()
            if self._check_lost():
                return
            if not self._calls:
                return
            self._calls.popleft()()
            self._polled = self._engine.now

    @property
    def joining(self) -> bool:
        """Whether it waits for the answer to a join or sync, and so sends no heartbeats."""
        return self._state is _State.REBALANCING

    @property
    def polling(self) -> bool:
        """Whether it waits for its owner to run a call."""
        return bool(self._calls)

    def _need_rejoin(self) -> bool:
        return not self._resting and (self._rejoin_requested or self._rejoin_needed)

    def _needs_join(self) -> bool:
        return self._joining or self._need_rejoin()

    def _check_lost(self) -> bool:
        if self._lost_at is None or not self._has_assignment or self._engine.now < self._lost_at:
            return False
        self._engine.note(f"{self._process.name}: no coordinator, gives up its assignment")
        self._has_assignment = False
        self._callbacks.on_coordinator_lost()
        self.request_rejoin("the coordinator was lost")
        return True

    def _call(self, function: Callable[[], None]) -> None:
        """Have the owner run it."""
        self._calls.append(function)
        self._wake()

    # Joining.

    def _join(self) -> None:
        if self.closed or not self._need_rejoin():
            self._joining = False
            self._wake()
        elif not self._known:
            self._look_up(self._join)
        elif not self._rejoining:
            self._call(self._prepare)
        else:
            self._send_join()

    def _prepare(self) -> None:
        self._callbacks.on_join_prepare()
        self._rejoining = True
        self._beats = False
        self._send_join()

    def _send_join(self) -> None:
        self._rejoin_requested = False
        if self._has_assignment and self._engine.now - self.heard > Timeouts.session_s:
            self._evicted = True
        self._call(self._tell_metadata)

    def _tell_metadata(self) -> None:
        offers = self._callbacks.metadata()
        self._state = _State.REBALANCING
        member_id = self.member_id

        def ask(reply: Callable[[Answer], None]) -> None:
            self._coordinator.join(
                member_id, offers, Timeouts.session_s, Timeouts.rebalance_s, reply
            )

        self._request(ask, self._joined, self._not_joined)

    def _joined(self, answer: Answer) -> None:
        if answer.error:
            self._engine.note(f"{self._process.name}: cannot join: {answer.error}")
            self._reset("")
            self._join()
            return
        self._heard_of_coordinator()
        if self._state is not _State.REBALANCING:
            self._join()
            return
        self.generation, self.member_id = answer.generation, answer.member_id
        self._protocol = answer.protocol
        if answer.leader != answer.member_id:
            self._send_sync({})
            return
        self._completing = True
        self._beat_on()

        def assign() -> None:
            self._send_sync(
                self._callbacks.perform_assignment(answer.leader, answer.protocol, answer.members)
            )

        self._call(assign)

    def _send_sync(self, assignments: Mapping[str, bytes]) -> None:
        member_id, generation = self.member_id, self.generation

        def ask(reply: Callable[[Answer], None]) -> None:
            self._coordinator.sync(member_id, generation, assignments, reply)

        self._request(ask, self._synced, self._not_joined)

    def _synced(self, answer: Answer) -> None:
        self._completing = False
        if answer.error:
            self._rejoin_needed = True
            if answer.error == "UNKNOWN_MEMBER_ID":
                self._reset("")
            elif answer.error == "ILLEGAL_GENERATION":
                self._reset(self.member_id)
            self._join()
            return
        self._rejoining = self._rejoin_needed = False
        self._state = _State.STABLE
        self._beat_on()
        self._has_assignment = True
        generation, member_id, protocol = self.generation, self.member_id, self._protocol

        def complete() -> None:
            self._engine.note(f"{self._process.name}: is {member_id} of generation {generation}")
            self.heard_generation = generation
            self.left_at = None
            self._callbacks.on_join_complete(generation, member_id, protocol, answer.assignment)
            self._joining = False
            self._wake()

        self._call(complete)

    def _not_joined(self) -> None:
        self._completing = False
        self._dead()
        self._engine.at(_RETRY_S, self._join, self._process)

    def _reset(self, member_id: str) -> None:
        self.member_id, self.generation = member_id, -1
        self._evicted = self._has_assignment and not member_id
        self._rejoin_needed = True
        self._state = _State.UNJOINED
        self._wake()

    def _leave(self) -> None:
        member_id = self.member_id
        if member_id and self._known and self._state is not _State.UNJOINED:
            self._send(lambda reply: self._coordinator.leave(member_id), lambda _: None)
        self._reset("")

    # Heartbeats, and the coordinator's death.

    def _beat_on(self) -> None:
        self._beats = True
        self.heard = self._polled = self._engine.now
        if not self._beating:
            self._beating = True
            self._engine.at(Timeouts.heartbeat_s, self._beat, self._process)

    def _beat(self) -> None:
        now = self._engine.now
        stable = self._state is _State.STABLE or self._completing
        if self.closed or not self._beats or not stable:
            self._beats = self._beating = False
        elif not self._known:
            self._look_up(self._beat)
        elif now - self.heard >= Timeouts.session_s:
            self._dead()
            self._engine.at(0.0, self._beat, self._process)
        elif now - self._polled > Timeouts.rebalance_s and self._process.turning:
            self._engine.note(f"{self._process.name}: polls too late, leaves")
            self._leave()
            self._beats = self._beating = False
        else:
            self._send_beat()

    def _send_beat(self) -> None:
        member_id, generation = self.member_id, self.generation
        sent = self._engine.now

        def ask(reply: Callable[[Answer], None]) -> None:
            reply(self._coordinator.heartbeat(member_id, generation))

        def again(after: float) -> None:
            self._engine.at(after, self._beat, self._process)

        def answered(answer: Answer) -> None:
            if (member_id, generation) == (self.member_id, self.generation):
                if answer.error == "UNKNOWN_MEMBER_ID":
                    self._engine.note(f"{self._process.name}: {member_id} hears that it is out")
                    self._reset("")
                elif answer.error == "ILLEGAL_GENERATION":
                    self._reset(member_id)
                else:
                    self.heard = sent
                    self._heard_of_coordinator()
                    if answer.error:
                        self._rejoin_needed = True
                        self._wake()
            # As kafka-python, which looks at the session first: an answer may have waited for long.
            again(max(0.0, sent + Timeouts.heartbeat_s - self._engine.now))

        def failed() -> None:
            self._dead()
            again(0.0)

        left = max(0.001, self.heard + Timeouts.session_s - self._engine.now)
        self._request(ask, answered, failed, left)

    def _heard_of_coordinator(self) -> None:
        self._lost_at = None

    def _dead(self) -> None:
        if self._known and self._lost_at is None:
            now, timeouts = self._engine.now, GroupTimeouts()
            self._lost_at = lost_at(now, self.heard, timeouts)
            self._engine.at(self._lost_at - now, self._wake, self._process)
        self._known = False
        self._wake()

    def _look_up(self, then: Callable[[], None]) -> None:
        def look() -> None:
            if self._process.cut or self._coordinator.away:
                wait = self._process.until_connected_s(_RETRY_S)
                self._engine.at(wait, look, self._process)
                return
            self._known, self._knows_move = True, self._coordinator.moves
            then()

        self._engine.at(self._latency(), look, self._process)

    # The network.

    def _latency(self) -> float:
        return self._engine.random.uniform(0.001, 0.015)

    def _send(
        self,
        ask: Callable[[Callable[[Answer], None]], None],
        answered: Callable[[Answer], None],
    ) -> None:
        """One try. Where the way is cut, TCP sends again until it is not."""
        move = self._knows_move

        def reply(answer: Answer) -> None:
            self._engine.at(self._way(), lambda: deliver(answer), self._process)

        def deliver(answer: Answer) -> None:
            if self._process.cut:
                self._engine.at(self._way(), lambda: deliver(answer), self._process)
            else:
                answered(answer)

        def arrive() -> None:
            # The request is on its way: whether its sender still lives is nothing to it.
            if self._process.cut:
                self._engine.at(self._way(), arrive)
            elif not self._coordinator.away and self._coordinator.moves == move:
                ask(reply)

        self._engine.at(self._latency(), arrive)

    def _way(self) -> float:
        """How long a message is on its way to or from Kafka, from now on."""
        return max(0.0, self._process.cut_until - self._engine.now) + self._latency()

    def _request(
        self,
        ask: Callable[[Callable[[Answer], None]], None],
        answered: Callable[[Answer], None],
        failed: Callable[[], None],
        timeout_s: float = Timeouts.rebalance_s + 5.0,
    ) -> None:
        """Exactly one of `answered` and `failed` is called. The connection ends with the
        coordinator's move, and when nothing has passed for `dead_s`, as keepalive finds out."""
        open_ = [True]
        move = self._knows_move
        until = self._engine.now + timeout_s
        alive_at = [self._engine.now]

        def once(answer: Answer) -> None:
            if open_[0]:
                open_[0] = False
                watching[0].cancel()
                answered(answer)

        def watch() -> None:
            now, cut = self._engine.now, self._process.cut
            if not cut:
                alive_at[0] = self.verified = now
            elif self._process.cut_at > alive_at[0]:
                alive_at[0] = self.verified = self._process.cut_at
            dead = alive_at[0] + Timeouts.dead_s
            broken = cut and now >= dead
            moved = self._coordinator.moves != move and not cut
            if broken or moved or now >= until:
                open_[0] = False
                failed()
                return
            wait = min(_LOOK_S, until - now, dead - now if cut else _LOOK_S)
            watching[0] = self._engine.at(wait, watch, self._process)

        if not self._process.cut:
            self.verified = self._engine.now
        self._send(ask, once)
        watching = [self._engine.at(min(_LOOK_S, timeout_s), watch, self._process)]
