"""Proves a copy from both logs and from what the producers know: pure, nothing of the mirror's.

Every record of a trial has a value of its own, so each record of the copy has one place in the
source's order. Only a producer that is not idempotent may write one twice: a leader that resigns
before its followers have a record refuses it, and they may yet have it. Then the copy has both.

A *finding* breaks a promise. A *tally* counts what may happen but is bounded: records that came
again, and how often the copy went back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from tests.support.chaos.journal import Fate, Written
from tests.support.chaos.logs import Checkpoint, Page, Record, sessions, targets

__all__ = ["Case", "Finding", "Manner", "Tally", "check_checkpoints", "check_copy", "check_map"]

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
    """`kind`: lost, doubled, reordered, changed, invented, aborted, reported, map, checkpoint; of a
    worker, stop."""

    kind: str
    where: str
    text: str

    def __str__(self) -> str:
        return f"{self.where}: {self.kind}: {self.text}"


@dataclass(slots=True)
class Tally:
    """Of one partition or, added up, of several."""

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


@dataclass(slots=True)
class Case:
    """The evidence for one partition. `source`, `target`: committed records as they are now.
    `written`: by value. `lost`: what the mirror reported as gone before it was copied, first and
    last offset. `start`: the source's first offset."""

    name: str
    manner: Manner
    source: Sequence[Record]
    target: Sequence[Record]
    written: Mapping[bytes, Written] = field(default_factory=dict)
    lost: Sequence[tuple[int, int]] = ()
    start: int = 0
    exactly_once: bool = False

    @property
    def life(self) -> int:
        return max((each.life for each in self.written.values()), default=0)

    def places(self) -> dict[bytes, Place]:
        """Of every record whose place is known."""
        found = {
            value: (each.life, each.offset)
            for value, each in self.written.items()
            if each.fate is Fate.ACKNOWLEDGED and each.offset is not None
        }
        life = self.life
        for record in self.source:
            assert record.value is not None
            found[record.value] = (life, record.offset)
        return found

    def written_again(self) -> dict[bytes, list[Place]]:
        """The places of values that the source has several times."""
        life = self.life
        found: dict[bytes, list[Place]] = {}
        for record in self.source:
            found.setdefault(record.value or b"", []).append((life, record.offset))
        return {value: places for value, places in found.items() if len(places) > 1}

    def required(self, places: Mapping[bytes, Place]) -> set[bytes]:
        """The values that must be in the copy."""
        here = {record.value for record in self.source if record.value is not None}
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


def check_copy(case: Case) -> tuple[list[Finding], Tally]:
    """Nothing lost, invented, changed or out of order; under exactly-once nothing doubled."""
    places = case.places()
    required = case.required(places)
    contents = {record.value: record.content for record in case.source}
    wrong = _Wrong(case.name)
    tally = Tally(written=len(case.written), copied=len(case.target))
    tally.reported_lost = sum(last - first + 1 for first, last in case.lost)
    again = case.written_again()
    tally.written_again = sum(len(offsets) - 1 for offsets in again.values())
    seen: Counter[bytes] = Counter()
    highest, last = (-1, -1), (-1, -1)
    for record in case.target:
        value = record.value
        if value is None or value not in places:
            if kind := _foreign(case, value):
                wrong.note(kind, record.offset, value)
            continue
        # Of a value that the source has several times, the first copy is the first of them.
        there = again.get(value, [places[value]])
        place, first = there[min(seen[value], len(there) - 1)], there[0]
        if value in contents and contents[value] != record.content:
            wrong.note("changed", record.offset, value)
        if seen[value] >= len(there):
            tally.repeated += 1
            if case.exactly_once:
                wrong.note("doubled", record.offset, value)
        elif not seen[value] and first < highest:
            wrong.note("reordered", record.offset, value)
        tally.jumps += place <= last
        seen[value] += 1
        highest, last = max(highest, first), place
    for value in sorted(required, key=places.__getitem__):
        if seen[value] < len(again.get(value, [value])):
            wrong.note("lost", places[value][1], value)
    findings = [*wrong.findings(), *_check_reports(case), *_check_lives(case, places, set(seen))]
    return findings, tally


def _foreign(case: Case, value: bytes | None) -> str | None:
    """What is wrong with a record of the copy whose place in the source is not known."""
    written = case.written.get(value) if value is not None else None
    if written is None:
        return "invented"
    if written.fate is Fate.ABORTED:
        return "aborted"
    # Not acknowledged, and not in the source's log now: it may have been, unless nothing leaves it.
    return "invented" if case.manner is Manner.WHOLE else None


