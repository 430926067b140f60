"""Prints the reports of `--check`, of a mirror and of a worker: tables on a terminal, otherwise
tab-separated lines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, TextIO

from api.cli.output.durations import time_text
from api.cli.output.tables import TablePrinter, table_printer
from connectors.mirrormaker.check.backlog import Backlog
from connectors.mirrormaker.check.report import (
    EXISTS,
    CheckReport,
    ClusterReport,
    Finding,
    FlowReport,
    Level,
    TopicReport,
)

__all__ = [
    "WorkerCheck",
    "check_document",
    "print_report",
    "print_worker_check",
    "worker_check_document",
]

STYLES = {Level.ERROR: "bold red", Level.WARNING: "yellow", Level.NOTE: "dim"}

_TOPIC_COLUMNS = ("partitions", "action", "replication", "configs")


@dataclass(slots=True)
class WorkerCheck:
    """The findings before a worker's start. `topics`: the worker's internal topics."""

    cluster: ClusterReport
    topics: list[TopicReport] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)

    @property
    def can_run(self) -> bool:
        return not any(finding.level is Level.ERROR for finding in self.findings)


def print_worker_check(
    check: WorkerCheck, out: TextIO | None = None, output: str | None = None
) -> None:
    """Print the cluster, the internal topics, the findings and a summary sentence to `out`
    (stdout)."""
    printer = table_printer(out, output)
    _print_clusters(printer, [check.cluster])
    printer.table(
        "Internal topics",
        ("topic", *_TOPIC_COLUMNS),
        [_topic_row(topic)[1:] for topic in check.topics],
    )
    _print_findings(printer, check.findings)
    _print_summary(printer, check.findings)


def worker_check_document(check: WorkerCheck) -> dict[str, Any]:
    """Return the check as plain values for JSON and YAML, with the keys of `check_document`."""
    return {
        "can_run": check.can_run,
        "differs": any(topic.action != EXISTS for topic in check.topics),
        "clusters": [asdict(check.cluster)],
        "internal_topics": [asdict(topic) for topic in check.topics],
        "findings": _finding_documents(check.findings),
    }


def print_report(report: CheckReport, out: TextIO | None = None, output: str | None = None) -> None:
    """Print the clusters, each flow, the findings and a summary sentence to `out` (stdout)."""
    printer = table_printer(out, output)
    _print_clusters(printer, report.clusters)
    for flow in report.flows:
        _print_flow(printer, flow)
    _print_findings(printer, report.findings)
    _print_summary(printer, report.findings)


def check_document(report: CheckReport) -> dict[str, Any]:
    """Return the report as plain values for JSON and YAML."""
    return {
        "can_run": report.can_run,
        "differs": report.differs,
        "clusters": [asdict(cluster) for cluster in report.clusters],
        "flows": [_flow_document(flow) for flow in report.flows],
        "findings": _finding_documents(report.findings),
    }


def _finding_documents(findings: Sequence[Finding]) -> list[dict[str, str]]:
    return [
        {"level": each.level.value, "subject": each.subject, "text": each.text} for each in findings
    ]


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


def _print_clusters(printer: TablePrinter, clusters: Sequence[ClusterReport]) -> None:
    printer.table(
        "Clusters",
        ("alias", "bootstrap.servers", "cluster id", "brokers", "topics"),
        [_cluster_row(cluster) for cluster in clusters],
    )


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
            ("topic", "on the target", *_TOPIC_COLUMNS),
            [_topic_row(topic) for topic in flow.topics],
        )
        printer.table(
            f"{flow.name}: skipped",
            ("topic", "reason", "detail"),
            [(skip.topic, skip.reason.value, skip.detail) for skip in flow.skipped],
        )
    printer.table(
        f"{flow.name}: internal topics",
        ("topic", "cluster", *_TOPIC_COLUMNS),
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


def _print_summary(printer: TablePrinter, findings: Sequence[Finding]) -> None:
    errors = sum(finding.level is Level.ERROR for finding in findings)
    if errors:
        printer.line(f"Errors to fix before the start: {errors}. Nothing was changed.")
    else:
        printer.line("No error was found. Nothing was changed.")


def _print_findings(printer: TablePrinter, findings: Sequence[Finding]) -> None:
    levels = list(Level)
    ordered = sorted(findings, key=lambda finding: levels.index(finding.level))
    if ordered:
        printer.heading("Findings")
    for finding in ordered:
        text = f"{finding.level.value}: {finding.subject}: {finding.text}"
        printer.line(text, STYLES[finding.level])
