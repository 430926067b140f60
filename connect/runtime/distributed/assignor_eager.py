"""The eager assignor: assigns all work again in each rebalance, round robin (protocol
`default`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import cycle

from connect.protocol.membership import CONNECTOR_TASK, ConnectorTask

__all__ = ["assign_eagerly"]


def assign_eagerly(
    members: Collection[str], configured: Mapping[str, int]
) -> dict[str, tuple[ConnectorTask, ...]]:
    """Return the whole assignment of each member.

    `configured` has the number of tasks of each connector. Members are ordered by id; connectors
    are distributed first, by name, and tasks continue the same round robin.
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
