"""A worker that may not answer asks another: two servers, over real HTTP."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest

from connect.runtime.errors import NotAssigned, NotLeader
from connect.runtime.states import TargetState
from tests.support.rest import call
from tests.support.workers.in_memory_herder import InMemoryHerder
from tests.unit.api.started import StartServer

CLASS = {"connector.class": "Table"}


@dataclass
class Peer:
    """A worker that answers everything with `status` and `body`, and keeps what it was asked."""

    url: str
    status: int = 204
    body: bytes = b""
    asked: list[tuple[str, str, bytes, dict[str, str]]] = field(default_factory=list)


@pytest.fixture
def peer() -> Iterator[Peer]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def _answer(self) -> None:
            size = int(self.headers.get("content-length", 0))
            headers = {name.lower(): value for name, value in self.headers.items()}
            found.asked.append((self.command, self.path, self.rfile.read(size), headers))
            self.send_response(found.status)
            self.send_header("Location", "http://elsewhere/")
            self.send_header("Content-Length", str(len(found.body)))
            self.end_headers()
            self.wfile.write(found.body)

        do_GET = do_PUT = do_POST = do_PATCH = do_DELETE = _answer

        def log_message(self, format: str, *args: object) -> None:
            """Nobody reads it."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        found = Peer(f"http://127.0.0.1:{server.server_address[1]}/")
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield found
        server.shutdown()
        thread.join(10)


def follower(herder: InMemoryHerder, leader: str | None) -> None:
    """Let the herder know of a connector `c` and refuse all that only the leader may do."""
    herder.configs["c"] = dict(CLASS)
    herder.targets["c"] = TargetState.STARTED
    for name in (
        "put_connector_config", "patch_connector_config", "delete_connector", "stop_connector",
        "restart_connector_and_tasks", "alter_offsets", "reset_offsets", "put_task_configs",
        "fence_zombies",
    ):  # fmt: skip
        herder.problems[name] = NotLeader("Only the leader can do this", leader)
    for name in ("restart_connector", "restart_task"):
        herder.problems[name] = NotAssigned("Not assigned here", leader)


def test_a_connector_is_created_through_a_follower(
    herder: InMemoryHerder, url: str, start_server: StartServer
) -> None:
    leader = InMemoryHerder()
    leader_url = start_server(leader)
    follower(herder, leader_url)

    body = {"name": " d ", "config": CLASS, "initial_state": "paused"}
    answer = call(url, "POST", "/connectors", body)

    assert answer.status == 201
    assert answer.headers["location"] == f"{url}connectors/d"
    assert answer.json()["name"] == "d"
    assert leader.calls == [("put", "d", {**CLASS, "name": "d"}, TargetState.PAUSED)]
    again = call(url, "POST", "/connectors", body)
    assert again.error == (409, "Connector d already exists")
    changed = call(url, "PUT", "/connectors/d/config", {**CLASS, "a": 1})
    assert (changed.status, "location" in changed.headers) == (200, False)


Ask = tuple[str, str, object, str, bytes]


@pytest.mark.parametrize(
    ("method", "path", "body", "sent_path", "sent_body"),
    [
        (
            "POST", "/connectors/", {"name": "d", "config": CLASS}, "/connectors?forward=true",
            b'{"name":"d","config":{"connector.class":"Table","name":"d"},"initial_state":null}',
        ),
        (
            "PUT", "/connectors/x%20y/config", CLASS, "/connectors/x%20y/config?forward=true",
            b'{"connector.class":"Table","name":"x y"}',
        ),
        (
            "PATCH", "/connectors/c/config", {"a": None, "b": 1},
            "/connectors/c/config?forward=true", b'{"a":null,"b":"1"}',
        ),
        ("DELETE", "/connectors/c", None, "/connectors/c?forward=true", b""),
        ("PUT", "/connectors/c/stop", None, "/connectors/c/stop?forward=true", b""),
        ("POST", "/connectors/c/restart", None, "/connectors/c/restart?forward=true", b""),
        (
            "POST", "/connectors/c/restart?includeTasks=true", None,
            "/connectors/c/restart?forward=true&includeTasks=true&onlyFailed=false", b"",
        ),
        (
            "POST", "/connectors/c/tasks/3/restart", None,
            "/connectors/c/tasks/3/restart?forward=true", b"",
        ),
        (
            "PATCH", "/connectors/c/offsets", b'{"offsets":[{"partition":{},"offset":null}]}',
            "/connectors/c/offsets?forward=true", b'{"offsets":[{"partition":{},"offset":null}]}',
        ),
        ("DELETE", "/connectors/c/offsets", None, "/connectors/c/offsets?forward=true", b""),
        (
            "POST", "/connectors/c/tasks", b'[{"a":"b"}]', "/connectors/c/tasks?forward=true",
            b'[{"a":"b"}]',
        ),
        ("PUT", "/connectors/c/fence", None, "/connectors/c/fence?forward=true", b""),
    ],
)  # fmt: skip
def test_what_is_forwarded(
    herder: InMemoryHerder,
    url: str,
    peer: Peer,
    method: str,
    path: str,
    body: object,
    sent_path: str,
    sent_body: bytes,
) -> None:
    follower(herder, peer.url)

    assert call(url, method, path, body).status == 204
    (asked,) = peer.asked
    assert asked[:3] == (method, sent_path, sent_body)
    if sent_body:
        assert asked[3]["content-type"] == "application/json"


