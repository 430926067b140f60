"""`connect-mirror-archive`: keep a flow's topics in Parquet files or a table, and restore them.

    connect-mirror-archive mm2.properties --to DIRECTORY [--flow A->B] [--topics REGEX]
                           [--format FORMAT --table TABLE]
                           [--value-schema FILE] [--key-schema FILE]
                           [--every SECONDS] [--plan] [--json FILE]
    connect-mirror-archive mm2.properties --restore DIRECTORY [--flow A->B] [--topics REGEX]
                           [--plan] [--json FILE]
    connect-mirror-archive mm2.properties --verify DIRECTORY [--flow A->B] [--topics REGEX]

All run on Spark: on the master in the properties, or local[*]. Exit codes:
    0    every record is archived, restored or as the ledger says, or the plan was printed; with
         --every: stopped by a signal
    1    failed, or some partitions could not be archived or restored; start it again to continue
    2    the command line is wrong
    3    refused: the message says what to do; --verify: files differ from the ledger
    4    stopped by a signal before it was done; start it again to continue
    78   the properties are wrong
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

from api.cli.jobs.archive_options import add_options, check_options
from api.cli.jobs.copy_jobs import (
    EXIT_REFUSED,
    JOB_EXIT_CODES,
    PIECE_SECONDS,
    end_history,
    exit_code,
    job_state,
)
from api.cli.jobs.flow_program import chosen_topics, run_flow_program
from api.cli.processes.exit_process import leave
from api.cli.program import EXIT_OK
from connect.errors import RetriableError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from api.cli.output.backfill import ProgressView
    from api.cli.processes.stop_signals import StopSignal
    from connectors.archive.place import WantedPlace
    from connectors.archive.session import ArchiveSession
    from connectors.mirror.backfill.job import JobOutcome
    from connectors.mirror.backfill.progress import JobProgress
    from connectors.mirror.backfill.scheduler import PartitionJob
    from connectors.mirror.history.jobs import JobHistory
    from connectors.mirror.inspect.flow import DedicatedFlow

__all__ = ["command", "main", "run_archive"]

_LOG = logging.getLogger(__name__)

PROGRAM = "connect-mirror-archive"

ARCHIVE_PIECE_BYTES = 256 * 1000 * 1000
RESTORE_PIECE_BYTES = 64 * 1000 * 1000
"""A piece of a restore is sent within `PIECE_SECONDS`."""

FAILED_ROUNDS = 5
"""With --every, the command ends with an error after so many failed rounds in a row."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the program and return its exit code."""
    return run_flow_program(
        PROGRAM,
        argv,
        run_archive,
        add_options,
        check_options,
        description="Archive a flow's topics in Parquet files or a table, or restore them to its "
        "target.",
        epilog=JOB_EXIT_CODES,
        flow_help="flow whose source is archived, or into whose target the archive is restored; "
        "optional if only one flow copies topics",
    )


def run_archive(arguments: argparse.Namespace) -> int:
    """Archive or restore. Returns the exit code. `output`: a format, or None."""
    from connectors.archive.errors import ArchiveRefused
    from connectors.mirror.backfill.errors import BackfillRefused

    try:
        if arguments.verify is not None:
            return _verify(arguments)
        if arguments.restore is not None:
            return _restore(arguments)
        return _archive(arguments)
    except (ArchiveRefused, BackfillRefused) as error:
        print(f"{PROGRAM}: refused: {error}", file=sys.stderr)
        return EXIT_REFUSED


def _flow(arguments: argparse.Namespace) -> DedicatedFlow:
    """Return the flow. Raises `ConfigError` and `SparkMissing` if its archive cannot run here."""
    from connectors.mirrormaker.flow_lookup import named_flow
    from connectors.spark.properties import refuse_remote
    from connectors.spark.requirements import is_submitted, require_spark

    flow = named_flow(arguments.config, arguments.flow)
    if not is_submitted():
        refuse_remote(PROGRAM, flow.properties, "set spark.master instead")
    require_spark(flow.properties)
    return flow


