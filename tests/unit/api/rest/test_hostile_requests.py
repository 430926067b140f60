"""Requests that attack the listeners of workers and of dedicated mode. Routes and parameters are
those of the OpenAPI documents, so that none can be forgotten."""

from __future__ import annotations

import base64
import http.client
import logging
import socket
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import pytest

from api.dedicated.status_pages import create_app
from api.http_server import ApiServer
from api.rest import dependencies
from api.rest.config import allowed_hosts
from api.rest.middleware import SameSite
from tests.support.rest import call
from tests.support.ui.dashboard_group import broken_group, write_history
from tests.support.ui.shown_flows import ShownFlows
from tests.support.workers.in_memory_herder import InMemoryHerder
from tests.support.workers.standalone_rest import standalone_rest
from tests.unit.api.started import StartServer

AMPLE_S = 20.0
HOSTILE = (
    "1e9",
    "-9223372036854775809",
    "9" * 5_000,
    "nan",
    "2026-99-99",
    "\x00\r\nX-Evil: 1",
    "../../etc/passwd",
    "\udcff",
    "x" * 20_000,
)
ANSWERED = {*range(200, 300), *range(400, 500)}
BODIES = {"post": '{"name": "n", "config": {}}', "put": '{"connector.class": "C"}', "patch": "{}"}
Parameters = list[dict[str, Any]]


def hostile_paths(
    document: Mapping[str, Any], known: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    """(method, path) of each route with each parameter hostile, and the others as known."""
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            parameters: Parameters = operation.get("parameters", [])
            usual = {
                each["name"]: known.get(each["name"], "0")
                for each in parameters
                if each["in"] == "path"
            }
            for each in parameters:
                for value in HOSTILE:
                    text = quote(value, safe="", errors="surrogateescape")
                    if each["in"] == "path":
                        yield method, path.format(**{**usual, each["name"]: text})
                    else:
                        yield method, f"{path.format(**usual)}?{each['name']}={text}"


def assert_answered(url: str, paths: Iterator[tuple[str, str]]) -> int:
    """Every request gets a plain answer. Returns how many there were."""
    parts, asked = urlsplit(url), list(paths)
    kept = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=AMPLE_S)
    with closing(kept):
        for method, path in asked:
            headers = {"Content-Type": "application/json"}
            kept.request(method.upper(), path, BODIES.get(method), headers)
            answer = kept.getresponse()
            text = answer.read().decode()
            assert answer.status in ANSWERED, (method, path[:200], answer.status, text)
            assert answer.getheader("X-Evil") is None
    return len(asked)


@pytest.fixture
def flows() -> ShownFlows:
    return ShownFlows()


@pytest.fixture
def pages(flows: ShownFlows) -> Iterator[str]:
    """The URL of the pages of dedicated mode, as `connect-mirror-maker` serves them, with a list of
    hosts."""
    hosts = allowed_hosts(["mirror.example"], ["127.0.0.1"])
    with ApiServer(lambda: SameSite(create_app(flows), None, hosts), "http://127.0.0.1:0") as made:
        yield made.url


def test_a_worker_answers_hostile_parameters(start_server: StartServer, tmp_path: Path) -> None:
    write_history(tmp_path / "h.db", [("us", "hub")], hours=2)
    url = start_server(broken_group(tmp_path / "h.db"))
    document = call(url, "GET", "/openapi.json").json()
    known = {"flow": "us-%3Ehub", "topic": "orders", "connector": "us-hub"}
    assert assert_answered(url, hostile_paths(document, known)) > 400


def test_dedicated_mode_answers_hostile_parameters(pages: str, flows: ShownFlows) -> None:
    document = create_app(flows).openapi()
    known = {"flow": "a-%3Eb", "topic": "orders"}
    assert assert_answered(pages, hostile_paths(document, known)) > 100


