"""Runs an archive: lock, plan, archive, and again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack

import pyspark  # noqa: F401 - before its parts
from pyspark.sql import SparkSession

from connect.config.java_regex import JavaRegex
from connectors.archive.engine import ArchiveEngine, archive_engine
from connectors.archive.errors import AnotherArchive
from connectors.archive.files import ArchiveFiles
from connectors.archive.groups import GroupArchive, committed_offsets
from connectors.archive.job import ArchiveJob
from connectors.archive.place import WantedPlace
from connectors.archive.reader import SourceSetup
from connectors.archive.rows import WRITE_SCHEMA
from connectors.archive.store import ArchiveStore
from connectors.archive.survey import SourceSurvey
from connectors.archive.unpacking import Unpacking
from connectors.mirror.backfill.job import JobOutcome
from connectors.mirror.backfill.lock import JobLock
from connectors.mirror.backfill.progress import JobProgress
from connectors.mirror.backfill.scheduler import PartitionJob
from connectors.mirror.inspect.flow import DedicatedFlow
from connectors.spark.errors import job_errors

__all__ = ["ArchiveSession", "archive_group"]


def archive_group(flow: DedicatedFlow) -> str:
    """Return the group on the source whose only member is the running archive of the flow."""
    return f"{flow.group}-archive"


class ArchiveSession:
    """One run of an archive: call `look`; or `take_lock`, `open`, and `round` as often as wanted.
    Then `close`. For one thread."""

    def __init__(
        self,
        flow: DedicatedFlow,
        pattern: JavaRegex | None,
        say: Callable[[str], None],
        unpacking: Unpacking | None = None,
    ) -> None:
        """`pattern`: for whole names of topics; None: the flow's topics. `say` receives a sentence
        for the user when the session has to wait. `unpacking`: None for nothing."""
        self._flow = flow
        self._unpacking = unpacking or Unpacking()
        self._say = say
        self._closing = ExitStack()
        self._survey = SourceSurvey(flow, pattern)
        self._closing.callback(self._survey.close)
        self._lock: JobLock | None = None
        self._store: ArchiveStore | None = None
        self._session: SparkSession | None = None
        self.jobs: Sequence[PartitionJob] = ()
        """The partitions of the last round."""

    def look(
        self, session: SparkSession, directory: str, wanted: WantedPlace | None = None
    ) -> Sequence[PartitionJob]:
        """Return what a round would archive, and change nothing. Raises `ArchiveRefused`, and
        `ConfigError` if there is no topic to archive."""
        cluster, alias = self._survey.cluster_id(), self._flow.config.source_cluster_alias
        ledger = ArchiveStore.look(ArchiveFiles(session, directory), cluster, alias, wanted)
        return self._survey.plan(ledger).jobs

    def take_lock(self) -> None:
        """Exclude other archives of the flow. Raises `AnotherArchive`, and `ConfigError` if there
        is no topic to archive."""
        self._survey.cluster_id()  # A cluster that does not answer is named.
        self._lock = JobLock(
            archive_group(self._flow),
            self._survey.consumer,
            min(self._survey.topics()),
            f"archive of {self._flow.name}",
            AnotherArchive,
        )
        self._closing.callback(self._lock.release)
        self._lock.acquire(self._say)

    def open(
        self, session: SparkSession, directory: str, wanted: WantedPlace | None = None
    ) -> ArchiveStore:
        """Open the directory, under the lock. `wanted`: where its records are to be; None: where
        they are. Raises `ArchiveRefused`, and `ConfigError` for a schema or a table that Spark does
        not accept."""
        assert self._lock is not None, "call take_lock before open"
        self._unpacking.check(session)
        files = ArchiveFiles(session, directory)
        alias = self._flow.config.source_cluster_alias
        self._session = session
        store = ArchiveStore.open(files, self._survey.cluster_id(), alias, wanted)
        rows = session.createDataFrame([], WRITE_SCHEMA)
        store.place.prepare(self._unpacking.of(rows).schema, begun=store.ledger.version > 0)
        self._store = store
        return store

    def round(
        self,
        piece_bytes: int,
        slots: Callable[[], int],
        stopping: Callable[[], bool],
        tell: Callable[[JobProgress], None],
        wrapped: Callable[[ArchiveEngine], ArchiveEngine] = lambda engine: engine,
    ) -> JobOutcome:
        """Archive what the sources have now. `slots`: how many pieces may be in flight now.
        `wrapped`: what stands between the job and its engine."""
        store, session, lock = self._store, self._session, self._lock
        assert store is not None, "call open before round"
        assert session is not None
        assert lock is not None
        lock.check()
        setup = SourceSetup(self._survey.consumer)
        engine = archive_engine(session, setup, store.files, self._unpacking)
        plan = self._survey.plan(store.ledger)
        self.jobs = plan.jobs
        job = ArchiveJob(
            plan,
            store,
            wrapped(engine),
            piece_bytes,
            slots=slots,
            look=lock.check,
            cancel=lambda: _cancel(session),
            tell=tell,
        )
        outcome = job.run(stopping)
        if not outcome.stopped:
            # After the records, so that most of them are archived.
            GroupArchive(store.files).save(committed_offsets(self._flow, plan.topics))
        return outcome

    def close(self) -> None:
        """Release everything. May be called at any time."""
        self._closing.close()


def _cancel(session: SparkSession) -> None:
    with job_errors("Cancelling the archive"):
        session.sparkContext.cancelAllJobs()
