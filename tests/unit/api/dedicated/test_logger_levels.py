"""Levels of loggers over the listener of a mirror in dedicated mode, over real HTTP."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping
from http.client import HTTPConnection
from typing import Any

import pytest

from api.dedicated.logger_levels import is_from_here
from api.http_server import ApiServer
from tests.support.ui.shown_flows import ShownFlows

TIMEOUT_S = 30.0
NAME = "connectors.mirror.test_logger_levels"
PATH = f"/admin/loggers/{NAME}"


@pytest.fixture
def server() -> Iterator[ApiServer]:
    logger = logging.getLogger(NAME)
    with ApiServer(ShownFlows().app, "http://127.0.0.1:0") as server:
        yield server
    logger.setLevel(logging.NOTSET)


def ask(
    server: ApiServer,
    method: str,
    path: str,
    body: object = None,
    headers: Mapping[str, str] | None = None,
) -> tuple[int, Any]:
    connection = HTTPConnection("127.0.0.1", server.port, timeout=TIMEOUT_S)
    try:
        sent = {"Content-Type": "application/json", **(headers or {})}
        connection.request(method, path, None if body is None else json.dumps(body), sent)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


def test_a_level_that_is_set_is_in_force_and_shown(server: ApiServer) -> None:
    assert ask(server, "PUT", PATH, {"level": "debug"}) == (200, [NAME])
    assert logging.getLogger(NAME).isEnabledFor(logging.DEBUG)
    status, shown = ask(server, "GET", PATH)
    assert (status, shown["level"]) == (200, "DEBUG")
    status, every = ask(server, "GET", "/admin/loggers")
    assert (status, every[NAME]["level"]) == (200, "DEBUG")
    assert {"root", NAME} <= every.keys()


@pytest.mark.parametrize("name", ["kafka", "py4j", "uvicorn"])
def test_libraries_that_log_passwords_stay_quiet(server: ApiServer, name: str) -> None:
    assert ask(server, "PUT", f"/admin/loggers/{name}", {"level": "TRACE"})[0] == 200
    assert not logging.getLogger(name).isEnabledFor(logging.INFO)


@pytest.mark.parametrize("header", ["X-Forwarded-For", "Forwarded", "X-Real-IP"])
def test_nobody_changes_a_level_through_a_proxy(server: ApiServer, header: str) -> None:
    refused = ask(server, "PUT", PATH, {"level": "DEBUG"}, {header: "192.0.2.7"})
    assert refused[0] == 403
    assert "only on the machine of the mirror" in refused[1]["message"]
    assert not logging.getLogger(NAME).isEnabledFor(logging.DEBUG)


@pytest.mark.parametrize(
    ("address", "here"),
    [
        ("127.0.0.9", True),
        ("::1", True),
        ("::ffff:127.0.0.1", True),
        ("192.0.2.7", False),
        ("2001:db8::1", False),
        ("::ffff:192.0.2.7", False),
        ("unix", False),
        (None, False),
    ],
)
def test_only_a_loopback_address_is_the_machine_itself(address: str | None, here: bool) -> None:
    assert is_from_here(address, {}) == here


@pytest.mark.parametrize(
    ("path", "body", "status", "words"),
    [
        (PATH, {"level": "loud"}, 404, "invalid log level 'loud'"),
        (PATH, {}, 400, "'level'"),
        (f"{PATH}?scope=cluster", {"level": "DEBUG"}, 400, "ask each process"),
    ],
)
def test_what_is_wrong_is_said(
    server: ApiServer, path: str, body: object, status: int, words: str
) -> None:
    answer = ask(server, "PUT", path, body)
    assert answer[0] == status
    assert words in answer[1]["message"]


def test_a_logger_that_is_not_there_is_404(server: ApiServer) -> None:
    assert ask(server, "GET", "/admin/loggers/no.such.logger")[0] == 404
