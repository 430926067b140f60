"""`GET /mirrors/{flow}/lag` of a Connect worker and of `connect-mirror-maker`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest

from api.http_server import ApiServer
from connect.metrics.registry import MetricRegistry
from connect.plugin import PartitionHealth
from connect.runtime.connector_status import ConnectorStatus, TaskStatus
from connect.runtime.states import State, Status
from tests.support.rest import call
from tests.support.workers.in_memory_herder import WORKER, InMemoryHerder
from tests.unit.api.started import StartServer

SOURCE = "org.apache.kafka.connect.mirror.MirrorSourceConnector"
BEHIND = PartitionHealth("orders", 1, 7, 1500, None, 700, 60_000, {"state": "active"})
NEW = PartitionHealth("orders", 0, None, None, error="no leader")


def flow(source: str, target: str, connector_class: str = SOURCE) -> dict[str, str]:
    return {
        "connector.class": connector_class,
        "source.cluster.alias": source,
        "target.cluster.alias": target,
    }


def task(number: int, partitions: Sequence[PartitionHealth] | None, worker: str) -> TaskStatus:
    return TaskStatus.seen_here(number, Status(State.RUNNING, worker, 0), partitions)


@pytest.fixture
def connect(herder: InMemoryHerder, url: str) -> str:
    """A worker with two connectors that copy a->b, and others."""
    herder.configs = {
        "one": flow("a", "b"),
        "two": flow("a", "b", "MirrorSource"),
        "other": flow("b", "a"),
        "checkpoints": flow("c", "d", "MirrorCheckpointConnector"),
    }
    herder.partitions = {0: [BEHIND, NEW]}
    return url


def test_the_lag_of_a_flow(connect: str) -> None:
    answer = call(connect, "GET", "/mirrors/a-%3Eb/lag")
    assert answer.status == 200
    document = answer.json()
    assert (document["flow"], document["incomplete"]) == ("a->b", [])
    shown = [
        (each["topic"], each["partition"], each["connector"]) for each in document["partitions"]
    ]
    assert sorted(shown) == [
        ("orders", number, connector) for number in (0, 1) for connector in ("one", "two")
    ]
    assert document["partitions"][0]["partition"] == 0
    assert document["partitions"][2] == {
        "topic": "orders", "partition": 1, "records": 7, "seconds": 1.5, "bytes": 700,
        "time_to_loss_seconds": 60.0, "error": None, "timestamps_ahead_seconds": None,
        "connector": "one", "task": 0, "worker_id": WORKER,
    }  # fmt: skip
    unknown = document["partitions"][0]
    assert {unknown[key] for key in ("records", "seconds", "bytes", "time_to_loss_seconds")} == {
        None
    }
    assert unknown["error"] == "no leader"


def test_an_arrow_needs_no_escape(connect: str) -> None:
    assert call(connect, "GET", "/mirrors/b->a/lag").json()["flow"] == "b->a"


@pytest.mark.parametrize("name", ["c->d", "a", "A->b"])
def test_an_unknown_flow_is_answered_with_the_known_ones(connect: str, name: str) -> None:
    answer = call(connect, "GET", f"/mirrors/{name}/lag")
    assert answer.error == (404, f"There is no flow {name}; flows: a->b, b->a")


def test_a_worker_without_flows(url: str) -> None:
    assert call(url, "GET", "/mirrors/a->b/lag").error == (
        404,
        "There is no flow a->b; flows: none",
    )


def test_a_worker_that_starts(start_server: StartServer) -> None:
    assert call(start_server(None), "GET", "/mirrors/a->b/lag").error[0] == 503


class Mirror:
    """The flows of a process in dedicated mode."""

    def __init__(self) -> None:
        self.metrics = MetricRegistry()
        self.status = ConnectorStatus(
            "MirrorSourceConnector",
            Status(State.RUNNING, "w", 0),
            (
                task(0, [BEHIND], "here:1"),
                task(1, None, "there:1"),
                task(2, None, "there:1"),
                TaskStatus.seen_here(3, Status(State.FAILED, "here:1", 0), []),
            ),
        )

    def not_ready(self) -> Mapping[str, str]:
        return {}

    def statuses(self) -> Mapping[str, Sequence[ConnectorStatus]]:
        return {"a->b": [self.status]}

    def source_configs(self) -> Mapping[tuple[str, str], Mapping[str, str]]:
        return {("a", "b"): {"mirror.history.url": "none"}}

    def group_status(self, connector: str) -> Mapping[str, Any]:
        assert connector == "MirrorSourceConnector"
        return {"a->b": lambda: self.status}


@pytest.fixture(scope="module")
def mirror() -> Mirror:
    return Mirror()


@pytest.fixture(scope="module")
def dedicated(mirror: Mirror) -> Iterator[str]:
    def app() -> Any:
        from api.dedicated.status_pages import create_app

        return create_app(mirror)

    with ApiServer(app, "http://127.0.0.1:0") as server:
        yield f"http://127.0.0.1:{server.port}"


def test_workers_that_did_not_answer_are_named(dedicated: str) -> None:
    document = call(dedicated, "GET", "/mirrors/a-%3Eb/lag").json()
    assert [each["partition"] for each in document["partitions"]] == [1]
    assert document["incomplete"] == [
        {
            "connector": "MirrorSourceConnector", "tasks": [1, 2], "worker_id": "there:1",
            "reason": "The task runs on worker there:1",
        },
        {
            "connector": "MirrorSourceConnector", "tasks": [3], "worker_id": "here:1",
            "reason": "The task is FAILED",
        },
    ]  # fmt: skip


def test_dedicated_mode_has_the_dashboard_and_it_only_reads(dedicated: str) -> None:
    document = call(dedicated, "GET", "/mirrors").json()
    assert document["viewer"] == {"user": None, "role": "viewer", "connectors": False}
    (flow,) = document["flows"]
    assert (flow["name"], flow["health"], flow["partitions"]) == ("a->b", "failed", 1)
    assert flow["workers"][1]["problem"] == "The task runs on worker there:1"
    assert call(dedicated, "GET", "/ui", headers={}).status == 200
    assert call(dedicated, "GET", "/mirrors/b->a/heat").status == 404


def test_dedicated_mode_names_its_flows(dedicated: str) -> None:
    answer = call(dedicated, "GET", "/mirrors/b-%3Ea/lag")
    assert answer.error == (404, "There is no flow b->a; flows: a->b")


def test_a_flow_that_does_not_run_yet(dedicated: str, mirror: Mirror) -> None:
    starting = Status(State.UNASSIGNED, "a->b", 0, "The worker of a->b is starting")
    mirror.status = ConnectorStatus("MirrorSourceConnector", starting, ())
    document = call(dedicated, "GET", "/mirrors/a-%3Eb/lag").json()
    assert document["partitions"] == []
    assert document["incomplete"] == [
        {
            "connector": "MirrorSourceConnector", "tasks": [], "worker_id": "a->b",
            "reason": "The connector is UNASSIGNED: The worker of a->b is starting",
        }
    ]  # fmt: skip
