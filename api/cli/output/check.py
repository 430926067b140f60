"""Prints the report of `--check`: tables on a terminal, otherwise tab-separated lines."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any, TextIO

from rich.console import Console
from rich.table import Table
from rich.text import Text

from api.cli.output.durations import time_text
from connectors.mirrormaker.check.backlog import Backlog
from connectors.mirrormaker.check.report import (
    CheckReport,
    ClusterReport,
    FlowReport,
    Level,
    TopicReport,
)

__all__ = ["check_document", "print_report", "table_printer"]

STYLES = {Level.ERROR: "bold red", Level.WARNING: "yellow", Level.NOTE: "dim"}


def print_report(report: CheckReport, out: TextIO | None = None, output: str | None = None) -> None:
    """Print the clusters, each flow, the findings and a summary sentence to `out` (stdout)."""
    stream = sys.stdout if out is None else out
    printer = table_printer(stream, output)
    printer.table(
        "Clusters",
        ("alias", "bootstrap.servers", "cluster id", "brokers", "topics"),
        [_cluster_row(cluster) for cluster in report.clusters],
    )
    for flow in report.flows:
        _print_flow(printer, flow)
    _print_findings(printer, report)
    errors = sum(finding.level is Level.ERROR for finding in report.findings)
    if report.can_run:
        printer.line("No error was found. Nothing was changed.")
    else:
        printer.line(f"Errors to fix before the start: {errors}. Nothing was changed.")


def check_document(report: CheckReport) -> dict[str, Any]:
    """Return the report as plain values for JSON and YAML."""
    return {
        "can_run": report.can_run,
        "differs": report.differs,
        "clusters": [asdict(cluster) for cluster in report.clusters],
        "flows": [_flow_document(flow) for flow in report.flows],
        "findings": [
            {"level": each.level.value, "subject": each.subject, "text": each.text}
            for each in report.findings
        ],
    }


def _flow_document(flow: FlowReport) -> dict[str, Any]:
    backlog = flow.backlog
    return {
        "flow": flow.name,
        "mirrors": flow.mirrors,
        "changes": len(flow.changes),
        "topics": [asdict(topic) for topic in flow.topics],
        "skipped": [
            {"topic": skip.topic, "reason": skip.reason.value, "detail": skip.detail}
            for skip in flow.skipped
        ],
        "internal_topics": [
            {"cluster": alias, **asdict(topic)} for alias, topic in flow.own_topics
        ],
        "backlog": None if backlog is None else {**asdict(backlog), "seconds": backlog.seconds},
        "clients": [asdict(client) for client in flow.clients],
    }


def table_printer(out: TextIO, output: str | None = None) -> _Printer:
    """Return a printer for this stream. `output`: `table` or `tsv`; None chooses tables on a
    terminal and tab-separated lines elsewhere."""
    rich_tables = out.isatty() if output is None else output == "table"
    return _RichPrinter(out) if rich_tables else _Printer(out)


def _cluster_row(cluster: ClusterReport) -> tuple[str, ...]:
    if cluster.cluster_id is None:
        return (cluster.alias, cluster.bootstrap, "not reached", "", "")
    return (
        cluster.alias,
        cluster.bootstrap,
        cluster.cluster_id,
        str(cluster.brokers),
        str(cluster.topics),
    )


def _print_flow(printer: _Printer, flow: FlowReport) -> None:
    what = "" if flow.mirrors else " (heartbeats only: not enabled)"
    printer.heading(f"Flow {flow.name}{what}")
    if flow.mirrors:
        printer.table(
            f"{flow.name}: mirrored",
            ("topic", "on the target", "partitions", "action", "replication", "configs"),
            [_topic_row(topic) for topic in flow.topics],
        )
        printer.table(
            f"{flow.name}: skipped",
            ("topic", "reason", "detail"),
            [(skip.topic, skip.reason.value, skip.detail) for skip in flow.skipped],
        )
    printer.table(
        f"{flow.name}: internal topics",
        ("topic", "cluster", "partitions", "action", "replication", "configs"),
        [(topic.remote, alias, *_topic_row(topic)[2:]) for alias, topic in flow.own_topics],
    )
    if flow.backlog is not None:
        printer.line(_backlog(flow.name, flow.backlog))
    for client in flow.clients:
        printer.table(
            f"{flow.name}: {client.role}",
            ("property", "value", "from"),
            [(setting.key, setting.value, setting.origin) for setting in client.settings],
        )


def _backlog(flow: str, backlog: Backlog) -> str:
    text = (
        f"{flow}: {backlog.records} records in {backlog.partitions} partitions are not copied yet"
    )
    if backlog.new_partitions:
        text += f", {backlog.new_records} of them in {backlog.new_partitions} new partitions"
    if backlog.seconds is not None:
        text += f"; {time_text(backlog.seconds)} at {backlog.rate:,.0f} records/s"
    return text


def _topic_row(topic: TopicReport) -> tuple[str, ...]:
    factor = topic.replication_factor
    configs = ", ".join(f"{key}={value}" for key, value in sorted(topic.configs.items()))
    return (
        topic.topic,
        topic.remote,
        str(topic.partitions),
        topic.action,
        "" if factor is None else "broker's default" if factor < 0 else str(factor),
        configs,
    )


def _print_findings(printer: _Printer, report: CheckReport) -> None:
    levels = list(Level)
    ordered = sorted(report.findings, key=lambda finding: levels.index(finding.level))
    if ordered:
        printer.heading("Findings")
    for finding in ordered:
        text = f"{finding.level.value}: {finding.subject}: {finding.text}"
        printer.line(text, STYLES[finding.level])


class _Printer:
    """Prints plain text: one line per row, columns separated by tabs, for `grep`, `cut` and
    logs."""

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def heading(self, text: str) -> None:
        print(f"\n== {text}", file=self._out)

    def line(self, text: str, style: str = "") -> None:
        print(text, file=self._out)

    def table(self, title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
        shown = list(rows)
        print(f"\n# {title}: {'none' if not shown else len(shown)}", file=self._out)
        if shown:
            print("\t".join(columns), file=self._out)
        for row in shown:
            print("\t".join(row), file=self._out)


class _RichPrinter(_Printer):
    """Prints tables on a terminal."""

    def __init__(self, out: TextIO) -> None:
        super().__init__(out)
        self._console = Console(file=out, highlight=False)

    def heading(self, text: str) -> None:
        self._console.print()
        self._console.rule(Text(text, "bold"), align="left")

    def line(self, text: str, style: str = "") -> None:
        self._console.print(Text(text, style))

    def table(self, title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
        shown = list(rows)
        if not shown:
            self._console.print(Text(f"{title}: none", "dim"))
            return
        table = Table(title=Text(title), title_justify="left", header_style="bold")
        for column in columns:
            table.add_column(column, overflow="fold")
        for row in shown:
            # Not markup, because a topic's regular expression may look like a tag.
            table.add_row(*(Text(cell) for cell in row))
        self._console.print(table)