def _check_reports(case: Case) -> Iterator[Finding]:
    """What was reported as lost was really deleted, and not copied where that can be known."""
    places = case.places() if case.lost else {}
    for first, last in case.lost:
        if case.manner is not Manner.TRIMMED or last >= case.start:
            text = f"offsets {first} to {last} as lost, but the source begins at {case.start}"
            yield Finding("reported", case.name, text)
        if case.exactly_once:
            copied = sum(
                first <= places[r.value][1] <= last for r in case.target if r.value in places
            )
            if copied:
                text = f"offsets {first} to {last} as lost, of which {copied} were copied"
                yield Finding("reported", case.name, text)


def _check_lives(case: Case, places: Mapping[bytes, Place], seen: set[bytes]) -> Iterator[Finding]:
    """Of a topic that was deleted, the end may be missing, but nothing before what was copied."""
    present = case.life
    reached: dict[int, int] = {}
    for value in seen:
        life, offset = places[value]
        reached[life] = max(reached.get(life, -1), offset)
    holes = [
        place
        for value, place in places.items()
        if place[0] < present and value not in seen and place[1] < reached.get(place[0], -1)
    ]
    if holes and case.manner is Manner.CREATED_AGAIN:
        text = f"{len(holes)} records of topics before, first (life, offset) {min(holes)}"
        yield Finding("lost", case.name, text)


class _Wrong:
    """Gathers what is wrong by kind, to be told in a line each."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._found: dict[str, list[tuple[int, bytes | None]]] = {}

    def note(self, kind: str, offset: int, value: bytes | None) -> None:
        self._found.setdefault(kind, []).append((offset, value))

    def findings(self) -> Iterator[Finding]:
        for kind, found in self._found.items():
            first = [(offset, (value or b"").split(b"|")[0]) for offset, value in found[:_SHOWN]]
            yield Finding(kind, self._name, f"{len(found)} records, first {first}")


def check_map(case: Case, pages: Iterable[Page]) -> list[Finding]:
    """Every mapped source offset is precisely that record, and every record there is is mapped.

    Under exactly-once pages are written after the commits, every 5 s: a task that died leaves out
    what comes before the next one's first page (docs/exactly-once.md), but nothing else.
    """
    pages = list(pages)
    found = targets(pages)
    copies = {record.offset: record.value for record in case.target}
    last = case.life
    values = {offset: value for value, (life, offset) in case.places().items() if life == last}
    wrong = [
        (source, target)
        for source, target in found.items()
        if source in values and copies.get(target) != values[source]
    ]
    copied = set(copies.values())
    missing = [r.offset for r in case.source if r.value in copied and r.offset not in found]
    if case.exactly_once:
        spans = sessions(pages)
        missing = [offset for offset in missing if not _between(spans, offset)]
    findings = []
    if wrong:
        text = f"{len(wrong)} source offsets lead to other records, first {wrong[:_SHOWN]}"
        findings.append(Finding("map", case.name, text))
    if missing:
        text = f"{len(missing)} copied source offsets are not in it, first {missing[:_SHOWN]}"
        findings.append(Finding("map", case.name, text))
    return findings


def _between(spans: Iterable[tuple[int, int]], offset: int) -> bool:
    """Whether no session saw the offset, and a later one begins after it."""
    return not any(first <= offset < end for first, end in spans) and any(
        first > offset for first, _ in spans
    )


def check_checkpoints(
    case: Case, found: Sequence[Checkpoint], committed: int | None = None
) -> list[Finding]:
    """No checkpoint leaves a record out; the last one, for `committed`, leads to the very next.

    `found`: of one group and partition, oldest first.
    """
    last_copy = {record.value: record.offset for record in case.target}
    findings = []
    for each in found:
        left_out = [
            record.offset
            for record in case.source
            if record.offset >= each.upstream and last_copy.get(record.value, -1) < each.downstream
        ]
        if left_out:
            text = f"{each} leaves out {len(left_out)} records, first {left_out[:_SHOWN]}"
            findings.append(Finding("checkpoint", case.name, text))
    if committed is not None:
        findings.extend(_check_last(case, found, committed))
    return findings


def _check_last(case: Case, found: Sequence[Checkpoint], committed: int) -> Iterator[Finding]:
    if not found or found[-1].upstream != committed:
        yield Finding("checkpoint", case.name, f"none for offset {committed}: {found[-1:]}")
        return
    due = next((r.value for r in case.source if r.offset >= committed), None)
    there = next((r.value for r in case.target if r.offset >= found[-1].downstream), None)
    if due != there:
        text = f"{found[-1]} leads to {(there or b'').split(b'|')[0]!r}, not the next record"
        yield Finding("checkpoint", case.name, f"{text}, {(due or b'').split(b'|')[0]!r}")
