"""How a suite tells `python -m tests.runs record`, which started it, what it has counted.

As a plugin of pytest (`-p tests.runs.counts`) this tells the numbers of tests by outcome; other
programs call `note`.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

__all__ = ["counting_environment", "note", "read_counts"]

_VARIABLE = "SUITE_COUNTS"
_OUTCOMES = ("passed", "failed", "error", "skipped", "xfailed", "xpassed")


def counting_environment(path: Path) -> Mapping[str, str]:
    """Environment variables for a child of this process, whose counts are to be in `path`."""
    return {_VARIABLE: f"{os.getpid()}:{path}"}


def note(counts: Mapping[str, int]) -> None:
    """Tell counts, by their nouns. The last call counts. Does nothing in a process that nobody
    records; so in one that a recorded suite started."""
    parent, _, path = os.environ.get(_VARIABLE, "").partition(":")
    if not path or int(parent) != os.getppid():
        return
    try:
        Path(path).write_text(json.dumps(counts), encoding="utf-8")
    except OSError as error:  # the suite counts, not its record
        print(f"The counts of this run are not recorded: {error}", file=sys.stderr)


def read_counts(path: Path) -> dict[str, int]:
    """What the suite has told; nothing if it ended before it could."""
    try:
        counts: dict[str, int] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return counts


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Called by pytest at the end of a run; with pytest-xdist in its main process only."""
    found = {name: len(terminalreporter.getreports(name)) for name in _OUTCOMES}
    note({name: count for name, count in found.items() if count})
