"""The internal REST of dedicated mode: signed requests to the leader of one flow."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from api.dedicated.internal_rest import MirrorRestServer
from connect.plugin import PartitionHealth
from connect.runtime.connector_status import decode_partitions
from connect.runtime.errors import NotFound, NotLeader
from connect.runtime.herder import Herder
from tests.support.rest import call
from tests.support.workers.in_memory_herder import InMemoryHerder

# Of the flow a->to/b %2F: aliases may have any character.
PATH = "/a/to%2Fb%20%252F/connectors/c"
SIGNED = {
    "Content-Type": "application/json",
    "X-Connect-Authorization": "c2lnbmVk",
    "X-Connect-Request-Signature-Algorithm": "HmacSHA256",
}


@pytest.fixture
def server() -> Iterator[MirrorRestServer]:
    opened = MirrorRestServer(
        {
            "clusters": "a, to/b %2F",
            "listeners": "http://127.0.0.1:0",
            "admin.listeners": "http://127.0.0.1:0",
            "rest.extension.classes": "unknown.Extension",
        }
    )
    opened.bind()
    opened.start()
    yield opened
    opened.stop()


@pytest.fixture
def url(server: MirrorRestServer, herder: InMemoryHerder) -> str:
    def find(source: str, target: str) -> Herder:
        if (source, target) == ("a", "to/b %2F"):
            return herder
        raise NotFound("no such flow")

    server.serve(find)
    return server.reach.url.rstrip("/")


def test_task_configs_reach_the_flow_with_their_signature(url: str, herder: InMemoryHerder) -> None:
    answer = call(url, "POST", f"{PATH}/tasks", [{"x": "1"}], SIGNED)
    assert answer.status == 204
    assert herder.calls == [
        ("task configs", "c", [{"x": "1"}], ("HmacSHA256", "c2lnbmVk"), b'[{"x": "1"}]')
    ]


def test_so_do_requests_to_fence(url: str, herder: InMemoryHerder) -> None:
    assert call(url, "PUT", f"{PATH}/fence", None, SIGNED).status == 204
    assert herder.calls == [("fence", "c", ("HmacSHA256", "c2lnbmVk"), b"")]


def test_workers_ask_for_partitions_here(url: str, herder: InMemoryHerder) -> None:
    herder.partitions = {2: [PartitionHealth("orders", 1, 7, 1500)]}
    answer = call(url, "GET", f"{PATH}/partitions", None, SIGNED)
    assert decode_partitions(answer.body) == {2: (PartitionHealth("orders", 1, 7, 1500),)}
    assert herder.calls == [("partitions", "c", ("HmacSHA256", "c2lnbmVk"))]


def test_who_does_not_lead_refuses_and_asks_nobody_else(url: str, herder: InMemoryHerder) -> None:
    herder.problems["put_task_configs"] = NotLeader("not I", "http://127.0.0.1:1/")
    answer = call(url, "POST", f"{PATH}/tasks", [], SIGNED)
    assert answer.error[0] == 409


def test_flows_that_are_not_here_are_named(url: str) -> None:
    answer = call(url, "POST", "/b/a/connectors/c/tasks", [], SIGNED)
    assert answer.error == (404, "No replication flow found for source 'b' and target 'a'")


def test_nothing_else_is_served(url: str) -> None:
    for path in ("/connectors", "/admin/loggers", "/a/to%20b/connectors"):
        assert call(url, "GET", path).status == 404


def test_flows_that_do_not_run_yet_say_so(server: MirrorRestServer) -> None:
    answer = call(server.reach.url.rstrip("/"), "POST", f"{PATH}/tasks", [], SIGNED)
    assert answer.error == (503, "Worker is still starting up.")


def test_it_is_reached_at_the_advertised_address(server: MirrorRestServer) -> None:
    assert server.reach.url == f"http://{server.reach.address}/"
    assert server.reach.address.startswith("127.0.0.1:")
