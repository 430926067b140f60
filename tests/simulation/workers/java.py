"""A member that leads as Java's workers do, among ours: with the same bytes, by its own rule.

Java's incremental assignor and ours are the same (golden traces compare them) but in one thing: a
Java leader that is new lets members keep what their connectors have no more, until its next round.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from connect.protocol.membership import ConnectorTask
from connect.runtime.distributed.assignor_cooperative import CooperativeAssignor, CooperativeRound

__all__ = ["JavaAssignor"]


class JavaAssignor(CooperativeAssignor):
    """Counts what members run, and it did not assign itself, as configured."""

    def assign(
        self,
        members: Mapping[str, Sequence[ConnectorTask]],
        configured: Mapping[str, int],
        now_ms: int,
        last_completed_generation: int,
        current_generation: int,
    ) -> CooperativeRound:
        known = self._previous_assignment
        if self._previous_generation != last_completed_generation:
            known = set()
        counts = dict(configured)
        for load in members.values():
            for name, task in load:
                if (name, task) not in known:
                    counts[name] = max(counts.get(name, 0), task + 1)
        return super().assign(
            members, counts, now_ms, last_completed_generation, current_generation
        )