def test_nobody_can_change_anything_on_the_pages_of_dedicated_mode(
    pages: str, flows: ShownFlows
) -> None:
    """They have no users, so each route must only read. Levels of loggers may be changed by this
    machine itself, and by no page of another site."""
    routes = create_app(flows).openapi()["paths"]
    assert {"/", "/metrics", "/health", "/mirrors", "/mirrors/{flow}/lag"} <= routes.keys()
    level = routes.pop("/admin/loggers/{logger}")
    assert set(level) == {"get", "put"}
    for headers in ({"Origin": "http://elsewhere"}, {"X-Forwarded-For": "10.0.0.1"}):
        sent = {"Content-Type": "application/json", **headers}
        assert call(pages, "PUT", "/admin/loggers/root", {"level": "INFO"}, sent).status == 403
    for path, methods in routes.items():
        assert set(methods) == {"get"}, path
        asked = path.replace("{", "").replace("}", "")
        for method in ("POST", "PUT", "PATCH", "DELETE"):
            assert call(pages, method, asked).status in (404, 405), (method, path)
    for path in ("/connectors", "/connectors/c/tasks", "/a/b/connectors/c/fence"):
        assert call(pages, "GET", path).status == 404, path


def test_the_list_of_hosts_holds_for_the_pages_of_dedicated_mode(pages: str) -> None:
    def get(host: str) -> int:
        return call(pages, "GET", "/mirrors", None, {"Host": host}).status

    assert get("evil.example") == 403
    assert [get(host) for host in ("Mirror.example:9404", "localhost", "10.0.0.1")] == [200] * 3


SERVERS = ("worker", "dedicated")


@pytest.fixture(params=SERVERS)
def either(request: pytest.FixtureRequest) -> str:
    """The URL of a worker, and of the pages of dedicated mode."""
    url: str = request.getfixturevalue("url" if request.param == "worker" else "pages")
    return url


def sent(url: str, request: bytes) -> bytes:
    """All that comes back until the server closes the connection."""
    parts = urlsplit(url)
    with socket.create_connection((parts.hostname, parts.port), timeout=AMPLE_S) as connection:
        connection.sendall(request)
        found = b""
        while part := connection.recv(65536):
            found += part
        return found


def test_a_second_request_cannot_hide_behind_two_lengths(either: str) -> None:
    """A proxy that goes by Content-Length takes what follows for the body of the first."""
    hidden = b"0\r\n\r\nGET /mirrors HTTP/1.1\r\nHost: localhost\r\n\r\n"
    head = b"POST /mirrors HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n"
    answers = sent(either, head + b"Content-Length: %d\r\n\r\n" % len(hidden) + hidden)
    assert answers.startswith(b"HTTP/1.1 400")
    assert answers.count(b"HTTP/1.1") == 1


WRONG = (
    b"GET / HTTP/1.1\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost : a\r\n\r\n",
    b"GET /\x00 HTTP/1.1\r\nHost: a\r\n\r\n",
    b"PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n{}",
    b"GET / HTTP/1.1\r\nHost: a\r\n" + b"".join(b"h%d: v\r\n" % n for n in range(9_000)),
)
UPGRADE = (
    b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade, close\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)