def _archive(arguments: argparse.Namespace) -> int:
    from api.cli.output.backfill import ProgressView
    from api.cli.processes.stop_signals import StopSignal
    from connectors.archive.session import ArchiveSession
    from connectors.archive.unpacking import Unpacking, read_schema
    from connectors.mirror.history.jobs import JobHistory
    from connectors.spark.program_session import own_session
    from connectors.spark.properties import with_avro

    flow = _flow(arguments)
    view = ProgressView()
    paths = {"value": arguments.value_schema, "key": arguments.key_schema}
    headed = not arguments.no_schema_ids
    unpacking = Unpacking(
        {name: read_schema(path, headed=headed) for name, path in paths.items() if path is not None}
    )
    properties = with_avro(flow.properties) if unpacking.needs_avro else flow.properties
    wanted = _wanted(arguments)
    with ExitStack() as stack:
        session = stack.enter_context(
            closing(ArchiveSession(flow, chosen_topics(arguments), view.say, unpacking))
        )
        if not arguments.plan:
            session.take_lock()
        spark = stack.enter_context(own_session(PROGRAM, properties, frames=True))
        if arguments.plan:
            jobs = session.look(spark, arguments.to, wanted)
            return _show_plan(arguments, jobs, (), "Archive")
        session.open(spark, arguments.to, wanted)
        history = stack.enter_context(closing(JobHistory("archive", flow.config)))
        run = _ArchiveRun(arguments, session, spark, StopSignal(), view, history)
        return run.once() if arguments.every is None else run.rounds()


@dataclass(frozen=True, slots=True)
class _ArchiveRun:
    """An archive under its lock."""

    arguments: argparse.Namespace
    session: ArchiveSession
    spark: SparkSession
    stop: StopSignal
    view: ProgressView
    history: JobHistory

    def once(self) -> int:
        outcome = self._round()
        end_history(self.history, outcome)
        _show(self.arguments, self.session.jobs, outcome, "Archive", "")
        return exit_code(outcome)

    def rounds(self) -> int:
        """Archive again and again until a signal. A failed round is repeated."""
        failed = 0
        while True:
            try:
                if failed:
                    # The last commit may be known to the directory only.
                    self.session.open(self.spark, self.arguments.to, _wanted(self.arguments))
                progress = self._round().progress
            except RetriableError as error:
                failed += 1
                if failed >= FAILED_ROUNDS:
                    raise
                _LOG.warning("%s; trying again in %d s", error, self.arguments.every)
            else:
                failed = 0
                self._say_round(progress)
            if self.stop.wait(self.arguments.every):
                self.history.end("stopped", "Start it again to continue")
                return EXIT_OK

    def _say_round(self, progress: JobProgress) -> None:
        if progress.copied_records or progress.failed:
            self.view.say(
                f"Archived {progress.copied_records} records of {progress.partitions} "
                f"partitions in {progress.seconds:.1f} s"
                + (f", {progress.failed} partitions FAILED" if progress.failed else "")
            )

    def _round(self) -> JobOutcome:
        from api.cli.output.backfill import to_json
        from api.cli.output.formats import write_json

        arguments = self.arguments
        size = int(arguments.piece_bytes or ARCHIVE_PIECE_BYTES)
        slots = _slots(arguments, self.spark)
        try:
            outcome = self.session.round(size, slots, lambda: self.stop.wait(0), self._tell)
        finally:
            self.view.end()
        write_json(arguments.json, to_json(self.session.jobs, outcome.progress))
        return outcome

    def _tell(self, progress: JobProgress) -> None:
        self.view.show(progress)
        self.history.tell(job_state(progress))


