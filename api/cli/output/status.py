"""Prints the status of a running mirror, once or as a live view of a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Self, TextIO

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from api.cli.output.durations import time_text
from api.cli.output.tables import rich_table, table_printer

if TYPE_CHECKING:
    from api.cli.connect_mirror.flow_details import GroupLine
    from api.cli.connect_mirror.status import FlowStatus, LaggingPartition, MirrorStatus

__all__ = ["LiveStatus", "print_status", "screen"]

SHOWN_PARTITIONS, SHOWN_GROUPS = 15, 10
"""The partitions shown, the most urgent first; `-o json` has all."""

_FLOW_COLUMNS = (
    "flow",
    "healthy",
    "tasks",
    "partitions",
    "lag (records)",
    "lag (time)",
    "time to loss",
    "records",
    "bytes",
    "lost in a day",
)
_PARTITION_COLUMNS = ("partition", "lag (records)", "lag (time)", "time to loss")
_PROBLEM_COLUMNS = ("subject", "state", "cause")
_EVENT_COLUMNS = ("time", "kind", "partition", "what")
_JOB_COLUMNS = ("job", "state", "partitions", "left", "what")
_GROUP_COLUMNS = ("group", "move to the target", "committed there", "read again", "why")


def print_status(
    status: MirrorStatus, output: str | None = None, out: TextIO | None = None
) -> None:
    """Print each flow: its lagging and failed parts, recent events, jobs and groups."""
    printer = table_printer(out, output)
    printer.table("Flows", _FLOW_COLUMNS, [_flow_row(flow) for flow in status.flows])
    for flow in status.flows:
        for title, columns, rows in _tables(flow):
            printer.table(title, columns, rows)
        for sentence in _unknown(flow):
            printer.line(f"{flow.flow}: {sentence}", "yellow")
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
        self._live.update(screen(status, None), refresh=True)

    def say(self, sentence: str) -> None:
        """Show the last status with a sentence that says why there is no newer one."""
        self._live.update(screen(self._status, sentence), refresh=True)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()


def screen(status: MirrorStatus | None, sentence: str | None) -> Group:
    """Return what the live view shows. `sentence`: why there is no newer status."""
    now = f"{datetime.now():%H:%M:%S}"
    if status is None:
        return Group(Text(f"{now}  {sentence or ''}", "bold red"))
    style = "green" if status.healthy and sentence is None else "bold red"
    parts: list[Table | Text] = [
        Text(f"{now}  {status.url}  {sentence or status.message}", style),
        rich_table("Flows", _FLOW_COLUMNS, [_flow_row(flow) for flow in status.flows], expand=True),
    ]
    for flow in status.flows:
        for title, columns, rows in _tables(flow):
            if rows:
                parts.append(rich_table(title, columns, rows, expand=True))
        parts += [Text(f"{flow.flow}: {sentence}", "yellow") for sentence in _unknown(flow)]
    parts.append(Text("Ctrl-C ends", "dim"))
    return Group(*parts)


def _tables(flow: FlowStatus) -> Iterator[tuple[str, Sequence[str], Sequence[Sequence[str]]]]:
    """Yield title, columns and rows of all that is shown of one flow."""
    details = flow.details
    urgent = [_partition_row(each) for each in _most_urgent(flow)]
    yield f"{flow.flow}: behind", _PARTITION_COLUMNS, urgent
    problems = [(each.subject, each.state, each.cause) for each in flow.problems]
    yield f"{flow.flow}: problems", _PROBLEM_COLUMNS, problems
    events = [
        (f"{datetime.fromtimestamp(e.at_ms / 1000):%d %H:%M:%S}", e.kind, e.partition, e.text)
        for e in details.events
    ]
    yield f"{flow.flow}: events of the last day", _EVENT_COLUMNS, events
    jobs = [
        (each.kind, each.state, f"{each.done} of {each.parts}", _time(each.left_s), each.text)
        for each in details.jobs
    ]
    yield f"{flow.flow}: jobs", _JOB_COLUMNS, jobs
    yield f"{flow.flow}: groups", _GROUP_COLUMNS, [_group_row(each) for each in _groups(flow)]


def _groups(flow: FlowStatus) -> list[GroupLine]:
    """Return the groups that are shown, those that are not ready first."""
    return sorted(flow.details.groups, key=lambda each: (each.ready, each.group))[:SHOWN_GROUPS]


def _group_row(each: GroupLine) -> tuple[str, ...]:
    again = "unknown" if each.again is None else str(each.again)
    ready = "ready" if each.ready else "not ready"
    return each.group, ready, "yes" if each.synced else "no", again, each.why or ""


def _unknown(flow: FlowStatus) -> list[str]:
    lags = [f"some lags are not known: {reason}" for reason in dict.fromkeys(flow.unknown)]
    return [*lags, *dict.fromkeys(flow.details.unknown)]


def _flow_row(flow: FlowStatus) -> tuple[str, ...]:
    return (
        flow.flow,
        "yes" if flow.healthy else "no",
        f"{flow.running_tasks} of {flow.tasks} running{', paused' if flow.paused else ''}",
        str(len(flow.partitions)),
        str(flow.lag_records),
        _time(flow.lag_seconds),
        _time(flow.time_to_loss_s),
        _rate(flow.details.records_per_second, "records/s"),
        _rate(flow.details.bytes_per_second, "B/s"),
        str(flow.details.lost_records),
    )


def _rate(value: float | None, unit: str) -> str:
    return "" if value is None else f"{value:,.0f} {unit}"


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
