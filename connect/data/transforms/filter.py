"""Filter: drop records that match the transformation's predicate."""

from __future__ import annotations

from typing import TypeVar

from connect.data.record import ConnectRecord
from connect.data.transforms.base import Transformation

__all__ = ["Filter"]

R = TypeVar("R", bound=ConnectRecord)


class Filter(Transformation):
    """Drops every record it gets. Its `predicate` and `negate` select these records."""

    def apply(self, record: R) -> R | None:
        return None