def test_wrong_requests_are_refused_and_fill_no_log(
    either: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        for request in WRONG:
            assert sent(either, request).startswith(b"HTTP/1.1 400"), request[:60]
        # There are no streams that a client could keep open.
        assert sent(either, UPGRADE).startswith(b"HTTP/1.1 200")
    assert not caplog.records


def test_the_method_is_that_of_the_request_line(herder: InMemoryHerder, url: str) -> None:
    herder.configs["c"] = {"name": "c"}
    for header in ("X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override"):
        assert call(url, "GET", "/connectors/c", None, {header: "DELETE"}).status == 200
    assert call(url, "GET", "/connectors/c?_method=DELETE").status == 200
    assert "c" in herder.configs


@pytest.fixture
def guarded(herder: InMemoryHerder, start_server: StartServer, tmp_path: Path) -> str:
    """A worker with one user, a viewer."""
    herder.configs["c"] = {"name": "c"}
    users, jaas = tmp_path / "users.properties", tmp_path / "jaas.conf"
    users.write_text("vera=canary\n")
    jaas.write_text(f'KafkaConnect {{ a.PropertyFileLoginModule required file="{users}"; }};')
    return start_server(
        herder,
        {
            "rest.extension.classes": "BasicAuthSecurityRestExtension",
            "java.security.auth.login.config": str(jaas),
            "rest.users.viewers": "vera",
        },
    )


WAYS_AROUND = (
    ("DELETE", "/connectors/c/tasks"),
    ("PUT", "/connectors/c/tasks"),
    ("PATCH", "/connectors/c/tasks"),
    ("POST", "/connectors/c/fence"),
    ("POST", "/connectors/c/tasks/0/restart"),
    ("POST", "/connectors/c/tasks/../restart"),
    ("POST", "/connectors/c/restart?x=/connectors/c/tasks"),
    ("POST", "/connectors/c/restart;/tasks"),
    ("POST", "/connectors/c/restart%00/tasks"),
    ("POST", "/connectors/c%2Ftasks"),
    ("POST", "/connectors/c%2Frestart%3F/tasks"),
    ("POST", "//connectors/c/tasks/.."),
    ("POST", "/Connectors/c/tasks"),
    ("POST", "/connectors/c/restart#/tasks"),
    ("PUT", "/connectors/c%2Fpause/fence"),
    ("PUT", "/connectors/c/pause?/fence"),
    ("PUT", "/connectors/c/config/fence/../"),
    ("DELETE", "/connectors/c/partitions"),
    ("GET", "/connectors/c/partitions/../config"),
)


@pytest.mark.parametrize("user", [None, "vera"])
def test_the_routes_that_need_no_user_lead_to_no_others(
    herder: InMemoryHerder, guarded: str, user: str | None
) -> None:
    """Workers sign their requests instead; whatever looks like one of these is no way around a
    login or a role."""
    headers = {}
    if user is not None:
        token = base64.b64encode(f"{user}:canary".encode()).decode()
        headers["Authorization"] = f"Basic {token}"
    for method, path in WAYS_AROUND:
        answer = call(guarded, method, path, None, headers)
        assert answer.status in (400, 401, 403, 404, 405), (method, path, answer.status)
    assert herder.calls == []
    assert herder.configs == {"c": {"name": "c"}}


def test_bodies_of_requests_without_a_user_have_a_limit_together(
    monkeypatch: pytest.MonkeyPatch, herder: InMemoryHerder, guarded: str
) -> None:
    """A worker's request needs no user, and its signature is checked once the body is there."""
    monkeypatch.setattr(dependencies, "_others", dependencies._Room(1_000))
    head = b"POST /connectors/c/tasks HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    parts = urlsplit(guarded)

    def status() -> int:
        return call(guarded, "POST", "/connectors/c/tasks", [{}]).status

    assert status() == 204
    with ExitStack() as stack:
        kept = socket.create_connection((parts.hostname, parts.port), timeout=AMPLE_S)
        stack.enter_context(kept)
        kept.sendall(head + b"Content-Length: 1001\r\n\r\n" + b" " * 1_001)
        assert kept.recv(65536).startswith(b"HTTP/1.1 503")
    assert status() == 204, "what the first took is given back"


@pytest.mark.parametrize("name", ["a%0AINFO%20forged", "a%1B%5B2J", "a" * 251])
def test_a_logger_whose_name_cannot_be_printed_is_refused(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    with standalone_rest() as url, caplog.at_level(logging.INFO):
        code, message = call(url, "PUT", f"/admin/loggers/{name}", {"level": "DEBUG"}).error
        kept = call(url, "GET", "/admin/loggers").json()
    assert (code, message) == (
        400,
        "A logger's name must be printable and at most 250 characters long",
    )
    assert not [each for each in kept if each.startswith("a\n") or "\x1b" in each]
    assert "\nINFO forged" not in caplog.text
