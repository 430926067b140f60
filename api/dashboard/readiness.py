"""Whether each consumer group of a flow could move to the target now, and what it would read again.

It reads the groups' offsets on the source, their translation by the offset map, and what is
committed on the target, which takes seconds: pages ask for it rarely.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby

from api.dashboard.models import FlowGroups, GroupPartition, GroupReadiness
from connect.clock import SYSTEM_CLOCK, Deadline
from connect.config.java_regex import compile_java_regex
from connect.errors import ConnectError, RetriableError
from connectors.mirror.failover import MoveClusters, MovedOffset, MovePlan, plan_move

__all__ = ["group_readiness", "readiness"]

_TIMEOUT_S = 16.0
_MOST_GROUPS = 500


def readiness(flow: str, properties: Mapping[str, str]) -> FlowGroups:
    """Ask both clusters. `properties`: the resolved ones of the flow's source connector."""
    now_ms = SYSTEM_CLOCK.now_ms()
    every = compile_java_regex(".*")
    clusters = MoveClusters(properties, None)
    deadline = Deadline(_TIMEOUT_S)
    try:
        try:
            plan = plan_move(clusters, every, Deadline(_TIMEOUT_S / 2), live=True)
        except RetriableError:
            # The source does not answer: this is when people fail over. Checkpoints are enough.
            plan = plan_move(clusters, every, deadline, live=False)
    except ConnectError as error:
        return FlowGroups(flow=flow, at_ms=now_ms, live=False, problem=str(error), groups=[])
    return FlowGroups(
        flow=flow, at_ms=now_ms, live=plan.live, problem=None, groups=group_readiness(plan)
    )


def group_readiness(plan: MovePlan) -> list[GroupReadiness]:
    """Return the groups, those that are not ready first. Pure."""
    found = [
        _group(name, list(rows)) for name, rows in groupby(plan.offsets, key=lambda row: row.group)
    ]
    found += [
        GroupReadiness(
            group=name, ready=False, synced=False, exact=False, why=why, again=None, partitions=[]
        )
        for name, why in plan.unreadable.items()
    ]
    return sorted(found, key=lambda each: (each.ready, each.group))[:_MOST_GROUPS]


def _group(name: str, rows: Sequence[MovedOffset]) -> GroupReadiness:
    missing = [row for row in rows if row.new_offset is None]
    agains = [row.again for row in rows]
    known = [again for again in agains if again is not None]
    again = sum(known) if len(known) == len(agains) else None
    return GroupReadiness(
        group=name,
        ready=not missing,
        synced=not missing and all(row.has == row.new_offset for row in rows),
        exact=not missing and again == 0 and not any(row.later for row in rows),
        why=None if not missing else _why(missing, len(rows)),
        again=again,
        partitions=[
            GroupPartition(
                topic=row.topic,
                partition=row.partition,
                target_topic=row.new_topic,
                offset=row.offset,
                new_offset=row.new_offset,
                again=row.again,
                committed=row.has,
            )
            for row in rows
        ],
    )


def _why(missing: Sequence[MovedOffset], of: int) -> str:
    first = missing[0]
    return (
        f"{len(missing)} of {of} offsets have no place on the target yet, for example offset "
        f"{first.offset} of {first.topic}-{first.partition}: what the group has read there is "
        "older than what was copied, or is not copied yet"
    )
