"""The demo's output: a live view on a terminal, otherwise plain lines.

Both views have the same methods, for one thread (`bar` for any thread).
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, Self, TextIO

from rich import box
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.live import Live
from rich.progress import BarColumn, Progress, TaskID, TextColumn
from rich.table import Table
from rich.text import Text

from connect.clock import SYSTEM_CLOCK, Clock
from deploy.demo.progress import TopicRow

__all__ = ["LiveView", "PlainView", "View", "WorkerRow", "lag_text", "make_view"]

_REFRESH_HZ = 4
PLAIN_EVERY_S = 5.0
"""Interval of the plain view's lines about topics."""

_PLAIN_STEP = 20
"""Percent between two lines of a plain progress bar."""


@dataclass(frozen=True, slots=True)
class WorkerRow:
    """One Connect worker. `state`: text for the user. `runs`: its connectors and tasks."""

    number: int
    url: str
    pid: int | None
    state: str
    runs: tuple[str, ...]


class View(Protocol):
    """The methods of a view."""

    def say(self, text: str) -> None:
        """Print a sentence permanently."""

    def bar(self, what: str, done: float, total: float, unit: str) -> None:
        """Show progress. Another call with the same `what` updates the bar."""

    def topics(self, rows: Sequence[TopicRow], footer: str) -> None:
        """Show the current state of each topic."""

    def workers(self, rows: Sequence[WorkerRow]) -> None:
        """Show what each worker runs."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...


def make_view(out: TextIO) -> View:
    return LiveView(out) if out.isatty() else PlainView(out)


def lag_text(records: int | None) -> str:
    """Format a number of records; None: not known."""
    return "?" if records is None else f"{records:,}"


def seconds_text(seconds: float | None) -> str:
    if seconds is None:
        return "?"
    return f"{seconds:.1f} s" if seconds < 100 else f"{seconds / 60:.0f} min"


class PlainView:
    """Prints line by line, for logs and pipes."""

    def __init__(self, out: TextIO, clock: Clock = SYSTEM_CLOCK) -> None:
        self._out = out
        self._clock = clock
        self._steps: dict[str, int] = {}
        self._shown_at: float | None = None
        self._workers: dict[int, WorkerRow] = {}
        self._lock = threading.Lock()

    def say(self, text: str) -> None:
        with self._lock:
            print(text, file=self._out, flush=True)

    def bar(self, what: str, done: float, total: float, unit: str) -> None:
        percent = int(100 * done / total) if total else 100
        step = percent // _PLAIN_STEP * _PLAIN_STEP
        if self._steps.get(what, -1) < step:
            self._steps[what] = step
            self.say(f"{what}: {done:,.0f} of {total:,.0f} {unit} ({percent} %)")

    def topics(self, rows: Sequence[TopicRow], footer: str) -> None:
        now = self._clock.monotonic()
        if self._shown_at is not None and now - self._shown_at < PLAIN_EVERY_S:
            return
        self._shown_at = now
        for row in rows:
            self.say(
                f"  {row.topic.name}: source end {row.source_end:,}, target end "
                f"{row.target_end:,}, lag {lag_text(row.lag_records)} records / "
                f"{seconds_text(row.lag_seconds)}, {row.bytes_per_s / 1e6:.1f} MB/s"
            )
        self.say(footer)

    def workers(self, rows: Sequence[WorkerRow]) -> None:
        """Print only the changes."""
        for row in rows:
            if self._workers.get(row.number) != row:
                self._workers[row.number] = row
                self.say(f"  worker {row.number}: {row.state}, {', '.join(row.runs) or 'nothing'}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return


class LiveView:
    """A live view on a terminal: sentences scroll, bars and the table below are updated."""

    def __init__(self, out: TextIO) -> None:
        self._console = Console(file=out, highlight=False)
        self._bars = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=None),
            TextColumn("{task.fields[amount]}", justify="right"),
            auto_refresh=False,
            expand=True,
        )
        self._tasks: dict[str, TaskID] = {}
        self._lock = threading.Lock()
        self._table: RenderableType | None = None
        self._worker_table: RenderableType | None = None
        self._live = Live(
            self, console=self._console, refresh_per_second=_REFRESH_HZ, transient=False
        )

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        with self._lock:
            parts: list[RenderableType] = []
            if self._tasks:
                parts.append(self._bars.get_renderable())
            tables = (self._worker_table, self._table)
            parts += [table for table in tables if table is not None]
        yield Group(*parts)

    def say(self, text: str) -> None:
        self._console.print(Text(text))

    def bar(self, what: str, done: float, total: float, unit: str) -> None:
        amount = f"{done:,.0f} of {total:,.0f} {unit}"
        with self._lock:
            if what not in self._tasks:
                self._tasks[what] = self._bars.add_task(what, amount="")
            self._bars.update(self._tasks[what], completed=done, total=total, amount=amount)

    def topics(self, rows: Sequence[TopicRow], footer: str) -> None:
        table = _table(footer)
        table.add_column("topic", no_wrap=True)
        table.add_column("", no_wrap=True)
        for name in ("source end", "target end", "lag", "behind", "records/s", "MB/s"):
            table.add_column(name, justify="right", no_wrap=True)
        for row in rows:
            table.add_row(
                row.topic.name,
                Text(f"{row.topic.partitions} x {row.topic.kind}", "dim"),
                f"{row.source_end:,}",
                f"{row.target_end:,}",
                lag_text(row.lag_records),
                seconds_text(row.lag_seconds),
                f"{row.records_per_s:,.0f}",
                f"{row.bytes_per_s / 1e6:.1f}",
            )
        with self._lock:
            self._table = table

    def workers(self, rows: Sequence[WorkerRow]) -> None:
        table = _table()
        for name in ("worker", "pid", "REST", "state", "runs"):
            table.add_column(name, no_wrap=name != "runs")
        for row in rows:
            pid = "" if row.pid is None else str(row.pid)
            cells = [str(row.number), pid, row.url, row.state, ", ".join(row.runs)]
            table.add_row(*(f"{cell} " for cell in cells))
        with self._lock:
            self._worker_table = table

    def __enter__(self) -> Self:
        self._live.start(refresh=True)
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()


def _table(footer: str | None = None) -> Table:
    """Build the table. Without edges and padding all columns fit into 80 characters."""
    return Table(
        box=box.SIMPLE_HEAD,
        show_edge=False,
        padding=0,
        expand=True,
        header_style="bold",
        caption=footer,
        caption_justify="left",
    )
