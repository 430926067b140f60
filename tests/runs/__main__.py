"""Records when a test suite ran, and says which suites are due.

    python -m tests.runs record SUITE -- COMMAND...
    python -m tests.runs status

`record` runs a command, adds a line to the table in docs/contributing/test-runs.md, and ends
with the status of the command. The line names the environment variables that chose what ran
(`tests/runs/suites.py`). That the line cannot be written is a warning.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType

from tests.runs.counts import counting_environment, read_counts
from tests.runs.history import PASSED, Run, append_run, newest_by_part, read_runs
from tests.runs.revisions import changes_since, revision
from tests.runs.suites import SUITES, Suite

ROOT = Path(__file__).parents[2]
PAGE = "docs/contributing/test-runs.md"


def record(suite: str, command: Sequence[str], *, root: Path = ROOT, page: str = PAGE) -> int:
    """Run a command, and record it as a run of a suite; the exit status of the command, or 128 and
    the signal that ended it."""
    commit = revision(root, page)
    began = datetime.now(UTC)
    clock = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        told = Path(folder, "counts.json")
        status = _run(command, counting_environment(told))
        counts = read_counts(told)
    run = Run(
        suite=suite,
        ran=SUITES[suite].ran(os.environ),
        began=f"{began:%Y-%m-%d %H:%M}",
        commit=commit,
        result=PASSED if status == 0 else f"failed with status {status}",
        counts=", ".join(f"{count:,} {noun}" for noun, count in counts.items()) or "none told",
        duration=_duration(time.monotonic() - clock),
    )
    try:
        append_run(root / page, run)
    except (OSError, ValueError) as error:
        print(f"This run of {suite} is not recorded: {error}", file=sys.stderr)
    return status


def _run(command: Sequence[str], environment: Mapping[str, str]) -> int:
    """Without a timeout: suites have their own, and some run for hours."""
    try:
        process = subprocess.Popen(command, env={**os.environ, **environment})
    except OSError as error:
        print(f"{command[0]} cannot be started: {error}", file=sys.stderr)
        return 127

    def pass_on(number: int, frame: FrameType | None) -> None:
        process.send_signal(number)

    before = signal.signal(signal.SIGTERM, pass_on)
    try:
        while True:
            try:
                status = process.wait()
                break
            except KeyboardInterrupt:  # the terminal has told the command, too
                continue
    finally:
        signal.signal(signal.SIGTERM, before)
    return status if status >= 0 else 128 - status


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def status_lines(
    suites: Mapping[str, Suite] = SUITES, *, root: Path = ROOT, page: str = PAGE
) -> list[str]:
    """Whether each suite's code has changed since its last whole run: one line for each suite, or
    for each of its parts where these ran by themselves."""
    try:
        runs = read_runs((root / page).read_text(encoding="utf-8"))
    except FileNotFoundError:
        runs = []
    found: list[tuple[str, str]] = []
    for name, suite in suites.items():
        newest = newest_by_part(suite, [run for run in runs if run.suite == name])
        if len(newest) == len(suite.parts) and len(set(map(id, newest.values()))) == 1:
            found.append((name, _said(next(iter(newest.values())), suite, root)))
        elif not newest:
            found.append((name, f"DUE      no run was whole, which is {suite.needed()}"))
        else:
            for part in suite.parts:
                run = newest.get(part)
                said = _said(run, suite, root) if run else "DUE      never ran whole"
                found.append((f"{name} {part}", said))
    width = max(len(name) for name, _ in found)
    return [f"{name:{width}}  {said}" for name, said in found]


def _said(run: Run, suite: Suite, root: Path) -> str:
    last = f"{run.result} {run.began} at {run.commit} ({run.ran}: {run.counts})"
    changes = changes_since(root, run.revision, suite.paths)
    if changes is None:
        return f"UNKNOWN  {last}; git cannot compare that commit with this code"
    if changes:
        return f"DUE      {last}; changed since: {changes}"
    return f"{'current' if run.passed else 'FAILED':8} {last}"


def main(argv: Sequence[str] | None = None) -> int:
    """The program; returns its exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.runs", description=(__doc__ or "").partition("\n")[0]
    )
    commands = parser.add_subparsers(dest="action", required=True)
    recording = commands.add_parser("record", help="run a command as a suite")
    recording.add_argument("suite", choices=sorted(SUITES))
    recording.add_argument("command", nargs="+", help="after --")
    commands.add_parser("status", help="which suites are due")
    arguments = parser.parse_args(argv)
    if arguments.action == "status":
        print("\n".join(status_lines()))
        return 0
    return record(arguments.suite, arguments.command)


if __name__ == "__main__":
    sys.exit(main())
