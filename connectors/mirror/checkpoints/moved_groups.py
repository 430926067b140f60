"""Notices when consumer groups move to the target, and when they leave it: failovers.

A group has moved when it has members on the target; its offsets are then its own there, and are no
longer synced.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from connectors.mirror.history.rows import EventRow, flow_event

__all__ = ["MovedGroups"]

_WHO = "Kafka does not tell who moved it"


class MovedGroups:
    """The clusters on which the groups of a task were at the last check. For one thread."""

    def __init__(self, target: str) -> None:
        self._target = target
        self._is_there: dict[str, bool] = {}

    def look(self, groups: Collection[str], active: Collection[str]) -> Iterator[EventRow]:
        """Return an event for each group that has moved since the last check. `active`: those of
        `groups` with members on the target.

        A group that is seen for the first time has no event: it may have moved long ago.
        """
        before, self._is_there = self._is_there, {group: group in active for group in groups}
        for group in sorted(self._is_there):
            there = self._is_there[group]
            if before.get(group, there) != there:
                yield self._moved(group, there=there)

    def _moved(self, group: str, *, there: bool) -> EventRow:
        if there:
            return flow_event(
                "moved",
                "to the target",
                f"Group {group} has members on {self._target} now. Its offsets there are its own, "
                f"and are no longer synced. {_WHO}",
            )
        return flow_event(
            "moved",
            "from the target",
            f"Group {group} has no members on {self._target} any more. Its offsets there are "
            f"synced again. {_WHO}",
        )
