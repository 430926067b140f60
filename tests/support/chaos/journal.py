"""What producers of a trial know of their records: which were acknowledged, where, and which must
not be there. It is the checker's other witness beside the logs."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from enum import Enum

__all__ = ["Fate", "Journal", "Written"]


class Fate(Enum):
    """What became of a record."""

    UNKNOWN = "unknown"
    ACKNOWLEDGED = "acknowledged"
    ABORTED = "aborted"


@dataclass(slots=True)
class Written:
    """A record by its value, which no other record of the trial has. `life`: of its topic, counted
    from 0, one more each time it is created again."""

    topic: str
    partition: int
    life: int
    fate: Fate = Fate.UNKNOWN
    offset: int | None = None


@dataclass
class Journal:
    """By value. Writers add and settle from their own threads; readers come when these ended."""

    records: dict[bytes, Written] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def begin(self, value: bytes, written: Written) -> None:
        with self._lock:
            self.records[value] = written

    def count(self, fate: Fate) -> int:
        return sum(record.fate is fate for record in self.records.values())

    def of(self, topic: str, partition: int) -> dict[bytes, Written]:
        return {
            value: record
            for value, record in self.records.items()
            if (record.topic, record.partition) == (topic, partition)
        }
