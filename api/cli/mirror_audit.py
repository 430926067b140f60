"""`connect-mirror-audit`: check that a flow's copies are complete, and list the differences.

    connect-mirror-audit mm2.properties [--flow A->B] [--topics REGEX] [--json FILE]
                         [--mode logs|ledger] [--samples N]
                         [--engine spark|local] [--processes N] [--from-begin] [--repair]

The command reads both clusters and writes to neither, except with --repair. Exit codes:
    0    every audited record is on the target, unchanged and in order; with --mode ledger: all
         offsets are accounted for, and all samples are equal
    1    the audit could not run, or could not read everything
    2    the command line is wrong
    3    differences were found
    4    with --mode ledger: no difference was found, but not all offsets are accounted for
    78   the properties are wrong
"""

from __future__ import annotations

import argparse
import os
import random
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, NoReturn

from api.cli.jobs.flow_program import add_engine_option, add_topics_option, run_flow_program
from api.cli.processes.exit_process import leave
from api.cli.program import (
    EXIT_DIFFERENT,
    EXIT_FAILED,
    EXIT_OK,
    WITHOUT_SPARK,
    output_file,
    positive,
)
from connect.errors import ConfigError

if TYPE_CHECKING:
    from connectors.mirror.audit.auditor import AuditSetup, RangeOutcome
    from connectors.mirror.audit.engines import AuditEngine
    from connectors.mirror.audit.plan import AuditRange
    from connectors.mirror.audit.planner import AuditPlan, FlowToAudit
    from connectors.mirror.audit.report import AuditReport
    from connectors.mirror.history.jobs import JobHistory
    from connectors.mirror.history.rows import JobState
    from connectors.mirror.inspect.flow import DedicatedFlow

__all__ = ["add_options", "check_options", "command", "main", "run_audit"]

EXIT_UNACCOUNTED = 4

DEFAULT_SAMPLES = 100
SAMPLE_FETCH_BYTES = 512 * 1024

