"""A simulated group coordinator: the classic protocol as Kafka's brokers keep it.

Members join and sync, the round waits for all of them as long as their rebalance timeout, sessions
run out, and the coordinator may move: then rounds under way are lost, what was stored is not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from tests.simulation.workers.engine import Engine

__all__ = ["Answer", "GroupState", "SimCoordinator"]

_INITIAL_DELAY_S = 0.5

Offers = Sequence[tuple[str, bytes]]


class GroupState(Enum):
    EMPTY = "empty"
    PREPARING = "preparing"
    COMPLETING = "completing"
    STABLE = "stable"


class Answer(NamedTuple):
    """To any request. `error`: Kafka's name of it, or ""."""

    error: str = ""
    generation: int = -1
    member_id: str = ""
    leader: str = ""
    protocol: str = ""
    members: Mapping[str, bytes] = {}
    assignment: bytes = b""


Reply = Callable[[Answer], None]


@dataclass
class _Member:
    member_id: str
    offers: Offers
    session_s: float
    rebalance_s: float
    heard: float
    assignment: bytes = b""
    joining: Reply | None = None
    syncing: Reply | None = None
    synced: bool = False


@dataclass
class SimCoordinator:
    """`moves` counts how often it moved; whoever asks the one before gets no answer."""

    engine: Engine
    state: GroupState = GroupState.EMPTY
    generation: int = 0
    leader: str = ""
    protocol: str = ""
    members: dict[str, _Member] = field(default_factory=dict)
    moves: int = 0
    away_until: float = 0.0
    _round: int = 0
    _ids: int = 0
    _stored: tuple[int, str, str, dict[str, tuple[Offers, float, float, bytes]]] = (0, "", "", {})

    @property
    def away(self) -> bool:
        return self.engine.now < self.away_until

    def move(self, away_s: float) -> None:
        """Another broker takes over, and knows what was stored last."""
        self.moves += 1
        self.away_until = self.engine.now + away_s
        self._round += 1
        self.generation, self.leader, self.protocol, members = self._stored
        self.members = {
            name: _Member(name, offers, session, rebalance, self.away_until, assignment)
            for name, (offers, session, rebalance, assignment) in members.items()
        }
        self.state = GroupState.STABLE if self.members else GroupState.EMPTY
        for member in self.members.values():
            self._watch(member)

    # What members ask.

    def join(
        self, member_id: str, offers: Offers, session_s: float, rebalance_s: float, reply: Reply
    ) -> None:
        if not member_id:
            self._ids += 1
            member_id = f"{self._ids:03d}"
            member = _Member(member_id, offers, session_s, rebalance_s, self.engine.now)
            self.members[member_id] = member
            self._watch(member)
        elif member_id not in self.members:
            reply(Answer("UNKNOWN_MEMBER_ID"))
            return
        else:
            member = self.members[member_id]
            same, member.offers = list(member.offers) == list(offers), offers
            member.heard = self.engine.now
            if same and member_id != self.leader and self.state is GroupState.STABLE:
                reply(self._joined(member_id))
                return
            if same and self.state is GroupState.COMPLETING:
                reply(self._joined(member_id))
                return
        member.joining = reply
        self._prepare()
        self._complete_if_all_joined()

    def sync(
        self, member_id: str, generation: int, assignments: Mapping[str, bytes], reply: Reply
    ) -> None:
        member = self.members.get(member_id)
        if member is None:
            reply(Answer("UNKNOWN_MEMBER_ID"))
        elif generation != self.generation:
            reply(Answer("ILLEGAL_GENERATION"))
        elif self.state is GroupState.PREPARING:
            reply(Answer("REBALANCE_IN_PROGRESS"))
        elif self.state is GroupState.STABLE:
            reply(Answer(assignment=member.assignment))
        else:
            member.heard = self.engine.now
            member.syncing = reply
            member.synced = True
            if member_id == self.leader:
                self._assign(assignments)

    def heartbeat(self, member_id: str, generation: int) -> Answer:
        member = self.members.get(member_id)
        if member is None:
            return Answer("UNKNOWN_MEMBER_ID")
        if generation != self.generation:
            return Answer("ILLEGAL_GENERATION")
        member.heard = self.engine.now
        if self.state is GroupState.PREPARING:
            return Answer("REBALANCE_IN_PROGRESS")
        return Answer()

    def leave(self, member_id: str) -> None:
        if member_id in self.members:
            self._remove(member_id, "leaves")

    # Rounds.

    def _joined(self, member_id: str) -> Answer:
        leads = member_id == self.leader
        members = {m.member_id: dict(m.offers)[self.protocol] for m in self.members.values()}
        return Answer(
            "", self.generation, member_id, self.leader, self.protocol, members if leads else {}
        )

    def _prepare(self) -> None:
        if self.state is GroupState.PREPARING:
            return
        for member in self.members.values():
            if member.syncing is not None:
                reply, member.syncing = member.syncing, None
                reply(Answer("REBALANCE_IN_PROGRESS"))
        first = self.state is GroupState.EMPTY
        self.state = GroupState.PREPARING
        self._round += 1
        number, longest = self._round, max(m.rebalance_s for m in self.members.values())
        self._open = self.engine.now + (_INITIAL_DELAY_S if first else 0.0)
        if first:
            self.engine.at(_INITIAL_DELAY_S, self._complete_if_all_joined)
        self.engine.at(longest, lambda: self._give_up_on_the_late(number))

    def _give_up_on_the_late(self, number: int) -> None:
        if self._round == number and self.state is GroupState.PREPARING:
            for member in list(self.members.values()):
                if member.joining is None:
                    self._remove(member.member_id, "did not join within the rebalance timeout")
            self._complete_if_all_joined()

    def _complete_if_all_joined(self) -> None:
        if self.state is not GroupState.PREPARING or self.engine.now < self._open:
            return
        if not self.members:
            self.state = GroupState.EMPTY
            self._store()
            return
        if any(member.joining is None for member in self.members.values()):
            return
        self.generation += 1
        self._round += 1
        self.state = GroupState.COMPLETING
        if self.leader not in self.members:
            self.leader = next(iter(self.members))
        common = set.intersection(*({n for n, _ in m.offers} for m in self.members.values()))
        self.protocol = next(n for n, _ in self.members[self.leader].offers if n in common)
        for member in list(self.members.values()):
            member.heard = self.engine.now
            member.synced = False
            reply, member.joining = member.joining, None
            assert reply is not None
            reply(self._joined(member.member_id))
        number, longest = self._round, max(m.rebalance_s for m in self.members.values())
        self.engine.at(longest, lambda: self._give_up_on_the_unsynced(number))

    def _give_up_on_the_unsynced(self, number: int) -> None:
        if self._round == number and self.state is GroupState.COMPLETING:
            for member in list(self.members.values()):
                if not member.synced:
                    self._remove(member.member_id, "did not sync within the rebalance timeout")

    def _assign(self, assignments: Mapping[str, bytes]) -> None:
        self.state = GroupState.STABLE
        for member in self.members.values():
            member.assignment = assignments.get(member.member_id, b"")
        self._store()
        for member in self.members.values():
            if member.syncing is not None:
                reply, member.syncing = member.syncing, None
                member.heard = self.engine.now
                reply(Answer(assignment=member.assignment))

    def _store(self) -> None:
        members = {
            m.member_id: (m.offers, m.session_s, m.rebalance_s, m.assignment)
            for m in self.members.values()
        }
        self._stored = (self.generation, self.leader, self.protocol, members)

    # Sessions.

    def _watch(self, member: _Member) -> None:
        """Whoever waits for the answer to a join or sync is not expected to say anything."""

        def look() -> None:
            if self.members.get(member.member_id) is not member:
                return
            waits = member.joining is not None or member.syncing is not None
            if waits:
                member.heard = self.engine.now
            left = member.heard + member.session_s - self.engine.now
            if left <= 0:
                self._remove(member.member_id, "its session has run out")
            else:
                self.engine.at(left, look)

        self.engine.at(member.session_s, look)

    def _remove(self, member_id: str, why: str) -> None:
        self.engine.note(f"coordinator: {member_id} is out of the group: {why}")
        member = self.members.pop(member_id)
        for reply in (member.joining, member.syncing):
            if reply is not None:
                reply(Answer("UNKNOWN_MEMBER_ID"))
        if self.state is GroupState.EMPTY:
            return
        if not self.members:
            self.state = GroupState.EMPTY
            self._round += 1
            self._store()
            return
        self._prepare()
        self._complete_if_all_joined()
