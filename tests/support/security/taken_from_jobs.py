"""What backfills, archives, restores and `start --commit` say when one permission of the table is
left out of those that they need.

All copy one flow that no mirror runs. Before each job, what the one before left on the target is
deleted.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from connect.errors import DeadlineExceeded
from connectors.mirror.topics.provenance_topic import PROVENANCE_TOPIC
from connectors.mirrormaker.required_permissions import (
    Feature,
    RequiredPermission,
    required_permissions,
)
from deploy.brokers import KafkaCluster
from deploy.site.permissions_reference import NAMES
from tests.support.properties_files import properties_text
from tests.support.records.connector_offsets import store_replicator_offsets
from tests.support.records.losing import delete_topic
from tests.support.records.topics import topic_names
from tests.support.security.guarded_flow import Guarded, granted
from tests.support.security.permissions import forget, grant
from tests.support.security.taken_from_programs import Answer
from tests.support.security.taken_permissions import JOBS_USER, in_words_of_the_page, message_of
from tests.support.waiting import wait_until

__all__ = ["JOBS", "Job", "JobFlow", "JobRow", "job_rows"]

# A busy machine takes long to start Spark.
_JOB_S = 300.0
_GONE_S, _SOON_S = 60.0, 12.0
_OFFSETS = NAMES.worker_topics[0]
_START = ("api.cli.mirror_client", "start", "--config", "FILE")
_REPLICATOR = "replicator"
_COPIED = frozenset({Feature.COPYING, Feature.OFFSET_MAP})
_SPARK = {
    "A->B.spark.master": "local[1]",
    "A->B.spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
}


@dataclass(frozen=True)
class Job:
    """A job, by the name that the page has for it. `features`: the rows that suffice, of which
    those of `tried` are left out. `DIRECTORY` stands for an archive, which exists before the job
    if it `reads` one, `GROUP` for a group of the source. `unused`: rows that it does without
    here."""

    name: str
    features: frozenset[Feature]
    tried: frozenset[Feature]
    call: Sequence[str]
    reads: bool = False
    unused: frozenset[str] = frozenset()


JOBS = (
    Job(
        Feature.BACKFILL.value,
        _COPIED | {Feature.BACKFILL},
        _COPIED | {Feature.BACKFILL},
        ("api.cli.mirror_backfill", "FILE", "--engine", "local"),
        unused=frozenset({f"Read on topic {NAMES.offset_syncs}"}),
    ),
    Job(
        Feature.ARCHIVE.value,
        frozenset({Feature.ARCHIVE}),
        frozenset({Feature.ARCHIVE}),
        ("api.cli.mirror_archive", "FILE", "--to", "DIRECTORY"),
    ),
    Job(
        Feature.RESTORE.value,
        _COPIED | {Feature.RESTORE},
        frozenset({Feature.RESTORE}),
        ("api.cli.mirror_archive", "FILE", "--restore", "DIRECTORY"),
        reads=True,
        # It reads copies and checks its topics if they were there before.
        unused=frozenset(
            {
                "Read on topic A.*",
                f"Read on topic {NAMES.checkpoints}",
                f"DescribeConfigs on topic {_OFFSETS}",
            }
        ),
    ),
    Job(
        Feature.START_COMMIT.value,
        frozenset({Feature.START, Feature.START_COMMIT}),
        frozenset({Feature.START_COMMIT}),
        (*_START, "--group", "GROUP", "--commit"),
        # It reads and checks a topic that was there before.
        unused=frozenset({f"Read on topic {_OFFSETS}", f"DescribeConfigs on topic {_OFFSETS}"}),
    ),
    Job(
        Feature.START_CONNECTOR.value,
        frozenset({Feature.START, Feature.START_CONNECTOR}),
        frozenset({Feature.START_CONNECTOR}),
        (*_START, "--connector", _REPLICATOR),
    ),
)


class JobRow(NamedTuple):
    """A permission that a job lacks, in the names of the page."""

    job: Job
    permission: RequiredPermission

    @property
    def key(self) -> tuple[str, str, str]:
        """Job, cluster and permission, as the page has them."""
        return self.job.name, self.permission.cluster, str(self.permission)


def job_rows() -> Iterator[JobRow]:
    """All that is tried."""
    for job in JOBS:
        for permission in required_permissions(NAMES, job.features):
            if permission.feature in job.tried and str(permission) not in job.unused:
                yield JobRow(job, permission)


class JobFlow:
    """A flow that nobody mirrors, and what jobs of `JOBS_USER` say of it."""

    def __init__(self, clusters: tuple[KafkaCluster, KafkaCluster], directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.guarded = Guarded(clusters, JOBS_USER)
        self._file = directory / "jobs.properties"
        self._archive, self._whole = directory / "archive", directory / "whole"
        servers, first = self.guarded.flow.target_servers, (self.guarded.topic, 0)
        store_replicator_offsets(servers, NAMES.others_offsets, _REPLICATOR, {first: 1})
        lines = self.guarded.properties("", self._extra)
        self._file.write_text(properties_text(lines))

    @property
    def _extra(self) -> dict[str, str]:
        return {"topics": self.guarded.topic, "mirror.history.url": "none", **_SPARK}

    def run(self, job: Job, without: RequiredPermission | None) -> Answer:
        """Run the job with all permissions of its rows but one (None: with all)."""
        if job.reads and not self._whole.exists():
            archive = next(each for each in JOBS if each.name == Feature.ARCHIVE.value)
            made = self.run(archive, None)
            assert set(made.statuses) == {0}, made
            self._archive.rename(self._whole)
        self._forget_copies()
        shutil.rmtree(self._archive, ignore_errors=True)
        self._grant(job, without)
        directory = self._whole if job.reads else self._archive
        words = {
            "FILE": str(self._file),
            "DIRECTORY": str(directory),
            "GROUP": self.guarded.group,
        }
        done = subprocess.run(
            [sys.executable, "-P", "-m", *(words.get(each, each) for each in job.call)],
            capture_output=True,
            text=True,
            timeout=_JOB_S,
            check=False,
            cwd=self._file.parent,
        )
        lines = [*done.stdout.splitlines(), *done.stderr.splitlines()]
        said = [in_words_of_the_page(self.guarded, message_of(line)) for line in lines]
        return Answer([done.returncode], said)

    def works(self, job: Job) -> None:
        """Run the job with all permissions of its rows, once the brokers know them."""

        def content(answer: Answer) -> bool:
            # Log sizes are only asked for estimates.
            missing = [line for line in answer.grants if "DescribeLogDirs" not in line]
            return not missing and set(answer.statuses) == {0}

        self._until(job, None, content)

    def said(self, row: JobRow, sentence: str = "") -> Answer:
        """What the job says without the row's permission, once the brokers know that it is gone,
        and one of the lines about it is the `sentence` (empty: any)."""

        def named(answer: Answer) -> bool:
            about = answer.naming(row.permission)
            return sentence in about if sentence else bool(about)

        return self._until(row.job, row.permission, named)

    def _until(
        self, job: Job, without: RequiredPermission | None, wanted: Callable[[Answer], bool]
    ) -> Answer:
        answers: list[Answer] = []

        def asked() -> bool:
            answers.append(self.run(job, without))
            return wanted(answers[-1])

        try:
            wait_until(asked, _SOON_S, f"{job.name} without {without}")
        except DeadlineExceeded as error:
            raise AssertionError(f"{job.name} without {without}: {answers[-1]}") from error
        return answers[-1]

    def _grant(self, job: Job, without: RequiredPermission | None) -> None:
        guarded = self.guarded
        of_page = required_permissions(NAMES, job.features)
        of_flow = guarded.needed(job.features, self._extra)
        left_out = None if without is None else of_flow[of_page.index(without)]
        for cluster in (guarded.flow.source, guarded.flow.target):
            forget(cluster, JOBS_USER)
            mine = [each for each in of_flow if guarded.cluster(each) is cluster]
            grant(cluster, JOBS_USER, [granted(each) for each in mine if each != left_out])

    def _forget_copies(self) -> None:
        """Delete what a job has made, but for the provenance, which all flows share."""
        flow = self.guarded.flow
        for servers, alias in ((flow.target_servers, flow.a), (flow.source_servers, flow.b)):
            for name in topic_names(servers):
                if alias in name and name != PROVENANCE_TOPIC:
                    delete_topic(servers, name)
            wait_until(
                lambda servers=servers, alias=alias: (
                    not any(  # type: ignore[misc]
                        alias in name for name in topic_names(servers)
                    )
                ),
                _GONE_S,
                "the copies are gone",
            )
