"""Workers of a Connect cluster, `kafka-mirror-maker` and the commands beside a flow work with the
permissions of the page and no others; without any one of them they say which one to grant."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from connect.clients.permissions import Operation
from connectors.mirrormaker.required_permissions import Feature
from deploy.brokers import KafkaCluster, KafkaRuntime
from tests.support.taken_from_mirrormaker1 import (
    MirrorMaker1Row,
    mirrormaker1_copies,
    mirrormaker1_rows,
    mirrormaker1_said,
)
from tests.support.taken_from_programs import (
    COMMANDS,
    Command,
    CommandRow,
    CopiedFlow,
    command_rows,
    copied_flow,
)
from tests.support.taken_from_workers import GuardedWorker, WorkerRow, worker_rows, worker_said
from tests.support.taken_permissions_page import PAGE, AnyRow, guarded_pair, on_page
from tests.support.waiting import wait_until

SOON_S = 60.0
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


def of_page(row: AnyRow) -> str:
    return on_page(PAGE.read_text())[row.key]


def ids(row: AnyRow) -> str:
    return " ".join(row.key)


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_a_command_needs_no_more_than_its_rows(flow: CopiedFlow, command: Command) -> None:
    def content() -> bool:
        answer = flow.ask(command, None)
        # 3: `why` says that nobody asked the running mirror, or that offsets lag.
        return not answer.grants and set(answer.statuses) <= {0, 3}

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
    answer = flow.said(row)
    assert of_page(row) in answer.lines


@pytest.mark.parametrize("once", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_worker_and_its_connectors_need_no_more_than_their_rows(
    clusters: tuple[KafkaCluster, KafkaCluster], tmp_path: Path, *, once: bool
) -> None:
    guarded = GuardedWorker(clusters[1], tmp_path, once=once)
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
    assert of_page(row) in worker_said(clusters[1], row, tmp_path)


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
