"""Pages of other sites cannot make a browser change anything; other clients notice nothing."""

from __future__ import annotations

import pytest

from tests.support.rest import call
from tests.support.workers.in_memory_herder import InMemoryHerder
from tests.unit.api.started import StartServer

RESTART = "/connectors/c/restart"


@pytest.fixture
def c(herder: InMemoryHerder, url: str) -> str:
    herder.configs["c"] = {"name": "c"}
    return url


def restart(url: str, headers: dict[str, str]) -> int:
    return call(url, "POST", RESTART, None, headers).status


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
def test_a_page_of_another_site_is_refused(
    herder: InMemoryHerder, c: str, headers: dict[str, str]
) -> None:
    assert restart(c, headers) == 403
    assert call(c, "DELETE", "/connectors/c", None, headers).status == 403
    assert herder.calls == []
    assert call(c, "GET", "/connectors", None, headers).status == 200


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Sec-Fetch-Site": "same-origin", "Origin": "https://renamed.by.a.proxy"},
        {"Sec-Fetch-Site": "none"},
        {"Origin": "https://ui.example", "X-Forwarded-Host": "ui.example"},
        {"Origin": "http://LocalHost:8083", "Host": "localhost:8083"},
    ],
)
def test_clients_and_the_workers_own_site_pass(c: str, headers: dict[str, str]) -> None:
    assert restart(c, headers) == 204


def test_sites_that_the_worker_allows_pass(
    herder: InMemoryHerder, start_server: StartServer
) -> None:
    herder.configs["c"] = {"name": "c"}
    url = start_server(herder, {"access.control.allow.origin": "https://ui.example"})
    browser = {"Origin": "https://ui.example", "Sec-Fetch-Site": "cross-site"}
    assert restart(url, browser) == 204
    assert restart(url, {**browser, "Origin": "https://evil.example"}) == 403


REBOUND = {"Host": "evil.example:8083", "Origin": "http://evil.example:8083"}
"""A page whose name was made to resolve to the worker's address after it was loaded."""


def test_a_page_that_took_the_workers_address_is_refused(herder: InMemoryHerder, c: str) -> None:
    answer = call(c, "POST", RESTART, None, REBOUND)
    assert answer.status == 403
    assert "rest.allowed.hosts" in answer.error[1]
    assert herder.calls == []
    # A program may call the worker by any name: no browser sends a request without an origin.
    assert restart(c, {"Host": "connect.svc:8083"}) == 204


def test_the_operators_list_of_hosts_holds_for_every_request(
    herder: InMemoryHerder, start_server: StartServer
) -> None:
    herder.configs["c"] = {"name": "c"}
    url = start_server(herder, {"rest.allowed.hosts": "Connect.example"})

    def get(host: str) -> int:
        return call(url, "GET", "/connectors", None, {"Host": host}).status

    assert get("evil.example") == 403
    assert [get(host) for host in ("connect.example:1", "localhost", "10.0.0.1", "[::1]:8083")] == [
        200
    ] * 4
    assert restart(url, {"Host": "connect.example", "Origin": "http://connect.example"}) == 204
