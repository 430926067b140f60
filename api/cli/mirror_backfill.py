"""`connect-mirror-backfill`: copy old records as one job, then hand over to the live flow.

    connect-mirror-backfill mm2.properties [--flow A->B] [--topics REGEX] [--partitions 0,2-5]
                            [--since TIME] [--until TIME] [--from OFFSET] [--to OFFSET]
                            [--rate 50MB/s] [--plan] [--json FILE] [--engine spark|local]

Exit codes:
    0    every requested record is on the target
    1    the backfill failed, or some partitions could not be copied; start it again to continue
    2    the command line is wrong
    3    refused, because the order of records would break: the message says what to do
    4    stopped by a signal before it was done; start it again to continue
    78   the properties are wrong
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, NoReturn

from api.cli.jobs.copy_jobs import (
    EXIT_REFUSED,
    JOB_EXIT_CODES,
    OTHER_TOPICS,
    PIECE_SECONDS,
    add_job_options,
    end_history,
    exit_code,
    job_state,
    size_of,
)
from api.cli.jobs.flow_program import (
    add_engine_option,
    add_topics_option,
    chosen_topics,
    run_flow_program,
)
from api.cli.processes.exit_process import leave
from api.cli.program import (
    EXIT_OK,
    WITHOUT_SPARK,
)

if TYPE_CHECKING:
    from api.cli.output.backfill import ProgressView
    from connectors.mirror.backfill.cluster_facts import ClusterSurvey
    from connectors.mirror.backfill.engines import PieceEngine
    from connectors.mirror.backfill.plan import BackfillPlan
    from connectors.mirror.backfill.progress import JobProgress
    from connectors.mirror.backfill.request import BackfillRequest
    from connectors.mirror.backfill.scheduler import SchedulerOptions
    from connectors.mirror.backfill.session import BackfillSession
    from connectors.mirror.history.jobs import JobHistory
    from connectors.mirror.inspect.flow import DedicatedFlow

__all__ = ["add_options", "check_options", "command", "main", "run_backfill"]

PIECE_BYTES = 256 * 1000 * 1000
JSON_S = 10.0

PROGRAM = "connect-mirror-backfill"


def partitions_of(text: str) -> frozenset[int]:
    """Parse partition numbers, such as `0,2-5`, for argparse."""
    numbers: set[int] = set()
    for element in text.split(","):
        first, _, last = element.strip().partition("-")
        if not first.isdigit() or not (last or first).isdigit() or int(last or first) < int(first):
            raise argparse.ArgumentTypeError(f"Invalid partitions {text}: use for example 0,2-5")
        numbers.update(range(int(first), int(last or first) + 1))
    return frozenset(numbers)


def _count(text: str) -> int:
    number = int(text)
    if number < 0:
        raise argparse.ArgumentTypeError(f"Invalid offset {text}: use a number of at least 0")
    return number


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that `run_backfill` reads, besides `config` and `flow`."""
    add_topics_option(parser, OTHER_TOPICS)
    parser.add_argument(
        "--partitions",
        type=partitions_of,
        metavar="0,2-5",
        help="copy only these partitions of each topic",
    )
    parser.add_argument(
        "--since",
        metavar="TIME",
        help="start at the first record with this timestamp or a later one",
    )
    parser.add_argument(
        "--until",
        metavar="TIME",
        help="stop before the first record with this timestamp or a later one",
    )
    parser.add_argument(
        "--from", dest="first", type=_count, metavar="OFFSET", help="start at this source offset"
    )
    parser.add_argument(
        "--to", dest="last", type=_count, metavar="OFFSET", help="stop before this source offset"
    )
    parser.add_argument(
        "--rate", type=size_of, metavar="BYTES/s", help="maximum rate of the whole backfill"
    )
    add_engine_option(parser, "this process")
    add_job_options(
        parser,
        "; a restart copies unfinished pieces again (default: 256MB)",
        "while the backfill runs",
    )


