"""Assignment by the group's leader: decode all members' metadata, assign, encode the assignments.

Pure, except that `fresh` may read the config topic. Used on one thread.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from connect.protocol.membership import (
    CONFIG_MISMATCH,
    NO_ERROR,
    PROTOCOL_VERSIONS,
    Assignment,
    ConnectorTask,
    WorkerState,
    decode_metadata,
    encode_assignment,
)
from connect.runtime.distributed.assignor_cooperative import CooperativeAssignor
from connect.runtime.distributed.assignor_eager import assign_eagerly

__all__ = ["ConfigView", "GroupLeader", "Leadership"]


class ConfigView(NamedTuple):
    """The part of the config topic that an assignment needs, at one config offset."""

    offset: int
    task_counts: Mapping[str, int]
    """The number of tasks of each connector."""


@dataclass(frozen=True, slots=True)
class Leadership:
    """The result of a rebalance that this worker led."""

    assignments: Mapping[str, bytes]
    """The encoded assignment of each member."""
    owner_urls: Mapping[ConnectorTask, str] = field(default_factory=dict)
    """The URL of the worker that runs each connector and task after the rebalance."""


class GroupLeader:
    """Computes assignments as the leader. `max_delay_ms` is scheduled.rebalance.max.delay.ms."""

    def __init__(self, max_delay_ms: int) -> None:
        self._cooperative = CooperativeAssignor(max_delay_ms)

    def lead(
        self,
        leader: str,
        protocol: str,
        members: Mapping[str, bytes],
        config: ConfigView,
        fresh: Callable[[], ConfigView],
        *,
        now_ms: int,
        last_completed_generation: int,
        current_generation: int,
    ) -> Leadership:
        """Compute the assignments of one rebalance.

        `members` has the metadata of each member, and `leader` is our own member id. `config` is
        what this worker has read; if a member has read more, `fresh` is called. If that is too old
        as well, every member gets CONFIG_MISMATCH, reads on, and joins again.

        Raises `CorruptData` if a member's metadata cannot be decoded.
        """
        version = PROTOCOL_VERSIONS[protocol]
        states = {member: decode_metadata(data) for member, data in members.items()}
        offset = max(state.config_offset for state in states.values())
        if config.offset < offset:
            config = fresh()
            if config.offset < offset:
                none = Assignment(
                    version, CONFIG_MISMATCH, leader, states[leader].url, offset, (), ()
                )
                return Leadership(dict.fromkeys(states, encode_assignment(none, version)))
            offset = config.offset
        whole = Assignment(version, NO_ERROR, leader, states[leader].url, offset)
        if version == 0:
            return _lead_eagerly(whole, states, config)
        return self._lead_cooperatively(
            whole, states, config, now_ms, last_completed_generation, current_generation
        )

    def _lead_cooperatively(
        self,
        whole: Assignment,
        states: Mapping[str, WorkerState],
        config: ConfigView,
        now_ms: int,
        last_completed_generation: int,
        current_generation: int,
    ) -> Leadership:
        running = {
            member: () if state.assignment is None else state.assignment.assigned
            for member, state in states.items()
        }
        outcome = self._cooperative.assign(
            running, config.task_counts, now_ms, last_completed_generation, current_generation
        )
        assignments = {
            member: replace(
                whole,
                assigned=outcome.assigned[member],
                revoked=outcome.revoked[member],
                delay_ms=outcome.delay_ms,
            )
            for member in states
        }
        return _leadership(assignments, outcome.owners, states)


def _lead_eagerly(
    whole: Assignment, states: Mapping[str, WorkerState], config: ConfigView
) -> Leadership:
    assigned = assign_eagerly(states, config.task_counts)
    assignments = {member: replace(whole, assigned=tasks) for member, tasks in assigned.items()}
    return _leadership(assignments, assigned, states)


def _leadership(
    assignments: Mapping[str, Assignment],
    owners: Mapping[str, tuple[ConnectorTask, ...]],
    states: Mapping[str, WorkerState],
) -> Leadership:
    return Leadership(
        {
            member: encode_assignment(assignment, assignment.version)
            for member, assignment in assignments.items()
        },
        {
            instance: states[member].url
            for member, instances in owners.items()
            for instance in instances
        },
    )
