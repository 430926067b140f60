"""The table of runs in a page of the documentation: one line for each run, the newest last."""

from __future__ import annotations

import fcntl
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path

from tests.runs.suites import SUITES, Suite

__all__ = ["MOST_RUNS", "PASSED", "Run", "append_run", "newest_by_part", "read_runs"]

MOST_RUNS = 20
"""Runs that are kept of each suite as a whole, of whole parts of it, and of less, each. Beside them
stay the newest run of each whole part, and the widest one."""

PASSED = "passed"

_HEADINGS = ("suite", "ran", "began (UTC)", "commit", "result", "counts", "duration")


@dataclass(frozen=True, slots=True)
class Run:
    """One line. All fields are text as it is shown."""

    suite: str
    ran: str
    """What the run was limited to (`Suite.ran`)."""
    began: str
    commit: str
    """Abbreviated, with ", changed" if files differed from it; "unknown" without git."""
    result: str
    """`PASSED`, or how it failed."""
    counts: str
    duration: str

    @property
    def passed(self) -> bool:
        return self.result == PASSED

    @property
    def revision(self) -> str:
        """The commit alone."""
        return self.commit.partition(",")[0]

    def counted(self, noun: str) -> int:
        """The count of this noun, 0 if none was told."""
        number = f"[0-9,]+(?= {re.escape(noun)}(,|$))"
        found = re.search(number, self.counts) if noun else None
        return int(found[0].replace(",", "")) if found else 0


def read_runs(page: str) -> list[Run]:
    """The runs in a page's text. Lines that are none of the table's are passed over."""
    lines = [line.strip() for line in page.splitlines()]
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in lines if _is_row(line)
    ]
    return [Run(*row) for row in rows if len(row) == len(_HEADINGS)]


def newest_by_part(suite: Suite, runs: Sequence[Run]) -> dict[str, Run]:
    """The newest run that wholly covers each part of a suite; parts that never ran so are not in
    it. `runs`: the suite's, the newest last."""
    return {part: run for run in runs for part in suite.covers(run.ran)}


def append_run(page: Path, run: Run, suites: Mapping[str, Suite] = SUITES) -> None:
    """Add a run to the page, and drop what is too old. Safe beside other processes that do the
    same. Raises OSError, and ValueError for a page that is no text."""
    with page.open("r+", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # held for the time of writing a few kilobytes
        text = file.read()
        runs = _kept([*read_runs(text), _cleaned(run)], suites)
        file.seek(0)
        file.truncate()
        file.write(_with_table(text, runs))


def _is_row(line: str) -> bool:
    return line.startswith("|") and not line.startswith(("|-", f"| {_HEADINGS[0]} |"))


def _cleaned(run: Run) -> Run:
    return Run(*(" ".join(str(cell).replace("|", "/").split()) for cell in astuple(run)))


def _kept(runs: Sequence[Run], suites: Mapping[str, Suite]) -> list[Run]:
    kept: set[int] = set()
    for name in {run.suite for run in runs}:
        suite = suites.get(name, Suite(()))
        own = [run for run in runs if run.suite == name]
        kept.update(map(id, newest_by_part(suite, own).values()))
        kept.update(map(id, _widest(suite, own)))
        seen: Counter[int] = Counter()
        for run in reversed(own):
            covered = len(suite.covers(run.ran))
            extent = covered if covered in (0, len(suite.parts)) else 1
            seen[extent] += 1
            if seen[extent] <= MOST_RUNS:
                kept.add(id(run))
    return [run for run in runs if id(run) in kept]


def _widest(suite: Suite, runs: Sequence[Run]) -> list[Run]:
    """Of each part, and of the whole, the run that counted most: the newest of those that did."""
    widest: dict[str, Run] = {}
    for run in runs:
        part = suite.part_of(run.ran)
        most = widest.get(part)
        if most is None or run.counted(suite.measure) >= most.counted(suite.measure):
            widest[part] = run
    return list(widest.values())


def _with_table(text: str, runs: Sequence[Run]) -> str:
    lines = text.splitlines()
    first = next((n for n, line in enumerate(lines) if line.startswith("|")), len(lines))
    last = max((n for n, line in enumerate(lines, 1) if line.startswith("|")), default=first)
    rows = [_HEADINGS, *(astuple(run) for run in runs)]
    table = ["| " + " | ".join(row) + " |" for row in rows]
    table.insert(1, "|---" * len(_HEADINGS) + "|")
    return "\n".join([*lines[:first], *table, *lines[last:]]) + "\n"
