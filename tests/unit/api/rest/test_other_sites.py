"""Pages of other sites cannot make a browser change anything; other clients notice nothing."""

from __future__ import annotations

import pytest

from tests.support.in_memory_herder import InMemoryHerder
from tests.support.rest import call
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
        {"Origin": "http://Worker:8083", "Host": "worker:8083"},
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
