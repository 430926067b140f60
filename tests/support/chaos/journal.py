"""The producers' side of a trial: which records were acknowledged, at which offset, and which must
not be in any copy. The checker has this beside both logs."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum

__all__ = ["Fate", "Journal", "Written", "fingerprint", "identity"]

_END = b"|"


class Fate(Enum):
    """What became of a record."""

    UNKNOWN = "unknown"
    ACKNOWLEDGED = "acknowledged"
    ABORTED = "aborted"


def identity(value: bytes) -> bytes:
    """The part of a value up to its first `|`, which no other record of the trial has."""
    head, end, _ = value.partition(_END)
    return head + end


def fingerprint(
    key: bytes | None,
    value: bytes | None,
    timestamp_ms: int,
    headers: Sequence[tuple[str, bytes | None]],
) -> int:
    """64 bits of everything that a copy must keep of a record."""
    hashed = hashlib.blake2b(repr((key, timestamp_ms, headers)).encode(), digest_size=8)
    hashed.update(b"-" if value is None else value)
    return int.from_bytes(hashed.digest(), "big")


@dataclass(slots=True)
class Written:
    """A record by its identity. `life`: of its topic, counted from 0, one more each time the topic
    is created again. `content`: its fingerprint. `timestamp_ms`: its CreateTime."""

    topic: str
    partition: int
    life: int
    fate: Fate = Fate.UNKNOWN
    offset: int | None = None
    content: int | None = None
    timestamp_ms: int = 0


@dataclass
class Journal:
    """By identity. Writers add and settle from their own threads; readers come when these ended."""

    records: dict[bytes, Written] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def begin(self, identity: bytes, written: Written) -> None:
        with self._lock:
            self.records[identity] = written

    def count(self, fate: Fate) -> int:
        return sum(record.fate is fate for record in self.records.values())

    def by_partition(self) -> dict[tuple[str, int], dict[bytes, Written]]:
        found: dict[tuple[str, int], dict[bytes, Written]] = {}
        for name, record in self.records.items():
            found.setdefault((record.topic, record.partition), {})[name] = record
        return found
