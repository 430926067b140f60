"""Clients that are silent, slow or too many keep nobody else from the server."""

from __future__ import annotations

import http.client
import logging
import socket
import time
from contextlib import ExitStack, closing
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from api.http_protocol import BoundedLoop, BoundedProtocol
from connect.runtime.errors import Forbidden
from tests.support.rest import call
from tests.support.security.certificates import Authority
from tests.support.waiting import wait_until
from tests.support.workers.in_memory_herder import InMemoryHerder
from tests.unit.api.started import StartServer

AMPLE_S = 20.0
HALF = b"PUT /connectors/c/config HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"


def connect(url: str, sent: bytes = b"") -> socket.socket:
    parts = urlsplit(url)
    made = socket.create_connection((parts.hostname, parts.port), timeout=AMPLE_S)
    made.sendall(sent)
    return made


def ended(connection: socket.socket) -> bool:
    """Whether the server closes it within ample time."""
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


@pytest.mark.parametrize("sent", [b"", b"GET /conn", HALF, HALF + b"Content-Length: 100\r\n\r\n{"])
def test_a_request_that_does_not_arrive_ends_its_connection(
    monkeypatch: pytest.MonkeyPatch, herder: InMemoryHerder, start_server: StartServer, sent: bytes
) -> None:
    monkeypatch.setattr(BoundedProtocol, "request_s", 0.2)
    with connect(start_server(herder), sent) as connection:
        assert ended(connection)


def test_a_client_that_goes_away_fills_no_log(
    herder: InMemoryHerder, start_server: StartServer, caplog: pytest.LogCaptureFixture
) -> None:
    """It was a traceback of eighty lines for each."""
    caplog.set_level(logging.INFO)
    with connect(start_server(herder), HALF + b"Content-Length: 100\r\n\r\n{"):
        pass
    audited = "PUT /connectors/c/config: 400"
    wait_until(lambda: audited in caplog.text, AMPLE_S, "the end of the request")
    assert "Traceback" not in caplog.text


def test_an_answer_may_take_longer_than_its_request(
    monkeypatch: pytest.MonkeyPatch, herder: InMemoryHerder, start_server: StartServer
) -> None:
    """A connection stays for the next request, whose time begins with its first byte."""
    monkeypatch.setattr(BoundedProtocol, "request_s", 0.2)
    url = start_server(herder)
    parts = urlsplit(url)
    kept = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=AMPLE_S)
    with closing(kept):
        for _ in range(2):
            kept.request("GET", "/connectors")
            socket_of_both = kept.sock
            assert kept.getresponse().read() == b"[]"
            with connect(url) as other:
                assert ended(other)
        assert kept.sock is socket_of_both, "the connection was kept"


def test_five_hundred_silent_connections_keep_nobody_out(
    herder: InMemoryHerder, start_server: StartServer
) -> None:
    url = start_server(herder)
    with ExitStack() as stack:
        for _ in range(500):
            stack.enter_context(connect(url))
        # The server is in this process. Behind the silent connections the call would time out.
        began = time.process_time()
        assert call(url, "GET", "/health").status == 200
        assert time.process_time() - began < 1.0


def test_a_tls_handshake_that_does_not_end_ends_its_connection(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    herder: InMemoryHerder,
    start_server: StartServer,
) -> None:
    monkeypatch.setattr(BoundedLoop, "handshake_s", 0.5)
    authority, path = Authority(), tmp_path / "server.pem"
    path.write_text("".join(authority.issue("worker", "127.0.0.1")))
    url = start_server(
        herder,
        {
            "listeners": "https://127.0.0.1:0",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(path),
        },
    )
    with ExitStack() as stack:
        silent = [stack.enter_context(connect(url)) for _ in range(20)]
        health = call(url, "GET", "/health", tls=authority.client_context())
        assert health.status == 200
        assert all(ended(each) for each in silent)


def test_the_connection_that_waits_longest_makes_room(
    monkeypatch: pytest.MonkeyPatch, herder: InMemoryHerder, start_server: StartServer
) -> None:
    monkeypatch.setattr(BoundedProtocol, "most_connections", 3)
    url = start_server(herder)
    with ExitStack() as stack:
        first, *_ = [stack.enter_context(connect(url)) for _ in range(3)]
        assert call(url, "GET", "/health").status == 200
        assert ended(first)


def test_a_body_has_a_limit(herder: InMemoryHerder, start_server: StartServer) -> None:
    with connect(start_server(herder), HALF + b"Content-Length: 9000000\r\n\r\n") as connection:
        assert connection.recv(65536).startswith(b"HTTP/1.1 413")
    assert herder.calls == []


def test_a_body_with_a_wrong_signature_is_not_parsed(
    herder: InMemoryHerder, start_server: StartServer
) -> None:
    herder.problems["put_task_configs"] = Forbidden("wrong signature")
    headers = {"Content-Type": "application/json", "X-Connect-Authorization": "bWFj"}
    answer = call(start_server(herder), "POST", "/connectors/c/tasks", b"{no JSON", headers)
    assert answer.error == (403, "wrong signature")
