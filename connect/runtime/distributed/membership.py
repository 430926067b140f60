"""This worker's group membership: its metadata, its assignment and the group's leader.

The group member's callbacks run on the herder's thread during a poll. They pass changes of running
work to the herder (`Rebalances`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Protocol

from connect.clock import Clock
from connect.protocol.membership import (
    PROTOCOL_VERSIONS,
    SESSIONED,
    Assignment,
    ConnectorTask,
    WorkerState,
    decode_assignment,
    encode_metadata,
    merge_assignment,
    offered_protocols,
)
from connect.runtime.distributed.assignment import ConfigView, GroupLeader
from connect.storage.config_state import EMPTY_STATE, ClusterConfigState
from connect.storage.config_store import ConfigStore
from connect.storage.instance_id import InstanceId

__all__ = ["Membership", "Rebalances", "instances"]

_log = logging.getLogger(__name__)


class Rebalances(Protocol):
    """The herder's part in a rebalance. Called on its thread."""

    def before_join(self) -> ClusterConfigState:
        """Apply all config changes read so far, and return the configs that this worker acts on
        now.
        """

    def on_revoked(self, revoked: frozenset[InstanceId]) -> None:
        """Stop revoked work before the rebalance continues. Must return well within its timeout."""

    def on_lost(self, lost: frozenset[InstanceId], generation: int) -> None:
        """Freeze all work because the coordinator is lost or has removed this worker.

        Other workers may get the work before this one is told, so it must not write until the next
        rebalance. `generation` is the last one of the membership.
        """

    def on_assigned(self, assignment: Assignment, generation: int) -> None:
        """Note the new assignment. Its work starts after this returns."""


