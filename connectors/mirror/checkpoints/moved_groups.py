"""Notices when consumer groups move to the target, and when they leave it: failovers.

A group has moved when it has members on the target; its offsets are then its own there, and are no
longer synced.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from connectors.mirror.history.rows import EventRow, flow_event

__all__ = ["MovedGroups"]


class MovedGroups:
    """The groups of a task that have members on the target. For one thread."""

    def __init__(self, target: str) -> None:
        self._target = target
        self._there: frozenset[str] | None = None

    def look(self, groups: Collection[str], active: Collection[str]) -> Iterator[EventRow]:
        """Return an event for each group that has moved since the last look. `active`: those of
        `groups` with members on the target.

        The first look has no events: the groups may have moved long ago.
        """
        before, self._there = self._there, frozenset(active)
        if before is None:
            return
        for group in sorted(self._there - before):
            yield flow_event(
                "moved",
                "to the target",
                f"Group {group} has members on {self._target} now. Its offsets there are its own, "
                "and are no longer synced",
            )
        for group in sorted((before - self._there) & frozenset(groups)):
            yield flow_event(
                "moved",
                "from the target",
                f"Group {group} has no members on {self._target} any more. Its offsets there are "
                "synced again",
            )
