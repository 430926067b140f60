"""Prints an audit's report: tables on a terminal, otherwise tab-separated lines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TextIO

from api.cli.output.tables import TablePrinter, table_printer
from connect.topic_partition import name_of
from connectors.mirror.audit.findings import Difference, Kind
from connectors.mirror.audit.map_check import LedgerCheck, LedgerReport
from connectors.mirror.audit.plan import PartitionFacts
from connectors.mirror.audit.repair import Repair
from connectors.mirror.audit.report import AuditReport, PartitionAudit

__all__ = ["print_ledger", "print_repairs", "print_report"]

SHOWN = 50
"""Maximum number of differences printed per partition; the JSON has more."""

EXPLAINED = {
    "pending": "not copied yet",
    "compacted": "compacted",
    "expired_on_source": "source's retention",
    "expired_on_target": "target's retention",
}


LEFT_OUT = "offsets before the flow began"


def print_report(report: AuditReport, out: TextIO | None = None, output: str | None = None) -> None:
    """Print the partitions, their differences, and a summary sentence."""
    printer = table_printer(out, output)
    printer.table(
        "Partitions",
        ("source", "target", "records", "equal", "at a glance", "different", "explained"),
        [_row(partition) for partition in report.partitions],
    )
    for partition in report.partitions:
        _print_differences(printer, partition)
        if Kind.MISSING.value in partition.counts:
            _print_begin(printer, partition.facts)
        for error in partition.errors:
            printer.line(f"{name_of(partition.facts.source)}: not audited: {error}", "bold red")
    for key, reason in report.absent.items():
        printer.line(f"{name_of(key)}: {reason}", "bold red")
    _print_transformed(printer, report.transformed)
    printer.line(_summary(report), "green" if report.equal and report.complete else "bold red")


def print_ledger(
    report: LedgerReport, out: TextIO | None = None, output: str | None = None
) -> None:
    """Print the source offsets that the ledger accounts for, the result of the samples, and the
    conclusion."""
    printer = table_printer(out, output)
    columns = ("source", "target", "accounted for", "not", "lost at the target's end", "explained")
    printer.table(
        "Ledger", columns, [_ledger_row(check, whole=report.whole) for check in report.checks]
    )
    for check in report.checks:
        if check.unaccounted:
            shown = [_span(start, end - start) for start, end in check.unaccounted[:SHOWN]]
            more = " and more" if len(check.unaccounted) > SHOWN else ""
            name = name_of(check.facts.source)
            printer.line(f"{name}: not accounted for: {', '.join(shown)}{more}", "yellow")
            _print_begin(printer, check.facts)
    samples = report.samples
    for partition in samples.partitions:
        _print_differences(printer, partition)
        for error in partition.errors:
            printer.line(f"{name_of(partition.facts.source)}: not read: {error}", "bold red")
    for key, reason in samples.absent.items():
        printer.line(f"{name_of(key)}: {reason}", "bold red")
    _print_transformed(printer, samples.transformed)
    good = report.accounted and not report.different and samples.complete
    printer.line(_ledger_summary(report), "green" if good else "bold red")


def _print_transformed(printer: TablePrinter, topics: Sequence[str]) -> None:
    for topic in topics:
        printer.line(f"{topic}: not compared, because its records are transformed", "yellow")


def _print_begin(printer: TablePrinter, facts: PartitionFacts) -> None:
    """Print a note if records before the flow's start may be missing on purpose."""
    if facts.began > facts.first:
        printer.line(
            f"{name_of(facts.source)}: the offset map begins at {facts.began}; if earlier records "
            "were left out on purpose (--since, auto.offset.reset=latest), use --from-begin",
            "yellow",
        )


def _ledger_row(check: LedgerCheck, *, whole: bool) -> tuple[str, ...]:
    explained = {
        LEFT_OUT: check.facts.left_out,
        "not copied yet": check.pending,
        "target's retention": check.expired,
        "copied again": check.copied_again,
        "outside the ledger": check.outside,
    }
    told = [f"{count} {text}" for text, count in explained.items() if count]
    if check.facts.compacted and not whole:
        told.append("compacted: not sampled")
    return (
        name_of(check.facts.source),
        name_of(check.facts.target),
        str(check.accounted),
        str(check.missing),
        str(check.lost),
        ", ".join(told),
    )