def _restore(arguments: argparse.Namespace) -> int:
    from api.cli.output.backfill import ProgressView, to_json
    from api.cli.output.formats import write_json
    from api.cli.processes.stop_signals import StopSignal
    from connectors.archive.files import ArchiveFiles
    from connectors.archive.groups import GroupArchive, restore_groups
    from connectors.archive.restore import ArchiveReader, RestoreSurvey, restore_engine
    from connectors.archive.restorer import TargetSetup
    from connectors.archive.store import ArchiveStore
    from connectors.mirror.backfill.scheduler import SchedulerOptions, urgent_first
    from connectors.mirror.backfill.session import BackfillSession
    from connectors.mirror.history.jobs import JobHistory
    from connectors.spark.program_session import own_session, without_retries

    flow = _flow(arguments)
    view = ProgressView()
    # Spark must not retry a task by itself, because the first run may still be sending.
    properties = without_retries(flow.properties)
    with ExitStack() as stack:
        spark = stack.enter_context(own_session(PROGRAM, properties, frames=True))
        store = ArchiveStore.read(ArchiveFiles(spark, arguments.restore))
        reader = ArchiveReader(spark, store)
        survey = stack.enter_context(
            closing(RestoreSurvey(flow, store, reader, chosen_topics(arguments)))
        )
        session = stack.enter_context(closing(BackfillSession(flow, survey, view.say)))
        if arguments.plan:
            plan, facts = session.look()
            missing = [topic.remote for topic in facts.missing.create]
            return _show_plan(arguments, urgent_first(plan.jobs), missing, "Restore")
        plan, _ = session.prepare()
        history = stack.enter_context(closing(JobHistory("restore", flow.config)))
        stop = StopSignal()
        size = int(arguments.piece_bytes or RESTORE_PIECE_BYTES)

        def tell(progress: JobProgress) -> None:
            view.show(progress)
            history.tell(job_state(progress))

        try:
            outcome = session.run(
                restore_engine(spark, TargetSetup(flow.producer()), reader),
                SchedulerOptions(size, PIECE_SECONDS),
                _slots(arguments, spark),
                lambda: stop.wait(0),
                tell,
            )
        finally:
            view.end()
        if outcome.complete:
            groups = restore_groups(flow, store.ledger, GroupArchive(store.files).offsets)
            view.say(f"Wrote checkpoints of consumer groups: {groups}")
        end_history(history, outcome)
        jobs = urgent_first(plan.jobs)
        write_json(arguments.json, to_json(jobs, outcome.progress))
        _show(arguments, jobs, outcome, "Restore", " The flow continues after these records.")
        return exit_code(outcome)


def _verify(arguments: argparse.Namespace) -> int:
    from api.cli.output.verification import show_verified
    from connectors.archive.files import ArchiveFiles
    from connectors.archive.restore import ArchiveReader, archived_topics
    from connectors.archive.store import ArchiveStore
    from connectors.archive.verify import verified
    from connectors.mirror.history.jobs import JobHistory
    from connectors.spark.program_session import own_session

    flow = _flow(arguments)
    pattern = chosen_topics(arguments)
    with ExitStack() as stack:
        spark = stack.enter_context(own_session(PROGRAM, flow.properties, frames=True))
        store = ArchiveStore.read(ArchiveFiles(spark, arguments.verify))
        topics = archived_topics(flow, store, pattern)
        ranges = [each for found in store.ledger.ranges.values() for each in found]
        chosen = [each for each in ranges if each.topic in topics]
        history = stack.enter_context(closing(JobHistory("verification", flow.config)))
        results = verified(ArchiveReader(spark, store), chosen, _slots(arguments, spark)())
        wrong = show_verified(results, chosen, store.place.told, history)
    if wrong:
        print(f"{wrong} of {len(chosen)} ranges differ from the ledger.")
        return EXIT_REFUSED
    records = sum(each.records for each in chosen)
    print(f"{len(chosen)} ranges with {records} records are as the ledger says.")
    return EXIT_OK


def _slots(arguments: argparse.Namespace, spark: SparkSession) -> Callable[[], int]:
    from connectors.spark.slots import slots_of

    return lambda: arguments.parallel or slots_of(spark).most


def _show_plan(
    arguments: argparse.Namespace,
    jobs: Sequence[PartitionJob],
    missing: Sequence[str],
    title: str,
) -> int:
    from api.cli.output import backfill, formats

    formats.print_result(
        arguments,
        lambda: backfill.to_json(jobs, None),
        lambda output: backfill.print_plan(jobs, missing, (), output=output, title=title),
    )
    formats.write_json(arguments.json, backfill.to_json(jobs, None))
    return EXIT_OK


def _show(
    arguments: argparse.Namespace,
    jobs: Sequence[PartitionJob],
    outcome: JobOutcome,
    title: str,
    after: str,
) -> None:
    from api.cli.output import backfill, formats

    formats.print_result(
        arguments,
        lambda: backfill.to_json(jobs, outcome.progress),
        lambda output: backfill.print_result(
            jobs, outcome.progress, outcome.stopped, output=output, title=title, after=after
        ),
    )


def _wanted(arguments: argparse.Namespace) -> WantedPlace | None:
    from connectors.archive.place import WantedPlace

    return None if arguments.format is None else WantedPlace(arguments.format, arguments.table)


def command() -> NoReturn:
    """Entry point of the installed command: run the program, then end the process."""
    leave(main())


if __name__ == "__main__":
    command()
