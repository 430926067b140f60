"""Prints the status of a running mirror, once or as a live view of a terminal."""

from __future__ import annotations

import sys
from datetime import datetime
from typing import TYPE_CHECKING, Self, TextIO

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from api.cli.output.durations import time_text
from api.cli.output.tables import rich_table, table_printer

if TYPE_CHECKING:
    from api.cli.connect_mirror.status import FlowStatus, LaggingPartition, MirrorStatus

__all__ = ["LiveStatus", "print_status"]

SHOWN_PARTITIONS = 15
"""Partitions shown, the most urgent first; `-o json` has all."""

_FLOW_COLUMNS = (
    "flow",
    "healthy",
    "tasks",
    "partitions",
    "lag (records)",
    "lag (time)",
    "time to loss",
)
_PARTITION_COLUMNS = ("partition", "lag (records)", "lag (time)", "time to loss")
_PROBLEM_COLUMNS = ("subject", "state", "cause")


def print_status(
    status: MirrorStatus, output: str | None = None, out: TextIO | None = None
) -> None:
    """Print the flows, the partitions that are behind, and the problems."""
    printer = table_printer(out, output)
    printer.table("Flows", _FLOW_COLUMNS, [_flow_row(flow) for flow in status.flows])
    for flow in status.flows:
        rows = [_partition_row(each) for each in _most_urgent(flow)]
        printer.table(f"{flow.flow}: behind", _PARTITION_COLUMNS, rows)
        problems = [(each.subject, each.state, each.cause) for each in flow.problems]
        printer.table(f"{flow.flow}: problems", _PROBLEM_COLUMNS, problems)
        for reason in dict.fromkeys(flow.unknown):
            printer.line(f"{flow.flow}: some lags are not known: {reason}", "yellow")
    printer.line(status.message, "green" if status.healthy else "bold red")


class LiveStatus:
    """Shows the status on a terminal, renewed in place, while the block runs. For one thread."""

    def __init__(self, out: TextIO | None = None) -> None:
        stream = sys.stdout if out is None else out
        self._live = Live(console=Console(file=stream), screen=True, auto_refresh=False)
        self._status: MirrorStatus | None = None

    def show(self, status: MirrorStatus) -> None:
        """Show this status."""
        self._status = status
        self._live.update(_screen(status, None), refresh=True)

    def say(self, sentence: str) -> None:
        """Show the last status with a sentence that says why there is no newer one."""
        self._live.update(_screen(self._status, sentence), refresh=True)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()


def _screen(status: MirrorStatus | None, sentence: str | None) -> Group:
    now = f"{datetime.now():%H:%M:%S}"
    if status is None:
        return Group(Text(f"{now}  {sentence or ''}", "bold red"))
    style = "green" if status.healthy and sentence is None else "bold red"
    parts: list[Table | Text] = [
        Text(f"{now}  {status.url}  {sentence or status.message}", style),
        rich_table("Flows", _FLOW_COLUMNS, [_flow_row(flow) for flow in status.flows], expand=True),
    ]
    for flow in status.flows:
        rows = [_partition_row(each) for each in _most_urgent(flow)]
        if rows:
            parts.append(rich_table(f"{flow.flow}: behind", _PARTITION_COLUMNS, rows, expand=True))
        if flow.problems:
            problems = [(each.subject, each.state, each.cause) for each in flow.problems]
            title = f"{flow.flow}: problems"
            parts.append(rich_table(title, _PROBLEM_COLUMNS, problems, expand=True))
        parts += [Text(reason, "yellow") for reason in dict.fromkeys(flow.unknown)]
    parts.append(Text("Ctrl-C ends", "dim"))
    return Group(*parts)


def _flow_row(flow: FlowStatus) -> tuple[str, ...]:
    return (
        flow.flow,
        "yes" if flow.healthy else "no",
        f"{flow.running_tasks} of {flow.tasks} running",
        str(len(flow.partitions)),
        str(flow.lag_records),
        _time(flow.lag_seconds),
        _time(flow.time_to_loss_s),
    )


def _most_urgent(flow: FlowStatus) -> list[LaggingPartition]:
    """Return partitions that are behind: first by time to loss, then by lag."""
    behind = [each for each in flow.partitions if each.records or each.error]

    def urgency(each: LaggingPartition) -> tuple[float, int]:
        loss = float("inf") if each.time_to_loss_s is None else each.time_to_loss_s
        return loss, -(each.records or 0)

    return sorted(behind, key=urgency)[:SHOWN_PARTITIONS]


def _partition_row(each: LaggingPartition) -> tuple[str, ...]:
    return (
        f"{each.topic}-{each.partition}",
        "unknown" if each.records is None else str(each.records),
        _time(each.seconds),
        _time(each.time_to_loss_s),
    )


def _time(seconds: float | None) -> str:
    return "" if seconds is None else time_text(seconds)
