"""Logs of a few records, made by hand."""

from __future__ import annotations

from collections.abc import Sequence

from tests.support.chaos.evidence import Bounds, Case, Finding, Manner
from tests.support.chaos.journal import Fate, Written
from tests.support.chaos.logs import Mark, Record

__all__ = ["SHIFT", "case", "copy", "kinds", "marks", "record", "source", "written"]

SHIFT = 100
"""The copy stands at other offsets than the source."""


def record(n: int, offset: int) -> Record:
    return Record(offset, b"k", b"v%d|and more" % n, 1_000 + n, (("n", b"%d" % n),))


def marks(records: Sequence[Record]) -> list[Mark]:
    return [record.mark for record in records]


def source(*numbers: int) -> list[Record]:
    return [record(n, n) for n in numbers]


def copy(*numbers: int) -> list[Record]:
    return [record(n, SHIFT + at) for at, n in enumerate(numbers)]


def written(*numbers: int, fate: Fate = Fate.ACKNOWLEDGED, life: int = 0) -> dict[bytes, Written]:
    return {b"v%d|" % n: Written("t", 0, life, fate, n, record(n, n).mark.content) for n in numbers}


def case(
    before: Sequence[Record],
    after: Sequence[Record],
    manner: Manner = Manner.WHOLE,
    bounds: Bounds = Bounds(),  # noqa: B008 - frozen
) -> Case:
    found = written(*(record.offset for record in before))
    return Case("t-0", manner, marks(before), marks(after), found, bounds=bounds)


def kinds(findings: Sequence[Finding]) -> list[str]:
    return [finding.kind for finding in findings]
