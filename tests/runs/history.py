"""The table of runs in a page of the documentation: one line for each run, the newest last."""

from __future__ import annotations

import fcntl
from collections import Counter
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from pathlib import Path

__all__ = ["MOST_RUNS", "PASSED", "WHOLE", "Run", "append_run", "read_runs"]

MOST_RUNS = 20
"""Runs that are kept of each suite, and as many of parts of it; older ones are dropped."""

WHOLE = "all"
PASSED = "passed"

_HEADINGS = ("suite", "ran", "began (UTC)", "commit", "result", "counts", "duration")


@dataclass(frozen=True, slots=True)
class Run:
    """One line. All fields are text as it is shown."""

    suite: str
    part: str
    """Which part of the suite ran; `WHOLE` for all of it."""
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


def read_runs(page: str) -> list[Run]:
    """The runs in a page's text. Lines that are none of the table's are passed over."""
    lines = [line.strip() for line in page.splitlines()]
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in lines if _is_row(line)
    ]
    return [Run(*row) for row in rows if len(row) == len(_HEADINGS)]


def append_run(page: Path, run: Run) -> None:
    """Add a run to the page, and drop the suite's oldest. Safe beside other processes that do the
    same. Raises OSError, and ValueError for a page that is no text."""
    with page.open("r+", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # held for the time of writing a few kilobytes
        text = file.read()
        runs = _newest([*read_runs(text), _cleaned(run)])
        file.seek(0)
        file.truncate()
        file.write(_with_table(text, runs))


def _is_row(line: str) -> bool:
    return line.startswith("|") and not line.startswith(("|-", f"| {_HEADINGS[0]} |"))


def _cleaned(run: Run) -> Run:
    return Run(*(" ".join(str(cell).replace("|", "/").split()) for cell in astuple(run)))


def _newest(runs: Sequence[Run]) -> list[Run]:
    seen: Counter[tuple[str, bool]] = Counter()
    kept = []
    for run in reversed(runs):
        kind = run.suite, run.part == WHOLE
        seen[kind] += 1
        if seen[kind] <= MOST_RUNS:
            kept.append(run)
    return kept[::-1]


def _with_table(text: str, runs: Sequence[Run]) -> str:
    lines = text.splitlines()
    first = next((n for n, line in enumerate(lines) if line.startswith("|")), len(lines))
    last = max((n for n, line in enumerate(lines, 1) if line.startswith("|")), default=first)
    rows = [_HEADINGS, *(astuple(run) for run in runs)]
    table = ["| " + " | ".join(row) + " |" for row in rows]
    table.insert(1, "|---" * len(_HEADINGS) + "|")
    return "\n".join([*lines[:first], *table, *lines[last:]]) + "\n"
