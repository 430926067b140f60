"""Archives and restores as tests run them: without the command line, on Spark."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from pathlib import Path

from pyspark.sql import SparkSession

from connectors.archive.engine import ArchiveEngine
from connectors.archive.files import ArchiveFiles
from connectors.archive.groups import GroupArchive, restore_groups
from connectors.archive.place import WantedPlace
from connectors.archive.restore import ArchiveReader, RestoreSurvey, restore_engine
from connectors.archive.restorer import TargetSetup
from connectors.archive.session import ArchiveSession
from connectors.archive.store import ArchiveStore
from connectors.archive.unpacking import Unpacking
from connectors.archive.verify import verified
from connectors.mirror.backfill.engines import PieceEngine
from connectors.mirror.backfill.scheduler import SchedulerOptions
from connectors.mirror.backfill.session import BackfillSession
from connectors.mirror.inspect.source_topics import topic_pattern
from connectors.mirrormaker.flow_lookup import named_flow
from tests.support.flows.backfills import Backfilled, properties_file

__all__ = ["archive", "planned", "problems", "read_archive", "restore"]


def archive(
    properties: Mapping[str, str],
    directory: Path,
    spark: SparkSession,
    *,
    topics: str | None = None,
    piece_bytes: int = 20_000,
    wrapped: Callable[[ArchiveEngine], ArchiveEngine] = lambda engine: engine,
    unpacking: Unpacking | None = None,
    wanted: WantedPlace | None = None,
) -> ArchiveStore:
    """Archive what the source has into `directory / "archive"`. `wrapped`: something between the
    job and its engine."""
    flow = named_flow(properties_file(properties, directory), None)
    pattern = None if topics is None else topic_pattern(topics)
    with closing(ArchiveSession(flow, pattern, print, unpacking)) as session:
        session.take_lock()
        store = session.open(spark, str(directory / "archive"), wanted)
        done = session.round(
            piece_bytes, lambda: 2, lambda: False, lambda progress: None, wrapped=wrapped
        )
        assert done.complete, done
        return store


def planned(
    properties: Mapping[str, str], directory: Path, spark: SparkSession
) -> dict[tuple[str, int], tuple[int, int]]:
    """The offsets of each partition that the next archive would add, by what `--plan` asks."""
    flow = named_flow(properties_file(properties, directory), None)
    with closing(ArchiveSession(flow, None, print)) as session:
        jobs = session.look(spark, str(directory / "archive"))
        return {job.source: (job.position, job.end) for job in jobs if job.position < job.end}


def read_archive(directory: Path, spark: SparkSession) -> ArchiveStore:
    return ArchiveStore.read(ArchiveFiles(spark, str(directory / "archive")))


def problems(spark: SparkSession, directory: Path) -> list[str]:
    """How the files differ from the ledger."""
    store = read_archive(directory, spark)
    ranges = [each for found in store.ledger.ranges.values() for each in found]
    return [
        each.problem
        for each in verified(ArchiveReader(spark, store), ranges, 2)
        if each.problem is not None
    ]


def restore(
    properties: Mapping[str, str],
    directory: Path,
    spark: SparkSession,
    *,
    topics: str | None = None,
    piece_bytes: int = 20_000,
    wrapped: Callable[[PieceEngine], PieceEngine] = lambda engine: engine,
) -> Backfilled:
    """Restore `directory / "archive"` as the flow's history."""
    flow = named_flow(properties_file(properties, directory), None)
    store = read_archive(directory, spark)
    reader = ArchiveReader(spark, store)
    pattern = None if topics is None else topic_pattern(topics)
    with ExitStack() as stack:
        survey = stack.enter_context(closing(RestoreSurvey(flow, store, reader, pattern)))
        session = stack.enter_context(closing(BackfillSession(flow, survey, print)))
        plan, _ = session.prepare()
        engine = restore_engine(spark, TargetSetup(flow.producer()), reader)
        outcome = session.run(
            wrapped(engine),
            SchedulerOptions(piece_bytes, 10.0),
            lambda: 2,
            lambda: False,
            lambda progress: None,
        )
        if outcome.complete:
            restore_groups(flow, store.ledger, GroupArchive(store.files).offsets)
        return Backfilled({job.source: job for job in plan.jobs}, outcome.complete)
