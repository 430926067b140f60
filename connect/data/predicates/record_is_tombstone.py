"""RecordIsTombstone: true for records with a null value."""

from __future__ import annotations

from connect.data.record import ConnectRecord
from connect.data.transforms.base import Predicate

__all__ = ["RecordIsTombstone"]


class RecordIsTombstone(Predicate):
    """Matches tombstones. Has no config keys."""

    def test(self, record: ConnectRecord) -> bool:
        return record.value is None
