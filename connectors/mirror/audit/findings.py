"""The findings of a range's audit: counts, checksums, and differences with their offsets. Pure.

A record without a counterpart at its expected offset is first held as a `Stray`. `settle` then
classifies it as changed, moved, copied again, missing or foreign.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import Enum
from typing import Any, NamedTuple

__all__ = ["Difference", "Kind", "RangeResult", "Stray", "settle"]

LISTED = 1_000
"""Maximum number of differences listed with offsets per range; the rest are only counted."""


class Kind(Enum):
    """Kinds of difference. The offset of a side that lacks the record is None."""

    MISSING = "missing"
    """On the source, but not on the target."""
    CHANGED = "changed"
    """The target has another record at its offset."""
    MOVED = "moved"
    """On the target, but out of order."""
    DUPLICATE = "duplicate"
    """On the target a second time."""
    EXTRA = "extra"
    """On the target, but not found in the audited part of the source."""


@dataclass(frozen=True, slots=True)
class Difference:
    """`records` consecutive records of one kind; the offsets are those of the first one."""

    kind: Kind
    source: int | None
    target: int | None
    records: int = 1


class Stray(NamedTuple):
    """A record without a counterpart at its expected offset.

    `digest`: the digest of its timestamp and tail. `block`: strays of one block lie between the
    same two matching records.
    """

    offset: int
    digest: bytes
    key: bytes | None
    block: int


@dataclass(slots=True)
class RangeResult:
    """The audit of one range: its first offset and end offset (exclusive), and counts of records.
    The counts that are not differences give a reason why a record has no counterpart."""

    source_start: int
    source_end: int
    target_start: int
    target_end: int
    source_records: int = 0
    target_records: int = 0
    equal: int = 0
    bytes: int = 0
    batches_at_a_glance: int = 0
    source_checksum: int = 0
    target_checksum: int = 0
    pending: int = 0
    """Not copied yet."""
    compacted: int = 0
    """Removed from one side because its key has a newer record."""
    expired_on_source: int = 0
    """On the target only, because retention has deleted them from the source."""
    expired_on_target: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    differences: list[Difference] = field(default_factory=list)
    last_source: int = -1
    """Offset of the last record that matches on both sides; -1: none."""
    last_target: int = -1

    @property
    def different(self) -> int:
        """Number of differing records."""
        return sum(self.counts.values())

    def count(self, kind: Kind, records: int) -> None:
        if records:
            self.counts[kind.value] = self.counts.get(kind.value, 0) + records

    def add(self, found: Sequence[Difference]) -> None:
        """Count these differences and list as many as the limit allows."""
        for difference in found:
            self.count(difference.kind, difference.records)
        self.differences += found[: max(0, LISTED - len(self.differences))]

    def add_more(self, kind: Kind, records: int, spans: Iterable[Sequence[int]]) -> None:
        """Count strays that are too many to classify one by one. `spans` lists them as (first
        offset, records) on the side that has them."""
        self.count(kind, records)
        for first, length in spans:
            source, target = (first, None) if kind is Kind.MISSING else (None, first)
            found = Difference(kind, source, target, length)
            for index, each in enumerate(self.differences):
                follows = (_next(each.source, each.records), _next(each.target, each.records))
                if each.kind is kind and follows == (source, target):
                    found = replace(each, records=each.records + length)
                    self.differences[index] = found
                    break
            else:
                if len(self.differences) < LISTED:
                    self.differences.append(found)

    def to_json(self) -> dict[str, Any]:
        """Return plain values, for JSON and for DataFrame rows."""
        plain = asdict(self)
        plain["differences"] = [
            {**asdict(each), "kind": each.kind.value} for each in self.differences
        ]
        return plain

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> RangeResult:
        values = dict(plain)
        values["differences"] = [
            Difference(Kind(each["kind"]), each["source"], each["target"], each["records"])
            for each in plain["differences"]
        ]
        return cls(**values)


def settle(
    missing: Sequence[Stray], extra: Sequence[Stray], copied: Mapping[bytes, int]
) -> list[Difference]:
    """Classify these source and target strays, given in offset order.

    `copied`: the source offsets of matching records, by digest. Only the digests of `extra` are
    needed.
    """
    found: list[tuple[Kind, int | None, int | None]] = []
    at_target: dict[bytes, list[Stray]] = {}
    for stray in reversed(extra):
        at_target.setdefault(stray.digest, []).append(stray)
    gone: list[Stray] = []
    for stray in missing:
        same = at_target.get(stray.digest)
        if same:
            found.append((Kind.MOVED, stray.offset, same.pop().offset))
        else:
            gone.append(stray)
    foreign: list[Stray] = []
    unplaced = {stray.offset for same in at_target.values() for stray in same}
    for stray in extra:
        if stray.offset not in unplaced:
            continue
        source = copied.get(stray.digest)
        if source is None:
            foreign.append(stray)
        else:
            found.append((Kind.DUPLICATE, source, stray.offset))
    found += _changed(gone, foreign)
    return _joined(found)


def _changed(
    gone: Sequence[Stray], foreign: Sequence[Stray]
) -> list[tuple[Kind, int | None, int | None]]:
    """Pair strays of one block as changed records: by key, or one to one if both sides have the
    same number."""
    found: list[tuple[Kind, int | None, int | None]] = []
    theirs: dict[int, list[Stray]] = {}
    for stray in foreign:
        theirs.setdefault(stray.block, []).append(stray)
    ours: dict[int, list[Stray]] = {}
    for stray in gone:
        ours.setdefault(stray.block, []).append(stray)
    for block, lost in ours.items():
        there = theirs.pop(block, [])
        if len(lost) == len(there):
            found += [(Kind.CHANGED, a.offset, b.offset) for a, b in zip(lost, there, strict=True)]
            continue
        by_key: dict[bytes, list[Stray]] = {}
        for stray in reversed(there):
            if stray.key is not None:
                by_key.setdefault(stray.key, []).append(stray)
        paired: set[int] = set()
        for stray in lost:
            same = by_key.get(stray.key) if stray.key is not None else None
            if same:
                other = same.pop()
                paired.add(other.offset)
                found.append((Kind.CHANGED, stray.offset, other.offset))
            else:
                found.append((Kind.MISSING, stray.offset, None))
        found += [(Kind.EXTRA, None, s.offset) for s in there if s.offset not in paired]
    found += [(Kind.EXTRA, None, s.offset) for strays in theirs.values() for s in strays]
    return found


def _joined(found: Iterable[tuple[Kind, int | None, int | None]]) -> list[Difference]:
    """Merge consecutive differences into one."""

    def place(entry: tuple[Kind, int | None, int | None]) -> tuple[str, int, int]:
        kind, source, target = entry
        if kind in (Kind.DUPLICATE, Kind.EXTRA):
            return kind.value, target or 0, 0
        return kind.value, source or 0, target or 0

    joined: list[Difference] = []
    for kind, source, target in sorted(found, key=place):
        last = joined[-1] if joined else None
        if (
            last is not None
            and last.kind is kind
            and _next(last.source, last.records) == source
            and _next(last.target, last.records) == target
        ):
            joined[-1] = Difference(kind, last.source, last.target, last.records + 1)
        else:
            joined.append(Difference(kind, source, target))
    return joined


def _next(offset: int | None, records: int) -> int | None:
    return None if offset is None else offset + records
