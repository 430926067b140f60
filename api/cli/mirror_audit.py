"""`connect-mirror-audit`: prove that a flow's copies are complete, or name what is not.

    connect-mirror-audit mm2.properties [--flow A->B] [--topics REGEX] [--json FILE]
                         [--engine spark|local] [--processes N] [--repair]

Reads both clusters and writes to neither, but with --repair. Exit codes:
    0    everything that was audited is there, unchanged and in order
    1    the command line or the properties are wrong
    2    the audit could not be run, or not of everything
    3    differences were found
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from connect.errors import ConfigError, ConnectError

if TYPE_CHECKING:
    from connectors.mirror.audit.engines import AuditEngine
    from connectors.mirror.audit.facts import AuditPlan, FlowToAudit
    from connectors.mirror.audit.report import AuditReport

__all__ = ["main"]

EXIT_EQUAL = 0
EXIT_USAGE = 1
EXIT_ERROR = 2
EXIT_DIFFERENT = 3

log = logging.getLogger("connect-mirror-audit")


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.print_usage(sys.stderr)
        self.exit(EXIT_USAGE, f"{self.prog}: {message}\n")


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text}: at least 1")
    return number


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    from connectors.mirror.audit.plan import DEFAULT_RANGE_RECORDS

    parser = _Parser(
        prog="connect-mirror-audit",
        description="Compare a flow's copies with their sources, record by record.",
        epilog="Exit codes: 0 all is there, 1 usage, 2 could not be run, 3 differences found.",
    )
    parser.add_argument("config", type=Path, metavar="mm2.properties")
    parser.add_argument(
        "--flow", metavar="A->B", help="the flow to audit; may be left out where there is one"
    )
    parser.add_argument(
        "--topics", metavar="REGEX", help="only source topics whose whole name matches"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the result there, too")
    parser.add_argument(
        "--engine",
        choices=("spark", "local"),
        default="spark",
        help="spark: on the Spark master that the properties name, local[*] unless they do; "
        "local: in processes of this machine, without a JVM (default: spark)",
    )
    parser.add_argument(
        "--processes",
        type=_positive,
        default=os.cpu_count() or 1,
        metavar="N",
        help="of --engine local (default: one for each core)",
    )
    parser.add_argument(
        "--range-records",
        type=_positive,
        default=DEFAULT_RANGE_RECORDS,
        metavar="N",
        help="how many source offsets a task audits at a time, where the offset map allows to cut",
    )
    parser.add_argument(
        "--repair",
        action="store_true",
        help="copy what is missing at the ends of partitions; stop the mirror before",
    )
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    """The program; returns its exit code."""
    try:
        arguments = _arguments(argv)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else EXIT_USAGE
    from api.cli.logs import configure_logging

    configure_logging(logging.WARNING)
    try:
        return _run(arguments)
    except ConfigError as error:
        print(f"connect-mirror-audit: {error}", file=sys.stderr)
        return EXIT_USAGE
    except ConnectError as error:
        print(f"connect-mirror-audit: {error}", file=sys.stderr)
        return EXIT_ERROR
    except KeyboardInterrupt:
        return 128 + 2
    except Exception:  # the top of the program: a mistake of ours, told in full
        log.exception("ended by an unexpected error")
        return EXIT_ERROR


def _run(arguments: argparse.Namespace) -> int:
    from api.cli.audit_output import print_repairs, print_report

    flow = _flow(arguments.config, arguments.flow)
    with _engine(arguments, flow) as engine:
        plan, report = _audit(flow, arguments, engine)
        print_report(report)
        if arguments.repair and not report.equal:
            from connectors.mirror.audit.repair import repair

            repairs = repair(flow, plan, report)
            print_repairs(repairs)
            if any(each.copied for each in repairs):
                plan, report = _audit(flow, arguments, engine)
                print_report(report)
    if arguments.json is not None:
        try:
            arguments.json.write_text(json.dumps(report.to_json(), indent=1) + "\n")
        except OSError as error:
            raise ConnectError(
                f"--json {arguments.json} cannot be written: {error.strerror or error}"
            ) from error
    if not report.equal:
        return EXIT_DIFFERENT
    return EXIT_EQUAL if report.complete else EXIT_ERROR


def _audit(
    flow: FlowToAudit, arguments: argparse.Namespace, engine: AuditEngine
) -> tuple[AuditPlan, AuditReport]:
    from connectors.mirror.audit.facts import make_plan
    from connectors.mirror.audit.report import make_report

    plan = make_plan(flow, arguments.topics, arguments.range_records)
    if not plan.ranges and not plan.absent:
        raise ConfigError(
            f"No topic that the flow copies matches --topics {arguments.topics or '.*'}",
            key="--topics",
        )
    began = time.monotonic()
    outcomes = list(engine(plan.setup, plan.ranges))
    return plan, make_report(plan, outcomes, time.monotonic() - began)


def _flow(path: Path, name: str | None) -> FlowToAudit:
    from connectors.maker.named_flow import named_flow
    from connectors.mirror.audit.facts import FlowToAudit

    flow = named_flow(path, name)
    return FlowToAudit(
        flow.properties,
        flow.worker.offset_storage_topic,
        flow.worker.own_client_properties("audit-offsets"),
        flow.worker.task_producer_properties(flow.properties, "audit-repair"),
    )


@contextmanager
def _engine(arguments: argparse.Namespace, flow: FlowToAudit) -> Iterator[AuditEngine]:
    if arguments.engine == "local":
        from connectors.mirror.audit.engines import local_engine

        yield local_engine(arguments.processes)
        return
    from connectors.spark.audit import spark_engine
    from connectors.spark.own_session import own_session

    with own_session("connect-mirror-audit", flow.properties) as session:
        yield spark_engine(session)


if __name__ == "__main__":
    sys.exit(main())
