"""Filter: drops every record that its predicate lets through to it."""

from __future__ import annotations

from typing import TypeVar

from connect.data.record import ConnectRecord
from connect.data.transforms.base import Transformation

__all__ = ["Filter"]

R = TypeVar("R", bound=ConnectRecord)


class Filter(Transformation):
    """Has no keys of its own; `predicate` and `negate` say what it drops."""

    def apply(self, record: R) -> R | None:
        return None
