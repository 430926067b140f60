"""Prints the report of `--check`: tables on a terminal, otherwise tab-separated lines."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, TextIO

from api.cli.output.durations import time_text
from api.cli.output.tables import TablePrinter, table_printer
from connectors.mirrormaker.check.backlog import Backlog
from connectors.mirrormaker.check.report import (
    CheckReport,
    ClusterReport,
    FlowReport,
    Level,
    TopicReport,
)

__all__ = ["check_document", "print_report"]

STYLES = {Level.ERROR: "bold red", Level.WARNING: "yellow", Level.NOTE: "dim"}


def print_report(report: CheckReport, out: TextIO | None = None, output: str | None = None) -> None:
    """Print the clusters, each flow, the findings and a summary sentence to `out` (stdout)."""
    printer = table_printer(out, output)
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


def _print_flow(printer: TablePrinter, flow: FlowReport) -> None:
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


def _print_findings(printer: TablePrinter, report: CheckReport) -> None:
    levels = list(Level)
    ordered = sorted(report.findings, key=lambda finding: levels.index(finding.level))
    if ordered:
        printer.heading("Findings")
    for finding in ordered:
        text = f"{finding.level.value}: {finding.subject}: {finding.text}"
        printer.line(text, STYLES[finding.level])
