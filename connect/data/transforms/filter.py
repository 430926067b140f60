"""Filter: drop records that match the transformation's predicate."""

from __future__ import annotations

from connect.data.transforms.base import R, Transformation

__all__ = ["Filter"]


class Filter(Transformation):
    """Drops every record it gets. Its `predicate` and `negate` select these records."""

    PARTS = frozenset()

    def apply(self, record: R) -> R | None:
        return None
