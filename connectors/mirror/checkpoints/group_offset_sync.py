"""Commits translated offsets for groups on the target: `sync.group.offsets.enabled`.

The decision is pure (`plan_group_offsets`; on Spark:
`connectors.mirror.spark.translate.group_offset_plan`). It uses the checkpoints and the offsets
committed on the target. Offsets are written only for groups without members. They are never moved
back, unless the committed offset came from a checkpoint that became invalid because the target lost
records. MirrorMaker 2 remembers which groups were empty one interval ago, and the broker rejects
commits for the others. Here the state of groups is read right before writing, so that a group that
ran meanwhile is not moved back.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Protocol

from connect.clients.errors import broker_code
from connect.clients.groups.consumer_groups import Committed, GroupListing
from connect.clock import Deadline
from connect.errors import ConnectError
from connect.protocol.error_codes import ErrorCode
from connect.protocol.messages import TopicPartition
from connectors.mirror.checkpoints.store import Void
from connectors.mirror.formats import Checkpoint

__all__ = [
    "Checkpoints",
    "GroupPlan",
    "GroupSyncOutcome",
    "PlanGroups",
    "TargetGroups",
    "plan_group_offsets",
    "sync_group_offsets",
]


Checkpoints = Mapping[str, Mapping[TopicPartition, Checkpoint]]
"""Offsets by group and target partition."""
GroupPlan = Mapping[str, Mapping[TopicPartition, Committed]]
"""The offsets to write, by group."""
PlanGroups = Callable[
    [Checkpoints, Mapping[str, GroupListing], Mapping[str, Mapping[TopicPartition, Committed]]],
    GroupPlan,
]

"""The broker's error for a group that has members."""


_NOTHING_VOID: Void = MappingProxyType({})


class TargetGroups(Protocol):
    """The groups of the target (`connect.clients.groups.consumer_groups.ConsumerGroups`)."""

    def list_groups(
        self, deadline: Deadline, states_of: Collection[str] = ()
    ) -> Mapping[str, GroupListing]: ...

    def committed(
        self, groups: Iterable[str], deadline: Deadline
    ) -> Mapping[str, Mapping[TopicPartition, Committed] | ConnectError]: ...

    def commit(
        self, offsets: Mapping[str, Mapping[TopicPartition, Committed]], deadline: Deadline
    ) -> Mapping[str, ConnectError]: ...


@dataclass(slots=True)
class GroupSyncOutcome:
    """The result of one round. `failed`: error messages by group. `active`: groups that were
    skipped because they have members. `settled`: void checkpoints that are no longer committed on
    the target."""

    written: dict[str, int] = field(default_factory=dict)
    active: set[str] = field(default_factory=set)
    failed: dict[str, ConnectError] = field(default_factory=dict)
    settled: dict[str, Mapping[TopicPartition, int]] = field(default_factory=dict)


def plan_group_offsets(
    checkpoints: Checkpoints,
    states: Mapping[str, GroupListing],
    committed: Mapping[str, Mapping[TopicPartition, Committed]],
) -> GroupPlan:
    """Return the offsets to write, by group.

    `states`: all groups of the target. A group that is missing there gets all its checkpoints.
    `committed`: the offsets of empty groups on the target; an empty group that is missing in it is
    skipped. Offsets are written if the target has none or an earlier one.
    """
    plan: dict[str, dict[TopicPartition, Committed]] = {}
    for group, of_group in checkpoints.items():
        listing = states.get(group)
        if listing is None or listing.dead:
            has: Mapping[TopicPartition, Committed] = {}
        elif listing.empty and group in committed:
            has = committed[group]
        else:
            continue
        writes = {
            key: Committed(checkpoint.downstream_offset, checkpoint.metadata)
            for key, checkpoint in of_group.items()
            if _is_ahead(checkpoint, has.get(key))
        }
        if writes:
            plan[group] = writes
    return plan


def _is_ahead(checkpoint: Checkpoint, has: Committed | None) -> bool:
    return has is None or has.offset is None or has.offset < checkpoint.downstream_offset


def sync_group_offsets(
    target: TargetGroups,
    checkpoints: Checkpoints,
    deadline: Deadline,
    plan: PlanGroups = plan_group_offsets,
    void: Void = _NOTHING_VOID,
) -> GroupSyncOutcome:
    """Run one round. A failing group does not block others.

    `void`: committed offsets of a group that are beyond its checkpoint and up to this offset are
    invalid; the checkpoint replaces them. Raises `ConnectError` if the target's groups cannot be
    listed, or if `plan` raises it.
    """
    outcome = GroupSyncOutcome()
    if not checkpoints:
        return outcome
    states = target.list_groups(deadline, checkpoints)
    empty = [group for group in checkpoints if group in states and states[group].empty]
    outcome.active = {
        group
        for group in checkpoints
        if group in states and not states[group].empty and not states[group].dead
    }
    committed = {}
    for group, found in target.committed(empty, deadline).items():
        if isinstance(found, ConnectError):
            outcome.failed[group] = found
        else:
            committed[group] = _that_hold(found, checkpoints[group], void.get(group, {}))
    writes = plan(checkpoints, states, committed)
    refused = target.commit(writes, deadline)
    for group, offsets in writes.items():
        error = refused.get(group)
        if error is None:
            outcome.written[group] = len(offsets)
        elif broker_code(error) == ErrorCode.UNKNOWN_MEMBER_ID:
            outcome.active.add(group)
        else:
            outcome.failed[group] = error
    # A running group may keep its committed offset.
    left = outcome.failed.keys() | outcome.active
    outcome.settled = {group: void[group] for group in void if group not in left}
    return outcome


def _that_hold(
    committed: Mapping[TopicPartition, Committed],
    checkpoints: Mapping[TopicPartition, Checkpoint],
    void: Mapping[TopicPartition, int],
) -> Mapping[TopicPartition, Committed]:
    """Return the committed offsets without the void ones."""
    if not void:
        return committed
    return {
        key: each
        for key, each in committed.items()
        if key not in checkpoints
        or each.offset is None
        or not checkpoints[key].downstream_offset < each.offset <= void.get(key, -1)
    }
