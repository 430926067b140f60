"""Backfills as tests run them: without the command line, on threads of the test or on Spark."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from pathlib import Path

from pyspark.sql import SparkSession

from connectors.mirror.backfill.cluster_facts import ClusterSurvey
from connectors.mirror.backfill.engines import (
    PieceEngine,
    PieceOutcome,
    copier_consumer,
    local_engine,
)
from connectors.mirror.backfill.request import BackfillRequest
from connectors.mirror.backfill.scheduler import Chunk, PartitionJob, SchedulerOptions
from connectors.mirror.backfill.session import BackfillSession
from connectors.mirror.copy.settings import engine_settings
from connectors.mirror.inspect.source_topics import topic_pattern
from connectors.mirror.spark.backfill import spark_engine
from connectors.mirror.spark.copy.shards import CopyFlow
from connectors.mirrormaker.flow_lookup import named_flow
from tests.support.properties_files import properties_text

__all__ = ["Backfilled", "Killed", "backfill", "dying", "properties_file"]


@dataclass(frozen=True)
class Backfilled:
    """What came out: each partition's job, and whether everything was copied."""

    jobs: Mapping[tuple[str, int], PartitionJob]
    complete: bool

    def records(self, topic: str) -> int:
        return sum(job.copied_records for key, job in self.jobs.items() if key[0] == topic)

    def found(self, topic: str) -> int:
        return sum(job.found_records for key, job in self.jobs.items() if key[0] == topic)


def properties_file(properties: Mapping[str, str], directory: Path) -> Path:
    path = directory / "mm2.properties"
    path.write_text(properties_text(properties))
    return path


def backfill(
    properties: Mapping[str, str],
    directory: Path,
    wish: BackfillRequest | None = None,
    *,
    topics: str | None = None,
    spark: SparkSession | None = None,
    piece_bytes: int = 20_000,
    wrapped: Callable[[PieceEngine], PieceEngine] = lambda engine: engine,
) -> Backfilled:
    """Run one to its end. `wrapped`: something between the job and its engine."""
    flow = named_flow(properties_file(properties, directory), None)
    if wish is None:
        wish = BackfillRequest(None if topics is None else topic_pattern(topics))
    with ExitStack() as stack:
        gatherer = stack.enter_context(closing(ClusterSurvey(flow, wish)))
        session = stack.enter_context(closing(BackfillSession(flow, gatherer, print)))
        plan, _ = session.prepare()
        consumer = copier_consumer(gatherer.consumer)
        engine = (
            local_engine(engine_settings(flow.config, consumer, flow.producer()))
            if spark is None
            else spark_engine(spark, CopyFlow(flow.properties, consumer, flow.producer()))
        )
        dealing = SchedulerOptions(piece_bytes, 10.0)
        outcome = session.run(
            wrapped(engine), dealing, lambda: 2, lambda: False, lambda progress: None
        )
        return Backfilled({job.source: job for job in plan.jobs}, outcome.complete)


class Killed(Exception):
    """In place of a kill: what was copied is not written down."""


def dying(after: int) -> Callable[[PieceEngine], PieceEngine]:
    """The program dies while the piece behind so many is copied, which then is on the target."""

    def wrapped(engine: PieceEngine) -> PieceEngine:
        count = 0

        def copy(piece: Chunk) -> PieceOutcome:
            nonlocal count
            outcome = engine(piece)
            count += 1
            if count <= after:
                return outcome
            return replace(outcome, progress=_Exploding())  # type: ignore[arg-type]

        return copy

    return wrapped


class _Exploding:
    def __iter__(self) -> object:
        raise Killed
