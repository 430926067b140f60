"""Whether the facts beside the stored source offset of a partition must be stored, maybe again."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["StoredFacts"]


@dataclass(slots=True, eq=False)
class StoredFacts:
    """Belongs to a partition, and to its thread."""

    unstored: bool = False
    """They are missing, or would find a loss again that was reported since."""
    since_storing: bool = False
    """That is since the last commit of its source offset began."""

    def store(self) -> None:
        """Have them stored, though the source offset may be stored already."""
        self.unstored = self.since_storing = True

    def storing(self) -> None:
        """Note that a commit of the source offset has begun."""
        self.since_storing = False

    def stored(self) -> None:
        """Note that this commit was successful."""
        self.unstored = self.since_storing