PROGRAM = "connect-mirror-audit"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that `run_audit` reads, besides `config` and `flow`."""
    from connectors.mirror.audit.plan import DEFAULT_RANGE_BYTES

    add_topics_option(parser)
    parser.add_argument(
        "--json", type=output_file, metavar="FILE", help="also write the result to FILE as JSON"
    )
    parser.add_argument(
        "--mode",
        choices=("logs", "ledger"),
        default="logs",
        help="logs: read and compare both logs completely; ledger: only check that the offset map "
        "and the stored offsets account for every source offset, and compare samples (or all "
        "records of a small flow) (default: logs)",
    )
    parser.add_argument(
        "--samples",
        type=positive,
        default=DEFAULT_SAMPLES,
        metavar="N",
        help="with --mode ledger: number of ranges of 1000 records to sample and compare; a flow "
        "with fewer records is read completely (default: %(default)s)",
    )
    add_engine_option(parser, "processes on this machine")
    parser.add_argument(
        "--processes",
        type=positive,
        default=os.cpu_count() or 1,
        metavar="N",
        help="number of processes for --engine local (default: one per core)",
    )
    parser.add_argument(
        "--range-bytes",
        type=positive,
        default=DEFAULT_RANGE_BYTES,
        metavar="N",
        help="approximate size of a range of the source log; ranges are cut only where the offset "
        "map allows it (default: %(default)s)",
    )
    parser.add_argument(
        "--from-begin",
        action="store_true",
        help="skip source records before the first offset in the offset map: they were left out on "
        "purpose, by a backfill's --since or auto.offset.reset=latest",
    )
    parser.add_argument(
        "--repair",
        action="store_true",
        help="copy records that are missing at the end of a partition; stop the mirror first",
    )


def check_options(parser: argparse.ArgumentParser, arguments: argparse.Namespace) -> None:
    """End with the parser's usage error if options exclude each other."""
    if arguments.repair and arguments.mode == "ledger":
        parser.error(
            "--repair needs --mode logs, because --mode ledger does not find which records are "
            "missing"
        )


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program and return its exit code."""
    return run_flow_program(
        PROGRAM,
        argv,
        run_audit,
        add_options,
        check_options,
        description="Compare the records of a flow's copies with their sources.",
        epilog="Exit codes: 0 complete, 1 audit failed or incomplete, 2 wrong command line, "
        "3 differences found, 4 not all offsets are accounted for (--mode ledger), 78 wrong "
        "properties.",
        flow_help="the flow to audit; optional if there is only one",
    )


def run_audit(arguments: argparse.Namespace) -> int:
    """Audit and print the report. Returns the exit code. `output`: a format, or None."""
    from connectors.mirror.history.jobs import JobHistory
    from connectors.mirrormaker.flow_lookup import named_flow
    from connectors.spark.requirements import require_spark

    named = named_flow(arguments.config, arguments.flow)
    if arguments.engine == "spark":
        require_spark(named.properties, WITHOUT_SPARK)
    flow = _flow(named)
    with closing(JobHistory("audit", named.config)) as history:
        if arguments.mode == "ledger":
            return _run_ledger(flow, arguments, history)
        return _run_logs(named, flow, arguments, history)


def _run_logs(
    named: DedicatedFlow, flow: FlowToAudit, arguments: argparse.Namespace, history: JobHistory
) -> int:
    from api.cli.output.audit import print_repairs
    from api.cli.output.formats import is_document, write_json

    with _engine(arguments, flow) as engine:
        plan, report = _audit(flow, arguments, engine, history)
        if not is_document(arguments):
            _print_report(arguments, report)
        if arguments.repair and not report.equal:
            from connectors.mirror.audit.repair import repair
            from connectors.mirror.inspect.running_flow import look_at_flow

            live = look_at_flow(named)
            repairs = repair(flow, plan, report, live)
            if not is_document(arguments):
                print_repairs(repairs, output=getattr(arguments, "output", None))
            if any(each.copied for each in repairs):
                plan, report = _audit(flow, arguments, engine, history)
                if not is_document(arguments):
                    _print_report(arguments, report)
    if is_document(arguments):
        _print_report(arguments, report)
    write_json(arguments.json, report.to_json())
    _end(history, complete=report.complete, equal=report.equal)
    if not report.equal:
        return EXIT_DIFFERENT
    return EXIT_OK if report.complete else EXIT_FAILED


def _print_report(arguments: argparse.Namespace, report: AuditReport) -> None:
    from api.cli.output.audit import print_report
    from api.cli.output.formats import print_result

    print_result(arguments, report.to_json, lambda output: print_report(report, output=output))


def _end(history: JobHistory, *, complete: bool, equal: bool) -> None:
    if not equal:
        history.end("failed", "The clusters differ: see the audit's report")
    elif complete:
        history.end("done", "No difference found")
    else:
        history.end("failed", "Some ranges could not be read: see the audit's report")


def _run_ledger(flow: FlowToAudit, arguments: argparse.Namespace, history: JobHistory) -> int:
    from api.cli.output.audit import print_ledger
    from api.cli.output.formats import print_result, write_json
    from connectors.mirror.audit.map_check import (
        LedgerReport,
        check_ledger,
        choose_samples,
        is_small,
    )
    from connectors.mirror.audit.report import make_report

    plan = _plan(flow, arguments)
    began = time.monotonic()
    checks = [check_ledger(facts, plan.pages.get(facts.source, ())) for facts in plan.facts]
    whole = is_small(plan.facts, arguments.samples)
    if whole:
        ranges, setup = plan.ranges, plan.setup
    else:
        ranges = choose_samples(checks, arguments.samples, random.SystemRandom())
        setup = replace(plan.setup, fetch_bytes=SAMPLE_FETCH_BYTES)
    outcomes: list[RangeOutcome] = []
    if ranges:
        with _engine(arguments, flow) as engine:
            outcomes = _outcomes(engine, setup, ranges, history)
    report = LedgerReport(checks, make_report(plan, outcomes, time.monotonic() - began), whole)
    print_result(arguments, report.to_json, lambda output: print_ledger(report, output=output))
    write_json(arguments.json, report.to_json())
    _end(history, complete=report.samples.complete, equal=not report.different)
    if report.different:
        return EXIT_DIFFERENT
    if not report.samples.complete:
        return EXIT_FAILED
    return EXIT_OK if report.accounted else EXIT_UNACCOUNTED


def _audit(
    flow: FlowToAudit, arguments: argparse.Namespace, engine: AuditEngine, history: JobHistory
) -> tuple[AuditPlan, AuditReport]:
    from connectors.mirror.audit.report import make_report

    plan = _plan(flow, arguments)
    began = time.monotonic()
    outcomes = _outcomes(engine, plan.setup, plan.ranges, history)
    return plan, make_report(plan, outcomes, time.monotonic() - began)


def _plan(flow: FlowToAudit, arguments: argparse.Namespace) -> AuditPlan:
    from api.cli.output.read_progress import gathering
    from connectors.mirror.audit.planner import make_plan

    with gathering("Reading the offset map and the sizes of the logs"):
        plan = make_plan(
            flow, arguments.topics, arguments.range_bytes, from_begin=arguments.from_begin
        )
    if not plan.ranges and not plan.absent:
        raise ConfigError(
            f"No topic that the flow copies matches --topics {arguments.topics or '.*'}; change "
            "the pattern",
            key="--topics",
        )
    return plan


def _outcomes(
    engine: AuditEngine, setup: AuditSetup, ranges: Sequence[AuditRange], history: JobHistory
) -> list[RangeOutcome]:
    """Audit these ranges and show the progress."""
    from api.cli.output.read_progress import ReadProgress

    began = time.monotonic()
    found: list[RangeOutcome] = []
    history.tell(_state(ranges, found, 0.0))
    with ReadProgress("Auditing", {_key(each): 2 * each.bytes for each in ranges}) as progress:
        for outcome in engine(setup, ranges):
            found.append(outcome)
            progress.note(
                _key(outcome.range), None if outcome.result is None else outcome.result.bytes
            )
            history.tell(_state(ranges, found, time.monotonic() - began))
    return found


def _key(wanted: AuditRange) -> tuple[str, int, int]:
    return (*wanted.source, wanted.source_start)


def _state(ranges: Sequence[AuditRange], found: Sequence[RangeOutcome], seconds: float) -> JobState:
    """The progress, from the planned sizes of both sides of the ranges."""
    from connectors.mirror.history.jobs import reading_state

    return reading_state(
        parts=len(ranges),
        done=len(found),
        failed=sum(each.result is None for each in found),
        read=sum(2 * each.range.bytes for each in found),
        planned=sum(2 * each.bytes for each in ranges),
        seconds=seconds,
    )


def _flow(flow: DedicatedFlow) -> FlowToAudit:
    from connectors.mirror.audit.planner import FlowToAudit
    from connectors.mirror.inspect.flow import flow_producer

    return FlowToAudit(
        flow.properties,
        flow.worker.offset_storage_topic,
        flow.worker.own_client_properties("audit-offsets"),
        flow_producer(flow.worker, flow.properties, "audit-repair"),
    )


@contextmanager
def _engine(arguments: argparse.Namespace, flow: FlowToAudit) -> Iterator[AuditEngine]:
    if arguments.engine == "local":
        from connectors.mirror.audit.engines import local_engine

        yield local_engine(arguments.processes)
        return
    from connectors.mirror.spark.audit import spark_engine
    from connectors.spark.program_session import own_session

    with own_session(PROGRAM, flow.properties, instead=WITHOUT_SPARK) as session:
        yield spark_engine(session)


def command() -> NoReturn:
    """Entry point of the installed command: run the program, then end the process."""
    leave(main())


if __name__ == "__main__":
    command()
