"""Shows the progress of a command that reads and compares, on a terminal: bytes read and left, the
rate, and the time left.

The progress goes to stderr, so that stdout contains only the report. Without a terminal, nothing is
shown. Lines that are printed meanwhile appear above it if stdout is a terminal, too.
"""

from __future__ import annotations

import sys
from collections.abc import Hashable, Iterator, Mapping
from contextlib import contextmanager
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

__all__ = ["ASKING", "ReadProgress", "gathering"]

ASKING = "Asking the clusters"
"""What a command that changes nothing does most of its time."""


class _Bytes(ProgressColumn):
    """A column with the bytes read and the estimated bytes left."""

    def render(self, task: Task) -> Text:
        left = max(0.0, (task.total or 0.0) - task.completed)
        speed = f", {_megabytes(task.speed)}/s" if task.speed else ""
        return Text(f"{_megabytes(task.completed)} read, {_megabytes(left)} left{speed}")


@contextmanager
def gathering(what: str, out: TextIO | None = None) -> Iterator[None]:
    """Show that a step without a known size goes on, while the block runs."""
    with Console(file=sys.stderr if out is None else out).status(what):
        yield


class ReadProgress:
    """Shows the progress over the parts of a job while the block runs. For one thread."""

    def __init__(
        self, title: str, planned: Mapping[Hashable, int], out: TextIO | None = None
    ) -> None:
        """`planned`: the estimated bytes of each part, by any name of it."""
        stream = sys.stderr if out is None else out
        self._planned = dict(planned)
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            _Bytes(),
            TimeElapsedColumn(),
            TextColumn("done in"),
            TimeRemainingColumn(),
            console=Console(file=stream),
            disable=not stream.isatty(),
            # What goes to a file or a pipe must not get onto the terminal instead.
            redirect_stdout=sys.stdout.isatty(),
        )
        self._task = self._progress.add_task(title, total=sum(self._planned.values()))

    def note(self, part: Hashable, read: int | None = None) -> None:
        """Mark a part as done and replace its estimated size with the bytes that were read, if they
        are known."""
        planned = self._planned.pop(part, 0)
        task = self._progress.tasks[0]
        done = task.completed + (planned if read is None else read)
        self._progress.update(self._task, completed=done, total=done + sum(self._planned.values()))

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()


def _megabytes(count: float) -> str:
    return f"{count / 1e9:,.1f} GB" if count >= 1e9 else f"{count / 1e6:,.0f} MB"
