"""What the checker is given of one partition, and the findings it returns."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from tests.support.chaos.journal import Fate, Written
from tests.support.chaos.logs import Mark

__all__ = ["Bounds", "Case", "Finding", "Manner", "Place", "Tally", "Wrong"]

_SHOWN = 3

Place = tuple[int, int]
"""Life of the topic and offset: where a record stands in the source's order."""


class Manner(Enum):
    """What happens to a source topic besides being written to."""

    WHOLE = "whole"
    COMPACTED = "compacted"
    TRIMMED = "trimmed"
    CREATED_AGAIN = "created again"


@dataclass(frozen=True, slots=True)
class Finding:
    """A promise that was broken. `kind`: lost, doubled, reordered, gap, changed, invented, aborted,
    reported, map, checkpoint, skipped; of a worker, stop."""

    kind: str
    where: str
    text: str

    def __str__(self) -> str:
        return f"{self.where}: {self.kind}: {self.text}"


@dataclass(slots=True)
class Tally:
    """Of one partition or, added up, of several. `jumps`: how often the copy went back."""

    written: int = 0
    copied: int = 0
    repeated: int = 0
    jumps: int = 0
    reported_lost: int = 0
    written_again: int = 0

    def add(self, other: Tally) -> None:
        self.written += other.written
        self.copied += other.copied
        self.repeated += other.repeated
        self.jumps += other.jumps
        self.reported_lost += other.reported_lost
        self.written_again += other.written_again


@dataclass(frozen=True, slots=True)
class Bounds:
    """What may be doubled at least once.

    `restarts`: how often copying may have begun again. `unstored`: how many records may have been
    copied and not stored when it did. `overlapping`: a worker that was paused or cut off may have
    gone on beside its successor.
    """

    restarts: int = 0
    unstored: int = 0
    overlapping: bool = False


@dataclass(slots=True)
class Case:
    """The evidence for one partition. `source`, `target`: committed records as they are now.
    `written`: by identity. `lost`: the first and last offset of each range that the mirror reported
    as deleted before it was copied. `created_again`: the offset that was next, of each report that
    the source's topic was created again. `start`: the source's first offset. `hidden`: values that
    the source has, and hides from committed readers.

    It may hide a record whose commit was acknowledged: a coordinator skips the marker of a
    partition that has no leader at that moment, and the next marker of the producer may abort both
    transactions.
    """

    name: str
    manner: Manner
    source: Sequence[Mark]
    target: Sequence[Mark]
    written: Mapping[bytes, Written] = field(default_factory=dict)
    lost: Sequence[tuple[int, int]] = ()
    start: int = 0
    exactly_once: bool = False
    created_again: Sequence[int] = ()
    bounds: Bounds = Bounds()
    hidden: Collection[bytes] = ()

    @property
    def life(self) -> int:
        return max((each.life for each in self.written.values()), default=0)

    def places(self) -> dict[bytes, Place]:
        """Of every record whose place is known."""
        found = {
            value: (each.life, each.offset)
            for value, each in self.written.items()
            if each.fate is Fate.ACKNOWLEDGED
            and each.offset is not None
            and value not in self.hidden
        }
        life = self.life
        found.update((record.value, (life, record.offset)) for record in self.source)
        return found

    def written_again(self) -> dict[bytes, list[Place]]:
        """The places of values that the source has several times."""
        life = self.life
        found: dict[bytes, list[Place]] = {}
        for record in self.source:
            found.setdefault(record.value, []).append((life, record.offset))
        return {value: places for value, places in found.items() if len(places) > 1}

    def required(self, places: Mapping[bytes, Place]) -> set[bytes]:
        """The values that must be in the copy."""
        here = {record.value for record in self.source}
        match self.manner:
            case Manner.COMPACTED:
                return here
            case Manner.WHOLE:
                return set(places)
            case Manner.TRIMMED:
                return here | {value for value, (_, at) in places.items() if not self.gone(at)}
            case Manner.CREATED_AGAIN:
                last = self.life
                return here | {value for value, (life, _) in places.items() if life == last}

    def gone(self, offset: int) -> bool:
        return any(first <= offset <= last for first, last in self.lost)


class Wrong:
    """Gathers records by what is wrong with them, and tells each kind in one line."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._found: dict[str, list[tuple[int, bytes]]] = {}

    def note(self, kind: str, offset: int, value: bytes) -> None:
        self._found.setdefault(kind, []).append((offset, value))

    def findings(self) -> Iterator[Finding]:
        for kind, found in self._found.items():
            first = [(offset, value.split(b"|")[0]) for offset, value in found[:_SHOWN]]
            yield Finding(kind, self._name, f"{len(found)} records, first {first}")
