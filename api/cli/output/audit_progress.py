"""Shows the progress of an audit on a terminal: bytes read and left, the rate, and the time left.

The progress goes to stderr, so that stdout contains only the report. Without a terminal, nothing is
shown.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Self, TextIO

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from connectors.mirror.audit.auditor import RangeOutcome
from connectors.mirror.audit.plan import AuditRange

__all__ = ["AuditProgress"]


class _Bytes(ProgressColumn):
    """A column with the bytes read and the estimated bytes left."""

    def render(self, task: Task) -> Text:
        left = max(0.0, (task.total or 0.0) - task.completed)
        speed = f", {_megabytes(task.speed)}/s" if task.speed else ""
        return Text(f"{_megabytes(task.completed)} read, {_megabytes(left)} left{speed}")


class AuditProgress:
    """Shows the progress over these ranges while the block runs. For one thread."""

    def __init__(self, ranges: Iterable[AuditRange], out: TextIO | None = None) -> None:
        stream = sys.stderr if out is None else out
        self._planned = {_key(each): 2 * each.bytes for each in ranges}
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            _Bytes(),
            TimeElapsedColumn(),
            TextColumn("done in"),
            TimeRemainingColumn(),
            console=Console(file=stream),
            disable=not stream.isatty(),
        )
        self._task = self._progress.add_task("Auditing", total=sum(self._planned.values()))

    def note(self, outcome: RangeOutcome) -> None:
        """Mark a range as done and replace its estimated size with the bytes that were read."""
        planned = self._planned.pop(_key(outcome.range), 0)
        read = planned if outcome.result is None else outcome.result.bytes
        task = self._progress.tasks[0]
        done = task.completed + read
        self._progress.update(self._task, completed=done, total=done + sum(self._planned.values()))

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()


def _key(wanted: AuditRange) -> tuple[str, int, int]:
    return (*wanted.source, wanted.source_start)


def _megabytes(count: float) -> str:
    return f"{count / 1e9:,.1f} GB" if count >= 1e9 else f"{count / 1e6:,.0f} MB"
