"""Proves the offset map against both logs."""

from __future__ import annotations

from collections.abc import Iterable

from tests.support.chaos.evidence import Case, Finding
from tests.support.chaos.logs import Page, sessions, targets

__all__ = ["check_map"]

_SHOWN = 3


def check_map(case: Case, pages: Iterable[Page]) -> list[Finding]:
    """Every mapped source offset is precisely that record, and every record there is is mapped.

    Under exactly-once pages are written after the commits, every 5 s: a task that died leaves out
    what comes before the next one's first page (docs/explanation/exactly-once.md), but nothing
    else.
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
