"""How far the source offset of a partition is stored, and whether it must be stored.

A commit begins with `storing` and ends with `stored`, or with `not_stored` where it was aborted. Of
one that failed nothing is told: its position may be stored. Belongs to the copy engine's thread.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from connectors.mirror.copy.batches.outgoing import UNKNOWN
from connectors.mirror.copy.partition.stored_facts import StoredFacts
from connectors.mirror.copy.partition.target_partition import TargetPartition

__all__ = ["StoredPartition"]


@dataclass(slots=True, eq=False)
class StoredPartition(TargetPartition):
    """A partition whose acknowledged position is stored as its source offset."""

    stored_position: int = UNKNOWN
    """`acked_position` when it was last stored."""
    storing_position: int = UNKNOWN
    """The highest position that may be stored: a commit of it is open, or failed."""
    stored_facts: StoredFacts = field(default_factory=StoredFacts)

    def storing(self, position: int) -> None:
        """Note that a commit of this position has begun."""
        self.storing_position = max(self.storing_position, position)
        self.stored_facts.storing()

    def stored(self, position: int) -> None:
        """Note that this position was stored as its source offset, and that no other commit is
        open."""
        self.stored_position = self.storing_position = position
        self.stored_facts.stored()

    def not_stored(self) -> None:
        """Note that the open commit was aborted."""
        self.storing_position = self.stored_position

    def succeed(self, other: StoredPartition) -> None:
        """Note that the position of `other`, the same partition before it left and came back, must
        still be stored."""
        self.stored_position = other.stored_position
        self.storing_position = other.storing_position
        if other.stored_facts.unstored:
            self.stored_facts.store()

    @property
    def behind_stored(self) -> bool:
        """Whether a loss moved it back behind the source offset that is, or may be, stored. It is
        not fetched before its position is stored: after a crash, copying would go on beyond the
        records that it copies again."""
        return self.acked_position < self.storing_position

    @property
    def unstored(self) -> bool:
        """Whether its source offset must be stored: it moved since, or its facts must be. Always
        false for a broken partition, because its positions cannot be trusted.
        """
        return self.broken is None and (
            self.behind_stored
            or (self.acked_position > 0 and self.acked_position != self.stored_position)
            or self.facts_to_store
        )

    @property
    def facts_to_store(self) -> bool:
        """Whether its source offset must be stored, maybe again, for the facts beside it."""
        return self.stored_facts.unstored and self.acked_position != UNKNOWN
