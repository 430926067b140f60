"""Proves a copy from both logs and from what the producers know: pure, nothing of the mirror's.

Every record of a trial has a value of its own, so each record of the copy has one place in the
source's order. Only a producer that is not idempotent may write one twice: a leader that resigns
before its followers have a record refuses it, and they may yet have it. Then the copy has both.

A *finding* breaks a promise. A *tally* counts what may happen; its bounds are in `Bounds`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from tests.support.chaos.evidence import Case, Finding, Manner, Place, Tally, Wrong
from tests.support.chaos.journal import Fate
from tests.support.chaos.logs import Mark
from tests.support.chaos.runs import Runs, Step

__all__ = ["check_copy"]


def check_copy(case: Case) -> tuple[list[Finding], Tally]:
    """Nothing lost, invented, changed or out of order; nothing doubled under exactly-once, and
    otherwise no more than restarts explain."""
    places = case.places()
    wrong = Wrong(case.name)
    seen, tally = _read_copy(case, places, wrong)
    again = case.written_again()
    tally.written_again = sum(len(offsets) - 1 for offsets in again.values())
    for value in sorted(case.required(places), key=places.__getitem__):
        if seen[value] < len(again.get(value, [value])):
            wrong.note("lost", places[value][1], value)
    findings = [
        *wrong.findings(),
        *_check_doubles(case, tally),
        *_check_reports(case, places),
        *_check_lives(case, places, set(seen)),
    ]
    return findings, tally


def _read_copy(
    case: Case, places: Mapping[bytes, Place], wrong: Wrong
) -> tuple[Counter[bytes], Tally]:
    """How often each value is in the copy."""
    again = case.written_again()
    runs = _runs(case, places, again)
    contents = _contents(case)
    tally = Tally(written=len(case.written), copied=len(case.target))
    tally.reported_lost = sum(last - first + 1 for first, last in case.lost)
    seen: Counter[bytes] = Counter()
    highest = (-1, -1)
    for record in case.target:
        value = record.value
        if contents.get(value, record.content) != record.content:
            wrong.note("changed", record.offset, value)
        if value not in places:
            if kind := _foreign(case, value):
                wrong.note(kind, record.offset, value)
            continue
        there = again.get(value) or [places[value]]
        if seen[value] >= len(there):
            tally.repeated += 1
            if case.exactly_once:
                wrong.note("doubled", record.offset, value)
        elif not seen[value] and there[0] < highest:
            wrong.note("reordered", record.offset, value)
        # Of a value that the source has several times, the first copy is the first of them.
        expected = there[min(seen[value], len(there) - 1)]
        place = next((each for each in there if runs.follows(each)), expected)
        if runs.step(place) is Step.GAP:
            wrong.note("gap", record.offset, value)
        seen[value] += 1
        highest = max(highest, there[0])
    tally.jumps = runs.again
    return seen, tally


def _runs(case: Case, places: Mapping[bytes, Place], again: Mapping[bytes, list[Place]]) -> Runs:
    all_places = {*places.values(), *(place for several in again.values() for place in several)}
    order = sorted(all_places)
    match case.manner:
        case Manner.COMPACTED:
            life = case.life
            required = {(life, record.offset) for record in case.source}
        case Manner.TRIMMED:
            required = {place for place in all_places if not case.gone(place[1])}
        case _:
            required = all_places
    return Runs(order, required, overlapping=case.bounds.overlapping)


def _contents(case: Case) -> dict[bytes, int]:
    """Fingerprints, as the source has the record or, where it is gone, as it was written."""
    found = {
        value: each.content for value, each in case.written.items() if each.content is not None
    }
    found.update((record.value, record.content) for record in case.source)
    return found


def _foreign(case: Case, value: bytes) -> str | None:
    """What is wrong with a record of the copy whose place in the source is not known."""
    written = case.written.get(value)
    if written is None:
        return "invented"
    if written.fate is Fate.ABORTED:
        return "aborted"
    # Not acknowledged, and not in the source's log now: it may have been, unless nothing leaves it.
    return "invented" if case.manner is Manner.WHOLE else None


def _check_doubles(case: Case, tally: Tally) -> Iterator[Finding]:
    bounds = case.bounds
    if case.exactly_once:
        return
    if tally.jumps > bounds.restarts:
        text = f"copying began again {tally.jumps} times, with {bounds.restarts} restarts"
        yield Finding("doubled", case.name, text)
    most = bounds.restarts * bounds.unstored
    if tally.repeated > most:
        text = (
            f"{tally.repeated} records came again; {bounds.restarts} restarts with up to "
            f"{bounds.unstored} records that were not stored explain {most}"
        )
        yield Finding("doubled", case.name, text)


def _check_reports(case: Case, places: Mapping[bytes, Place]) -> Iterator[Finding]:
    """What was reported as lost was really deleted, and not copied where that can be known."""
    for first, last in case.lost:
        if case.manner is not Manner.TRIMMED or last >= case.start:
            text = f"offsets {first} to {last} as lost, but the source begins at {case.start}"
            yield Finding("reported", case.name, text)
        if case.exactly_once and (copied := _copied(case.target, places, first, last)):
            text = f"offsets {first} to {last} as lost, of which {copied} were copied"
            yield Finding("reported", case.name, text)
    if case.created_again and not case.life:
        text = "the source's topic as created again, which it was not"
        yield Finding("reported", case.name, text)


def _copied(target: Sequence[Mark], places: Mapping[bytes, Place], first: int, last: int) -> int:
    """How many records of the copy are of this range of source offsets."""
    return sum(
        first <= places[record.value][1] <= last for record in target if record.value in places
    )


def _check_lives(case: Case, places: Mapping[bytes, Place], seen: set[bytes]) -> Iterator[Finding]:
    """Of a topic that was deleted the end may be missing if that was reported, but nothing before
    what was copied."""
    if case.manner is not Manner.CREATED_AGAIN:
        return
    reached: dict[int, int] = {}
    for value in seen:
        life, offset = places[value]
        reached[life] = max(reached.get(life, -1), offset)
    missing = sorted(
        place for value, place in places.items() if place[0] < case.life and value not in seen
    )
    holes = [(life, offset) for life, offset in missing if offset < reached.get(life, -1)]
    if holes:
        text = f"{len(holes)} records of topics before, first (life, offset) {holes[0]}"
        yield Finding("lost", case.name, text)
    first: dict[int, int] = {}
    for life, offset in missing:
        first.setdefault(life, offset)
    for life, offset in first.items():
        # A life of which nothing was copied may have ended before it was seen at all. Then the
        # report is of the one before.
        most = offset if life in reached else None
        if not any(most is None or position <= most for position in case.created_again):
            text = (
                f"offset {offset} and more of life {life} of the topic were neither copied nor "
                "reported"
            )
            yield Finding("lost", case.name, text)
