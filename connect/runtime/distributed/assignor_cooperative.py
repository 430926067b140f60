"""The incremental cooperative assignor (KIP-415), which moves as little work as possible in two
rounds.

Work that moves is revoked in one round and assigned to another worker in the next. The work of a
worker that left is reassigned only after `max_delay_ms`, in case the worker returns. Repeated
revocations are delayed by a backoff.

Pure: the same rounds give the same assignments. Only the leader's assignor knows the previous
assignment; a new leader starts with an empty one. Used on one thread.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from connect.protocol.membership import CONNECTOR_TASK, ConnectorTask

__all__ = ["CooperativeAssignor", "CooperativeRound", "revocation_backoff_ms"]

# Java's values: the first revocation in a row waits 40 ms, the second 1.6 s, the third 64 s.
_BACKOFF_BASE_MS = 40
# 40^6 ms exceeds any delay, because delays are int32.
_BACKOFF_HIGHEST = 6

Tasks = tuple[ConnectorTask, ...]
_Kind = Callable[[ConnectorTask], bool]


def _is_connector(instance: ConnectorTask) -> bool:
    return instance[1] == CONNECTOR_TASK


def _is_task(instance: ConnectorTask) -> bool:
    return instance[1] != CONNECTOR_TASK


_KINDS: tuple[_Kind, _Kind] = (_is_connector, _is_task)


def revocation_backoff_ms(successive: int, max_delay_ms: int) -> int:
    """Return the delay before the `successive`th revocation in a row, counted from 1."""
    backoff_ms: int = _BACKOFF_BASE_MS ** min(successive, _BACKOFF_HIGHEST)
    return min(max_delay_ms, backoff_ms)


@dataclass(frozen=True, slots=True)
class CooperativeRound:
    """The result of one rebalance, by member id. Each mapping contains every member."""

    assigned: Mapping[str, Tasks]
    """Work to start in addition."""
    revoked: Mapping[str, Tasks]
    """Work to stop before the member rejoins."""
    owners: Mapping[str, Tasks]
    """All work of each member after the rebalance, from which the leader looks up who runs a
    task.
    """
    delay_ms: int
    """If above 0, all members rejoin after this time."""


@dataclass(slots=True)
class _Worker:
    member: str
    load: list[ConnectorTask]

    def count(self, kind: _Kind) -> int:
        return sum(map(kind, self.load))

    def of(self, kind: _Kind) -> list[ConnectorTask]:
        return [instance for instance in self.load if kind(instance)]


class CooperativeAssignor:
    """The assignor of one leader. `max_delay_ms` is scheduled.rebalance.max.delay.ms."""

    def __init__(self, max_delay_ms: int) -> None:
        self._max_delay_ms = max_delay_ms
        self._previous_assignment: set[ConnectorTask] = set()
        self._previous_revocation: set[ConnectorTask] = set()
        self._previous_generation = -1
        self._previous_members: frozenset[str] = frozenset()
        # An ordered dict: the worker that has waited longest is first.
        self._candidates: dict[str, None] = {}
        self._scheduled_ms = 0
        self._delay_ms = 0
        self._revoked_before = False
        self._successive = 0

    def assign(
        self,
        members: Mapping[str, Sequence[ConnectorTask]],
        configured: Mapping[str, int],
        now_ms: int,
        last_completed_generation: int,
        current_generation: int,
    ) -> CooperativeRound:
        """Compute one rebalance from each member's running work and each connector's number of
        tasks.

        `last_completed_generation` is that of the newest assignment this leader received itself,
        and `current_generation` that of this rebalance. `now_ms` may come from any clock, but
        always the same one.
        """
        if self._previous_generation != last_completed_generation:
            self._previous_assignment = set()
        wanted = _instances(configured)
        active = {instance for load in members.values() for instance in load}
        if self._previous_revocation & active:
            # A member has not revoked what it was told to, so start again from the running work.
            self._previous_assignment = active
        self._previous_revocation = set()

        # A new leader knows no previous assignment, so the members' running work counts too.
        deleted = (self._previous_assignment | active) - wanted
        lost = sorted(self._previous_assignment - active - deleted)
        created = wanted - self._previous_assignment - active
        # No member has a better claim to it, so all members that run it stop it.
        unwanted = deleted | _duplicates(members)
        revoked = {member: [i for i in load if i in unwanted] for member, load in members.items()}
        workers = [
            _Worker(member, [i for i in members[member] if i not in unwanted])
            for member in sorted(members)
        ]
        lost_now = self._handle_lost(lost, workers, members.keys(), now_ms)
        self._balance(wanted, workers, revoked, now_ms)
        _distribute(workers, [*sorted(created), *lost_now])
        outcome = self._outcome(workers, members, deleted, revoked)

        taken = {instance for instances in revoked.values() for instance in instances}
        placed = {instance for worker in workers for instance in worker.load}
        self._previous_assignment = (placed - taken) | set(lost)
        self._previous_revocation = taken
        self._previous_generation = current_generation
        self._previous_members = frozenset(members)
        return outcome

    def _outcome(
        self,
        workers: Iterable[_Worker],
        members: Mapping[str, Sequence[ConnectorTask]],
        deleted: set[ConnectorTask],
        revoked: Mapping[str, list[ConnectorTask]],
    ) -> CooperativeRound:
        assigned: dict[str, Tasks] = {}
        owners: dict[str, Tasks] = {}
        for worker in workers:
            had = set(members[worker.member]) - deleted
            taken = set(revoked[worker.member])
            assigned[worker.member] = tuple(i for i in worker.load if i not in had)
            owners[worker.member] = tuple(i for i in worker.load if i not in taken)
        return CooperativeRound(
            assigned,
            {member: tuple(instances) for member, instances in revoked.items()},
            owners,
            self._delay_ms,
        )

    def _handle_lost(
        self,
        lost: Sequence[ConnectorTask],
        workers: Sequence[_Worker],
        members: Collection[str],
        now_ms: int,
    ) -> Sequence[ConnectorTask]:
        """Return the lost work to assign like new work. Sets the delay, and assigns to returning
        workers.
        """
        if not lost and not self._revoked_before:
            self._reset_delay()
            return ()
        nobody_left = self._scheduled_ms <= 0 and self._previous_members <= set(members)
        if nobody_left or self._max_delay_ms == 0:
            return lost
        if 0 < self._scheduled_ms <= now_ms:
            chosen = self._chosen_candidates(workers)
            for kind in _KINDS:
                for number, instance in enumerate(filter(kind, lost) if chosen else ()):
                    chosen[number % len(chosen)].load.append(instance)
            self._reset_delay()
            self._revoked_before = False
            return () if chosen else lost
        self._candidates.update((worker.member, None) for worker in workers if not worker.load)
        waiting = now_ms < self._scheduled_ms
        left_ms = self._scheduled_ms - now_ms
        self._delay_ms = min(left_ms, self._max_delay_ms) if waiting else self._max_delay_ms
        self._scheduled_ms = now_ms + self._delay_ms
        return ()

    def _chosen_candidates(self, workers: Iterable[_Worker]) -> list[_Worker]:
        by_member = {worker.member: worker for worker in workers}
        return [by_member[member] for member in self._candidates if member in by_member]

    def _reset_delay(self) -> None:
        self._candidates = {}
        self._scheduled_ms = 0
        self._delay_ms = 0

    def _balance(
        self,
        wanted: set[ConnectorTask],
        workers: Sequence[_Worker],
        revoked: Mapping[str, list[ConnectorTask]],
        now_ms: int,
    ) -> None:
        """Revoke work from members with too much of it, unless a delay is running or starts."""
        if self._delay_ms > 0:
            self._revoked_before = False
            return
        surplus = _surplus(wanted, workers)
        if not surplus:
            if self._revoked_before:
                self._revoked_before = False
                self._successive = 0
            return
        if self._revoked_before:
            self._successive += 1
            self._delay_ms = revocation_backoff_ms(self._successive, self._max_delay_ms)
            if self._delay_ms != 0:
                self._scheduled_ms = now_ms + self._delay_ms
                return
        for worker in workers:
            taken = set(surplus.get(worker.member, ()))
            revoked[worker.member].extend(sorted(taken))
            worker.load = [i for i in worker.load if i not in taken]
        self._revoked_before = True


def _instances(configured: Mapping[str, int]) -> set[ConnectorTask]:
    connectors = {(name, CONNECTOR_TASK) for name in configured}
    return connectors | {
        (name, task) for name, count in configured.items() for task in range(count)
    }


def _duplicates(members: Mapping[str, Sequence[ConnectorTask]]) -> set[ConnectorTask]:
    seen: set[ConnectorTask] = set()
    twice: set[ConnectorTask] = set()
    for load in members.values():
        own = set(load)
        twice |= seen & own
        seen |= own
    return twice


def _surplus(
    wanted: set[ConnectorTask], workers: Sequence[_Worker]
) -> dict[str, list[ConnectorTask]]:
    """Return the work to revoke from each member so that none has more than an even share."""
    surplus: dict[str, list[ConnectorTask]] = {}
    if not wanted or not any(worker.load for worker in workers):
        return surplus
    for kind in _KINDS:
        least, extra = divmod(sum(map(kind, wanted)), len(workers))
        counts = [worker.count(kind) for worker in workers]
        with_extra = counts.count(least + 1)
        if with_extra == extra and counts.count(least) == len(workers) - extra:
            continue
        for worker, count in zip(workers, counts, strict=True):
            if count <= least:
                continue
            allowed = least + (extra > 0)
            extra = max(0, extra - 1)
            if count > allowed:
                surplus.setdefault(worker.member, []).extend(worker.of(kind)[: count - allowed])
    return surplus


def _by_load(kind: _Kind) -> Callable[[_Worker], tuple[int, str]]:
    return lambda worker: (worker.count(kind), worker.member)


def _distribute(workers: list[_Worker], instances: Sequence[ConnectorTask]) -> None:
    """Give each instance to the worker with the fewest of its kind; the smallest id wins ties."""
    for kind in _KINDS:
        rest = [instance for instance in instances if kind(instance)]
        if not rest:
            continue
        workers.sort(key=_by_load(kind))
        counts = [worker.count(kind) for worker in workers]
        while rest:
            level = sum(count <= counts[0] for count in counts)
            for place in range(min(level, len(rest))):
                workers[place].load.append(rest[place])
                counts[place] += 1
            rest = rest[level:]
