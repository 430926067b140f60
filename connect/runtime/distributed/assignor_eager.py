"""The eager assignor: assigns everything anew in each rebalance, round robin (protocol
`default`)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import cycle

from connect.protocol.membership import CONNECTOR_TASK, ConnectorTask

__all__ = ["assign_eagerly"]


def assign_eagerly(
    members: Collection[str], configured: Mapping[str, int]
) -> dict[str, tuple[ConnectorTask, ...]]:
    """What each member shall run, all of it.

    `configured` says how many tasks each connector has. One turn goes round the members by their
    ids: first for all connectors by name, then for all tasks.
    """
    assigned: dict[str, list[ConnectorTask]] = {member: [] for member in sorted(members)}
    turns = cycle(assigned.values())
    names = sorted(configured)
    for name in names:
        next(turns).append((name, CONNECTOR_TASK))
    for name in names:
        for task in range(configured[name]):
            next(turns).append((name, task))
    return {member: tuple(tasks) for member, tasks in assigned.items()}