def _ledger_summary(report: LedgerReport) -> str:
    partitions = report.samples.partitions
    drawn = sum(len(partition.results) for partition in partitions)
    equal = sum(partition.total("equal") for partition in partitions)
    accounted = sum(check.accounted for check in report.checks)
    missing = sum(check.missing for check in report.checks)
    lost = sum(check.lost for check in report.checks)
    different = sum(partition.different for partition in partitions)
    placed = sum(check.placed for check in report.checks)
    told = (
        f"The ledger (offset map and stored offsets) accounts for {accounted} of "
        f"{accounted + missing} source offsets"
    )
    if report.whole:
        told += f". The flow is small, so all of it was read: {equal} records are equal"
    elif drawn:
        told += (
            f"; {drawn} samples were read from the {placed} records that it maps to target "
            f"offsets, and {equal} records in them are equal"
        )
    else:
        told += "; there were no records to sample"
    if lost or different or report.samples.absent:
        absent = len(report.samples.absent)
        return (
            f"{told}. {different} of the sampled records differ, {lost} are lost at the target's "
            f"end, {absent} partitions have no copy."
        )
    if not report.samples.complete:
        return f"{told}. Some partitions could not be read."
    if report.whole:
        unaccounted = ", including those that the ledger does not account for" if missing else ""
        return f"{told}, in order, each once{unaccounted}."
    if missing:
        return f"{told}. --mode logs compares the remaining offsets."
    if not drawn:
        return f"{told}. --mode logs compares all records."
    return f"{told}, with no difference. {_what_it_proves(report, placed, equal, drawn)}"


def _what_it_proves(report: LedgerReport, placed: int, equal: int, drawn: int) -> str:
    unread = [f"{sum(check.facts.compacted for check in report.checks)} compacted partitions"]
    outside = sum(check.outside for check in report.checks)
    if outside:
        unread.append(f"{outside} target offsets outside the ledger")
    besides = " and ".join(each for each in unread if not each.startswith("0 "))
    besides = f"; {besides} were not read" if besides else ""
    if equal >= placed:
        return f"So all of them are on the target{besides}. --mode logs reads everything."
    # Samples are uniform, so the probability that n of them all miss a damaged share is (1 - share)
    # ** n.
    return (
        "This does not prove that the other records are equal, but damage to "
        f"{100 * (1 - 0.05 ** (1 / drawn)):.2g} % of it or more would be found with a "
        f"probability of 95 %{besides}. --mode logs compares all records."
    )


def print_repairs(
    repairs: Sequence[Repair], out: TextIO | None = None, output: str | None = None
) -> None:
    """Print the records copied again, and the reason for each range that was not."""
    printer = table_printer(out, output)
    printer.table(
        "Repair",
        ("source", "records copied", "reason"),
        [(name_of(each.source), str(each.copied), each.reason) for each in repairs],
    )


def _row(partition: PartitionAudit) -> tuple[str, ...]:
    glances = partition.total("batches_at_a_glance")
    explained = [
        f"{partition.total(name)} {text}"
        for name, text in EXPLAINED.items()
        if partition.total(name)
    ]
    if partition.facts.left_out:
        explained.insert(0, f"{partition.facts.left_out} {LEFT_OUT}")
    return (
        name_of(partition.facts.source),
        name_of(partition.facts.target),
        str(partition.total("source_records")),
        str(partition.total("equal")),
        f"{glances} batches" if glances else "",
        str(partition.different),
        ", ".join(explained),
    )


def _print_differences(printer: TablePrinter, partition: PartitionAudit) -> None:
    if not partition.different:
        return
    found = partition.differences
    shown = [_difference_row(each) for each in found[:SHOWN]]
    counts = ", ".join(f"{records} {kind}" for kind, records in partition.counts.items())
    name = name_of(partition.facts.source)
    printer.table(f"{name}: {counts}", ("what", "records", "source", "target"), shown)
    if len(found) > SHOWN:
        printer.line(f"{name}: more differences exist; --json FILE has up to 1000 per range")


def _difference_row(found: Difference) -> tuple[str, ...]:
    kind = "in another place" if found.kind is Kind.MOVED else found.kind.value
    return (
        kind,
        str(found.records),
        _span(found.source, found.records),
        _span(found.target, found.records),
    )


def _span(first: int | None, records: int) -> str:
    if first is None:
        return ""
    return str(first) if records == 1 else f"{first} to {first + records - 1}"


def _summary(report: AuditReport) -> str:
    equal = sum(partition.total("equal") for partition in report.partitions)
    size = sum(partition.total("bytes") for partition in report.partitions)
    rate = size / max(report.seconds, 1e-3) / 1e6
    read = f"{size / 1e6:,.1f} MB read in {report.seconds:.1f} s ({rate:,.0f} MB/s)"
    if not report.complete:
        return f"Some partitions could not be audited. {equal} records are equal. {read}."
    if report.equal:
        return f"Complete: {equal} records are equal, in order, each once. {read}."
    different = sum(partition.different for partition in report.partitions)
    absent = f", {len(report.absent)} partitions have no copy" if report.absent else ""
    return f"{different} records differ{absent}; {equal} are equal. {read}."
