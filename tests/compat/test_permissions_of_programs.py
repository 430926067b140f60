"""Workers of a Connect cluster, `kafka-mirror-maker` and the commands beside a flow work with the
permissions of the page and no others; without any one of them they say which one to grant."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from connect.clients.permissions import Operation
from connectors.mirrormaker.required_permissions import Feature
from deploy.brokers import KafkaCluster, KafkaRuntime
from tests.support.security.taken_from_connectors import (
    ConnectorRow,
    MirrorWorkers,
    Writer,
    connector_rows,
)
from tests.support.security.taken_from_jobs import JOBS, Job, JobFlow, JobRow, job_rows
from tests.support.security.taken_from_mirrormaker1 import (
    MirrorMaker1Row,
    mirrormaker1_copies,
    mirrormaker1_rows,
    mirrormaker1_said,
)
from tests.support.security.taken_from_programs import (
    COMMANDS,
    Command,
    CommandRow,
    CopiedFlow,
    command_rows,
    copied_flow,
)
from tests.support.security.taken_from_workers import (
    GuardedWorker,
    WorkerRow,
    worker_rows,
    worker_said,
)
from tests.support.security.taken_permissions_page import PAGE, AnyRow, guarded_pair, on_page
from tests.support.waiting import wait_until

SOON_S = 60.0
of_jobs = pytest.mark.timeout(900)
"""The first restore makes an archive before. Both start Spark, which took 262 s together on a busy
machine. A program that hangs is ended before that, and then shows what it said."""
READS = (Operation.READ, Operation.DESCRIBE)


@pytest.fixture(scope="module")
def clusters(
    kafka: KafkaRuntime, session_logs: Path
) -> Iterator[tuple[KafkaCluster, KafkaCluster]]:
    with guarded_pair(kafka, session_logs) as pair:
        yield pair


@pytest.fixture(scope="module")
def flow(
    clusters: tuple[KafkaCluster, KafkaCluster],
    session_logs: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[CopiedFlow]:
    log = session_logs / "asked-flow.log"
    with copied_flow(clusters, tmp_path_factory.mktemp("asked"), log) as copied:
        yield copied


@pytest.fixture(scope="module")
def jobs(
    clusters: tuple[KafkaCluster, KafkaCluster], tmp_path_factory: pytest.TempPathFactory
) -> JobFlow:
    return JobFlow(clusters, tmp_path_factory.mktemp("jobs"))


@pytest.fixture(scope="module")
def workers(
    clusters: tuple[KafkaCluster, KafkaCluster], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[MirrorWorkers]:
    with closing(MirrorWorkers(clusters, tmp_path_factory.mktemp("mirrors"))) as made:
        yield made


def of_page(row: AnyRow) -> str:
    return on_page(PAGE.read_text())[row.key]


def ids(row: AnyRow) -> str:
    return " ".join(row.key)


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_a_command_needs_no_more_than_its_rows(flow: CopiedFlow, command: Command) -> None:
    def content() -> bool:
        answer = flow.ask(command, None)
        return not answer.grants and command.content.issuperset(answer.statuses)

    wait_until(content, SOON_S, f"{command.name} to work")


def _in_make_test(row: CommandRow) -> bool:
    return row.command.tried is Feature.LAG or row.permission.operation not in READS


@pytest.mark.parametrize(
    "row",
    [
        row if _in_make_test(row) else pytest.param(row, marks=pytest.mark.slow)
        for row in command_rows()
    ],
    ids=ids,
)
def test_a_command_names_what_is_missing(flow: CopiedFlow, row: CommandRow) -> None:
    flow.said(row, of_page(row))


@of_jobs
@pytest.mark.parametrize(
    "job",
    [pytest.param(job, marks=() if job.name == "backfill" else pytest.mark.slow) for job in JOBS],
    ids=lambda job: job.name,
)
def test_a_job_needs_no_more_than_its_rows(jobs: JobFlow, job: Job) -> None:
    jobs.works(job)


@of_jobs
@pytest.mark.slow
@pytest.mark.parametrize("row", list(job_rows()), ids=ids)
def test_a_job_names_what_is_missing(jobs: JobFlow, row: JobRow) -> None:
    jobs.said(row, of_page(row))


@pytest.mark.slow
@pytest.mark.parametrize("writer", Writer, ids=lambda writer: writer.value)
def test_connectors_created_over_rest_need_no_more_than_their_rows(
    workers: MirrorWorkers, writer: Writer
) -> None:
    workers.of(writer).works()


@pytest.mark.slow
@pytest.mark.parametrize("row", list(connector_rows()), ids=ids)
def test_connectors_created_over_rest_name_what_is_missing(
    workers: MirrorWorkers, row: ConnectorRow
) -> None:
    sentence = of_page(row)
    workers.of(row.writer).said(row, lambda found: sentence in found)


@pytest.mark.parametrize(
    ("once", "standalone"),
    [
        (False, False),
        pytest.param(True, False, marks=pytest.mark.slow),
        pytest.param(False, True, marks=pytest.mark.slow),
    ],
    ids=["distributed", "exactly once", "standalone"],
)
def test_a_worker_and_its_connectors_need_no_more_than_their_rows(
    clusters: tuple[KafkaCluster, KafkaCluster], tmp_path: Path, *, once: bool, standalone: bool
) -> None:
    guarded = GuardedWorker(clusters[1], tmp_path, once=once, standalone=standalone)
    with guarded.running():
        guarded.worker.await_ready()
        wait_until(guarded.works, SOON_S, f"both connectors to work; see {guarded.log}")
        guarded.worker.stop()
    assert "AUTHORIZATION_FAILED" not in guarded.log.read_text()


@pytest.mark.slow
@pytest.mark.parametrize("row", list(worker_rows()), ids=ids)
def test_a_worker_names_what_is_missing(
    clusters: tuple[KafkaCluster, KafkaCluster], tmp_path: Path, row: WorkerRow
) -> None:
    sentence = of_page(row)
    worker_said(clusters[1], row, tmp_path, lambda found: sentence in found)


def test_mirrormaker_1_needs_no_more_than_its_rows(
    clusters: tuple[KafkaCluster, KafkaCluster], logs: Path, tmp_path: Path
) -> None:
    log = mirrormaker1_copies(clusters, tmp_path, logs / "mm1.log")
    assert "AUTHORIZATION_FAILED" not in log


@pytest.mark.slow
@pytest.mark.parametrize("row", list(mirrormaker1_rows()), ids=ids)
def test_mirrormaker_1_names_what_is_missing(
    clusters: tuple[KafkaCluster, KafkaCluster], logs: Path, tmp_path: Path, row: MirrorMaker1Row
) -> None:
    assert of_page(row) in mirrormaker1_said(clusters, row, tmp_path, logs / "mm1.log")