def test_only_authorization_goes_along(herder: InMemoryHerder, url: str, peer: Peer) -> None:
    follower(herder, peer.url)
    headers = {"Authorization": "Basic eA==", "X-Connect-Authorization": "y", "Cookie": "z"}

    call(url, "POST", "/connectors/c/tasks", b"[]", {**headers, "Content-Type": "application/json"})

    sent = peer.asked[0][3]
    assert sent["authorization"] == "Basic eA=="
    assert not {"x-connect-authorization", "cookie"} & set(sent)


@pytest.mark.parametrize(
    ("forward", "passed_on"),
    [("", "true"), ("?forward=true", "false"), ("?forward=TRUE", "false")],
)
def test_a_request_makes_two_hops(
    herder: InMemoryHerder, url: str, peer: Peer, forward: str, passed_on: str
) -> None:
    follower(herder, peer.url)

    assert call(url, "DELETE", f"/connectors/c{forward}").status == 204
    assert peer.asked[0][1] == f"/connectors/c?forward={passed_on}"


@pytest.mark.parametrize("forward", ["false", "no", ""])
def test_and_not_a_third(herder: InMemoryHerder, url: str, peer: Peer, forward: str) -> None:
    follower(herder, peer.url)

    text = "Cannot complete request because of a conflicting operation (e.g. worker rebalance)"
    assert call(url, "DELETE", f"/connectors/c?forward={forward}").error == (409, text)
    assert peer.asked == []


def test_without_a_leader(herder: InMemoryHerder, url: str) -> None:
    follower(herder, None)

    code, message = call(url, "DELETE", "/connectors/c").error
    assert code == 409
    assert message == (
        "Cannot complete request momentarily due to no known leader URL, likely because a "
        "rebalance was underway."
    )


@pytest.mark.parametrize(
    ("status", "body", "error"),
    [
        (404, b'{"error_code":404,"message":"Connector c not found"}',
         (404, "Connector c not found")),
        (401, b'{"error_code":401,"message":"no"}', (401, "no")),
        (302, b"", (500, "Unexpected status code when handling forwarded request: 302")),
    ],
)  # fmt: skip
def test_failures_are_relayed(
    herder: InMemoryHerder,
    url: str,
    peer: Peer,
    status: int,
    body: bytes,
    error: tuple[int, str],
) -> None:
    follower(herder, peer.url)
    peer.status, peer.body = status, body

    assert call(url, "DELETE", "/connectors/c").error == error


@pytest.mark.parametrize(("status", "body"), [(502, b"<html>"), (200, b""), (200, b"<html>")])
def test_an_answer_that_is_not_a_workers(
    herder: InMemoryHerder, url: str, peer: Peer, status: int, body: bytes
) -> None:
    follower(herder, peer.url)
    peer.status, peer.body = status, body

    code, message = call(url, "DELETE", "/connectors/c").error
    assert code == 500
    assert message.startswith("IO Error trying to forward REST request: ")


def test_a_worker_that_is_gone(herder: InMemoryHerder, url: str, free_url: str) -> None:
    follower(herder, free_url)

    code, message = call(url, "DELETE", "/connectors/c").error
    assert code == 500
    assert message.startswith("IO Error trying to forward REST request: DELETE http://127.0.0.1:")


@pytest.fixture
def free_url(unused_port: Callable[[], int]) -> str:
    return f"http://127.0.0.1:{unused_port()}/"


@pytest.fixture
def unused_port() -> Callable[[], int]:
    def find() -> int:
        with http.server.HTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler) as server:
            return int(server.server_address[1])

    return find
