"""How a check's report is printed."""

from __future__ import annotations

import io

from api.cli.output.check import print_report
from connectors.mirror.topics.selection import Skip, SkipReason
from connectors.mirrormaker.check.report import (
    CheckReport,
    ClientReport,
    ClientSetting,
    ClusterReport,
    Finding,
    FlowReport,
    Level,
    TopicReport,
)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def report() -> CheckReport:
    flow = FlowReport("A", "B", mirrors=True)
    flow.topics.append(TopicReport("t", "A.t", 2, "create", -1, {"b": "2", "a": "1"}))
    flow.skipped.append(Skip("[red]x", SkipReason.FILTER, "[red]x in topics.exclude matches it"))
    flow.clients.append(ClientReport("source consumer", (ClientSetting("k", "v", "A.consumer.k"),)))
    return CheckReport(
        [ClusterReport("A", "a:1", "id", 3, 7), ClusterReport("B", "b:1", error="gone")],
        [flow, FlowReport("B", "A", mirrors=False)],
        [
            Finding(Level.NOTE, "A->B", "a note"),
            Finding(Level.ERROR, "B", "gone"),
        ],
    )


def test_rows_are_tab_separated_where_a_program_reads() -> None:
    out = io.StringIO()
    print_report(report(), out)
    lines = out.getvalue().splitlines()
    assert "A\ta:1\tid\t3\t7" in lines
    assert "B\tb:1\tnot reached\t\t" in lines
    assert "t\tA.t\t2\tcreate\tbroker's default\ta=1, b=2" in lines
    assert "[red]x\tfilter\t[red]x in topics.exclude matches it" in lines
    assert "k\tv\tA.consumer.k" in lines
    assert "== Flow B->A (heartbeats only: not enabled)" in lines
    assert "\x1b" not in out.getvalue()


def test_errors_come_first_and_decide_the_last_sentence() -> None:
    out = io.StringIO()
    print_report(report(), out)
    assert out.getvalue().splitlines()[-3:] == [
        "error: B: gone",
        "note: A->B: a note",
        "Errors to fix before the start: 1. Nothing was changed.",
    ]
    harmless = CheckReport(findings=[Finding(Level.WARNING, "k", "w")])
    assert harmless.can_run
    print_report(harmless, out)
    assert out.getvalue().endswith("No error was found. Nothing was changed.\n")


def test_a_terminal_gets_tables_and_names_are_never_markup() -> None:
    out = Terminal()
    print_report(report(), out)
    assert "│" in out.getvalue()
    assert "[red]x" in out.getvalue()