class Membership:
    """The `GroupCallbacks` of one worker.

    Belongs to the herder's thread; any thread may read `leader_url`, `is_leader` and `generation`.
    """

    def __init__(
        self,
        url: str,
        connect_protocol: str,
        max_delay_ms: int,
        configs: ConfigStore,
        rebalances: Rebalances,
        running_generation: Callable[[], int],
        clock: Clock,
    ) -> None:
        """Create the membership.

        `url` is this worker's, as others reach it. `running_generation` returns the generation of
        the rebalance in progress.
        """
        self._url = url
        self._configs = configs
        self._rebalances = rebalances
        self._running_generation = running_generation
        self._clock = clock
        self._offers = offered_protocols(connect_protocol)
        self._leader = GroupLeader(max_delay_ms)
        self._led_view = EMPTY_STATE
        self._led_members = 0
        self._owner_urls: Mapping[ConnectorTask, str] = {}
        self.assignment: Assignment | None = None
        """The whole assignment of this worker; None outside the group."""
        self.version = PROTOCOL_VERSIONS[self._offers[0]]
        """The version of the elected protocol."""
        self.generation = -1
        """The generation of the last completed rebalance."""
        self.member_id = ""
        self._lost: Mapping[InstanceId, int] = {}

    @property
    def is_leader(self) -> bool:
        assignment = self.assignment
        return assignment is not None and assignment.leader == self.member_id

    @property
    def leads_others(self) -> bool:
        """Whether this worker leads, and not only itself."""
        return self.is_leader and self._led_members > 1

    @property
    def leader_url(self) -> str:
        """The leader's URL; empty if unknown."""
        assignment = self.assignment
        return "" if assignment is None else assignment.leader_url

    @property
    def eager(self) -> bool:
        """Whether every rebalance starts by stopping all work."""
        return self.version == 0

    @property
    def signs(self) -> bool:
        """Whether the group's workers sign requests to each other."""
        return self.version >= SESSIONED

    @property
    def assigned(self) -> frozenset[InstanceId]:
        assignment = self.assignment
        return frozenset() if assignment is None else instances(assignment.assigned)

    def generation_of(self, instance: InstanceId) -> int:
        """Return the last generation in which the instance was surely ours. Thread-safe.

        Statuses of the instance carry this generation.
        """
        return self._lost.get(instance, self.generation)

    def owner_url(self, instance: InstanceId) -> str | None:
        """Return the URL of the worker that runs this instance, as known to the leader."""
        return self._owner_urls.get((instance.connector, instance.task))

    def is_abandoned(self, instance: InstanceId) -> bool:
        """Return whether this worker leads and left the instance unassigned. Thread-safe."""
        owners = self._owner_urls
        if not owners or not self.is_leader:
            return False
        return (instance.connector, instance.task) not in owners

    def forget_revocations(self) -> None:
        """Clear the completed revocations, so that the next join does not report them."""
        assignment = self.assignment
        if assignment is not None:
            self.assignment = replace(assignment, revoked=())

    # Callbacks during the member's poll.

    def metadata(self) -> list[tuple[str, bytes]]:
        # Members that report this config offset have stopped the work that ends with it, so that
        # other members may start it.
        self._led_view = self._rebalances.before_join()
        state = WorkerState(self._url, self._led_view.offset, self.assignment)
        return [(name, encode_metadata(state, PROTOCOL_VERSIONS[name])) for name in self._offers]

    def perform_assignment(
        self, leader_id: str, protocol: str, members: Mapping[str, bytes]
    ) -> Mapping[str, bytes]:
        led = self._leader.lead(
            leader_id,
            protocol,
            members,
            _view(self._led_view),
            lambda: _view(self._configs.snapshot()),
            now_ms=self._clock.now_ms(),
            last_completed_generation=self.generation,
            current_generation=self._running_generation(),
        )
        self._owner_urls = led.owner_urls
        self._led_members = len(members)
        return led.assignments

    def on_join_prepare(self) -> None:
        self._owner_urls = {}
        assignment = self.assignment
        if self.eager and assignment is not None and not assignment.failed:
            self._rebalances.on_revoked(instances(assignment.assigned))

    def on_join_complete(
        self, generation: int, member_id: str, protocol: str, assignment: bytes
    ) -> None:
        new = decode_assignment(assignment)
        self.version = PROTOCOL_VERSIONS[protocol]
        if not self.eager and new.revoked:
            self._rebalances.on_revoked(instances(new.revoked))
        self.assignment = merge_assignment(self.assignment, new)
        self.member_id = member_id
        self.generation = generation
        ours = self.assigned
        self._lost = {each: last for each, last in self._lost.items() if each not in ours}
        _log.info(
            "Joined generation %d as member %s: %d assigned, %d revoked, leader %s, delay %d ms%s",
            generation,
            member_id,
            len(self.assignment.assigned),
            len(new.revoked),
            new.leader_url,
            new.delay_ms,
            ", failed" if new.failed else "",
        )
        self._rebalances.on_assigned(self.assignment, generation)

    def on_coordinator_lost(self) -> None:
        assignment, self.assignment = self.assignment, None
        if assignment is not None:
            self._lose(assignment)

    def on_evicted(self) -> None:
        # The next join still reports the assignment. If the work was not reassigned yet, it is ours
        # again without the delay of a rebalance.
        assignment = self.assignment
        if assignment is not None:
            self._lose(assignment)

    def _lose(self, assignment: Assignment) -> None:
        lost = instances(assignment.assigned)
        self._lost = dict.fromkeys(lost, self.generation)
        self._rebalances.on_lost(lost, self.generation)

    def give_up(self) -> None:
        """Drop the assignment; the next join reports that nothing runs here."""
        assignment, self.assignment = self.assignment, None
        if assignment is not None:
            self._rebalances.on_revoked(instances(assignment.assigned))


def instances(tasks: tuple[ConnectorTask, ...]) -> frozenset[InstanceId]:
    return frozenset(InstanceId(connector, task) for connector, task in tasks)


def _view(state: ClusterConfigState) -> ConfigView:
    return ConfigView(state.offset, {name: len(state.tasks(name)) for name in state.connectors()})