def check_options(parser: argparse.ArgumentParser, found: argparse.Namespace) -> None:
    """End with the parser's usage error if options exclude each other."""
    if found.since is not None and found.first is not None:
        parser.error("--since and --from exclude each other: use one of them")
    if found.until is not None and found.last is not None:
        parser.error("--until and --to exclude each other: use one of them")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program and return its exit code."""
    return run_flow_program(
        PROGRAM,
        argv,
        run_backfill,
        add_options,
        check_options,
        description="Copy a flow's old records as one job, then hand over to the live flow.",
        epilog=JOB_EXIT_CODES,
        flow_help="flow to backfill; optional if only one flow copies topics",
    )


def run_backfill(arguments: argparse.Namespace) -> int:
    """Copy, or print the plan. Returns the exit code. `output`: a format, or None."""
    from connectors.mirror.backfill.errors import BackfillRefused

    try:
        return _run(arguments)
    except BackfillRefused as error:
        print(f"{PROGRAM}: refused: {error}", file=sys.stderr)
        return EXIT_REFUSED


def _run(arguments: argparse.Namespace) -> int:
    from api.cli.output.backfill import ProgressView, print_plan, to_json
    from api.cli.output.formats import is_document, print_result, write_json
    from connectors.mirror.backfill.cluster_facts import ClusterSurvey
    from connectors.mirror.backfill.scheduler import SchedulerOptions, urgent_first
    from connectors.mirror.backfill.session import BackfillSession
    from connectors.mirror.history.jobs import JobHistory
    from connectors.mirrormaker.check.backfill_warnings import backfill_warnings
    from connectors.mirrormaker.flow_lookup import named_flow
    from connectors.spark.requirements import require_spark

    flow = named_flow(arguments.config, arguments.flow)
    if arguments.engine == "spark" and not arguments.plan:
        require_spark(flow.properties, WITHOUT_SPARK)
    view = ProgressView()
    with ExitStack() as stack:
        gatherer = stack.enter_context(closing(ClusterSurvey(flow, _wish(arguments))))
        session = stack.enter_context(closing(BackfillSession(flow, gatherer, view.say)))
        plan, facts = session.look() if arguments.plan else session.prepare()
        missing = [topic.remote for topic in facts.missing.create]
        warnings = backfill_warnings(facts, plan.jobs, gatherer)
        if arguments.plan:
            print_result(
                arguments,
                lambda: to_json(plan.jobs, None),
                lambda output: print_plan(
                    urgent_first(plan.jobs), missing, warnings, output=output
                ),
            )
        elif not is_document(arguments):
            print_plan(
                urgent_first(plan.jobs),
                missing,
                warnings,
                output=getattr(arguments, "output", None),
            )
        if arguments.plan:
            write_json(arguments.json, to_json(plan.jobs, None))
            return EXIT_OK
        history = stack.enter_context(closing(JobHistory("backfill", flow.config)))
        engine, slots = _engine(stack, arguments, flow, gatherer)
        dealing = SchedulerOptions(
            int(arguments.piece_bytes or PIECE_BYTES), PIECE_SECONDS, arguments.rate
        )
        return _copy(arguments, session, plan, engine, slots, dealing, view, history)


def _copy(
    arguments: argparse.Namespace,
    session: BackfillSession,
    plan: BackfillPlan,
    engine: PieceEngine,
    slots: Callable[[], int],
    dealing: SchedulerOptions,
    view: ProgressView,
    history: JobHistory,
) -> int:
    from api.cli.output import backfill, formats
    from api.cli.output.backfill import to_json
    from api.cli.output.formats import write_json
    from api.cli.processes.stop_signals import StopSignal
    from connectors.mirror.backfill.scheduler import urgent_first

    stop = StopSignal()
    last: JobProgress | None = None
    written_at = time.monotonic()

    def tell(progress: JobProgress) -> None:
        nonlocal last, written_at
        last = progress
        view.show(progress)
        history.tell(job_state(progress))
        if arguments.json is not None and time.monotonic() - written_at >= JSON_S:
            written_at = time.monotonic()
            write_json(arguments.json, to_json(plan.jobs, progress))

    try:
        outcome = session.run(engine, dealing, slots, lambda: stop.wait(0), tell)
    finally:
        view.end()
        write_json(arguments.json, to_json(plan.jobs, last))
    formats.print_result(
        arguments,
        lambda: to_json(plan.jobs, last),
        lambda output: backfill.print_result(
            urgent_first(plan.jobs), outcome.progress, outcome.stopped, output=output
        ),
    )
    end_history(history, outcome)
    return exit_code(outcome)


def _engine(
    stack: ExitStack, arguments: argparse.Namespace, flow: DedicatedFlow, gatherer: ClusterSurvey
) -> tuple[PieceEngine, Callable[[], int]]:
    """Return the engine, and how many pieces it copies in parallel at the moment. The stack closes
    the engine."""
    from connectors.mirror.backfill.engines import copier_consumer

    consumer = copier_consumer(gatherer.consumer)
    if arguments.engine == "local":
        from connectors.mirror.backfill.engines import local_engine
        from connectors.mirror.copy.settings import engine_settings

        slots = arguments.parallel or os.cpu_count() or 1
        settings = engine_settings(flow.config, consumer, flow.producer())
        return local_engine(settings), lambda: slots
    from connectors.mirror.spark.backfill import spark_engine
    from connectors.mirror.spark.copy.shards import CopyFlow
    from connectors.spark.program_session import own_session, without_retries
    from connectors.spark.slots import slots_of

    # Spark must not retry a task by itself; `connectors.mirror.spark.backfill` explains why.
    properties = without_retries(flow.properties)
    session = stack.enter_context(own_session(PROGRAM, properties, instead=WITHOUT_SPARK))

    def slots_now() -> int:
        return arguments.parallel or slots_of(session).most

    return spark_engine(session, CopyFlow(flow.properties, consumer, flow.producer())), slots_now


def _wish(arguments: argparse.Namespace) -> BackfillRequest:
    from connect.clock import SYSTEM_CLOCK
    from connectors.mirror.backfill.request import BackfillRequest, parse_offset_time

    now_ms = SYSTEM_CLOCK.now_ms()
    since, until = (
        None if text is None else parse_offset_time(text, key, now_ms)
        for key, text in (("--since", arguments.since), ("--until", arguments.until))
    )
    return BackfillRequest(
        chosen_topics(arguments),
        arguments.partitions,
        since,
        until,
        arguments.first,
        arguments.last,
    )


def command() -> NoReturn:
    """Entry point of the installed command: run the program, then end the process."""
    leave(main())


if __name__ == "__main__":
    command()
