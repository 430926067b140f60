"""Listeners, the advertised URL, and the headers that answers get."""

from __future__ import annotations

import pytest

from api.rest.config import AnswerHeader, Listener, RestConfig, parse_answer_headers, parse_listener
from api.rest.server import RestServer
from connect.errors import ConfigError
from connect.metrics.registry import MetricRegistry
from tests.support.rest import call
from tests.support.workers.in_memory_herder import InMemoryHerder
from tests.unit.api.started import LISTENER, StartServer


@pytest.mark.parametrize(
    ("text", "listener"),
    [
        ("http://:8083", Listener("http", "", 8083)),
        (" HTTPS://host_1.example-2:1 ", Listener("https", "host_1.example-2", 1)),
        ("http://[::1%eth0]:0", Listener("http", "::1%eth0", 0)),
    ],
)
def test_listeners(text: str, listener: Listener) -> None:
    assert parse_listener(text) == listener


@pytest.mark.parametrize(
    "text",
    ["", "localhost:1", "ftp://h:1", "http://h", "http://h:65536", "http://h:-1", "http://h h:1"],
)
def test_listeners_that_are_none(text: str) -> None:
    with pytest.raises(ConfigError, match=r"configuration admin\.listeners"):
        parse_listener(text, "admin.listeners")


TWO = {"listeners": "https://h1:1, http://h2:0"}


@pytest.mark.parametrize(
    ("props", "url"),
    [
        ({}, ("http", "10.0.0.1", 8083)),
        ({"listeners": "http://0.0.0.0:1"}, ("http", "0.0.0.0", 1)),
        (TWO, ("http", "h2", 4711)),
        ({**TWO, "rest.advertised.listener": "HTTPS"}, ("https", "h1", 1)),
        ({"listeners": "https://h1:1"}, ("https", "h1", 1)),
        ({**TWO, "rest.advertised.host.name": "h3"}, ("http", "h3", 4711)),
        ({**TWO, "rest.advertised.port": "5"}, ("http", "h2", 5)),
        ({**TWO, "rest.advertised.host.name": ""}, ("http", "h2", 4711)),
        (
            {"rest.advertised.listener": "https", "rest.advertised.host.name": "h"},
            ("https", "h", 8083),
        ),
    ],
)
def test_what_other_workers_are_told(props: dict[str, str], url: tuple[str, str, int]) -> None:
    config = RestConfig.from_properties(props)
    bound = {listener: listener.port or 4711 for listener in config.listeners}

    assert config.advertised(bound, "10.0.0.1") == url


def test_admin_listeners_there_elsewhere_and_nowhere() -> None:
    assert RestConfig.from_properties({}).admin_listeners is None
    assert RestConfig.from_properties({"admin.listeners": ""}).admin_listeners == ()
    elsewhere = RestConfig.from_properties({"admin.listeners": "http://h:1"}).admin_listeners
    assert elsewhere == (Listener("http", "h", 1),)


def test_tls_properties_with_a_prefix_replace_the_workers_own() -> None:
    props = {"ssl.key.password": "a", "ssl.protocol": "TLS", "listeners.https.ssl.protocol": "X"}
    config = RestConfig.from_properties(props)

    assert config.tls == {"ssl.protocol": "X"}
    assert config.admin_tls == {"ssl.key.password": "a", "ssl.protocol": "TLS"}


def test_headers_of_answers() -> None:
    text = 'set X-Frame-Options: DENY, "add Cache-Control: no-cache, no-store",ADDDATE Expires:5'

    assert parse_answer_headers(text) == (
        AnswerHeader("X-Frame-Options", "DENY", replaces=True, is_date=False),
        AnswerHeader("Cache-Control", "no-cache, no-store", replaces=False, is_date=False),
        AnswerHeader("Expires", "5", replaces=False, is_date=True),
    )
    assert parse_answer_headers("") == ()


@pytest.mark.parametrize(
    "text",
    ["put A: b", "set A b", "set A : b : c d, x", "setDate A: tomorrow", '"set A: b', "set: b"],
)
def test_headers_that_are_none(text: str) -> None:
    with pytest.raises(ConfigError, match=r"response\.http\.headers\.config"):
        parse_answer_headers(text)


@pytest.mark.parametrize(
    ("props", "key"),
    [
        ({"rest.advertised.listener": "ftp"}, "rest.advertised.listener"),
        ({"rest.advertised.port": "x"}, "rest.advertised.port"),
        ({"access.control.allow.origin": "http://(x"}, "access.control.allow.origin"),
        ({"listeners": ""}, "listeners"),
    ],
)
def test_wrong_values_name_their_key(props: dict[str, str], key: str) -> None:
    with pytest.raises(ConfigError, match=f"onfiguration '?{key}"):
        RestConfig.from_properties(props)


# At work.


def test_every_answer_gets_the_headers(herder: InMemoryHerder, start_server: StartServer) -> None:
    headers = "set Vary: x, add Cache-Control: no-cache, setDate Expires: 3600000"
    url = start_server(herder, {"response.http.headers.config": headers})

    for path in ("/connectors", "/nothing"):
        found = call(url, "GET", path).headers
        assert (found["vary"], found["cache-control"]) == ("x", "no-cache")
        assert found["expires"].endswith("GMT")


def test_admin_resources_on_a_listener_of_their_own(
    herder: InMemoryHerder, start_server: StartServer
) -> None:
    nowhere = start_server(herder, {"admin.listeners": ""})
    assert call(nowhere, "GET", "/admin/loggers").error[0] == 404

    server = RestServer({**LISTENER, "admin.listeners": "http://127.0.0.1:0"}, MetricRegistry(), {})
    try:
        server.bind()
        server.start()
        server.herder_started(herder)
        main, admin = server.urls
        assert call(main, "GET", "/admin/loggers").error[0] == 404
        assert call(admin, "GET", "/admin/loggers/root").status == 200
        assert call(admin, "GET", "/connectors").error[0] == 404
    finally:
        server.stop()


def test_cross_origin_requests(herder: InMemoryHerder, start_server: StartServer) -> None:
    url = start_server(
        herder,
        {
            "access.control.allow.origin": r"http://a, https://.*\.b\.org",
            "access.control.allow.methods": "GET,put",
        },
    )
    preflight = {"Origin": "https://x.b.org", "Access-Control-Request-Method": "PUT"}

    answer = call(url, "OPTIONS", "/connectors/c/config", headers=preflight)
    assert (answer.status, answer.body) == (200, b"")
    assert answer.headers["access-control-allow-origin"] == "https://x.b.org"
    assert answer.headers["access-control-allow-methods"] == "GET,PUT"
    assert answer.headers["access-control-allow-headers"] == "Content-Type"
    assert answer.headers["access-control-max-age"] == "60"
    assert answer.headers["vary"] == "Origin"

    simple = call(url, "GET", "/connectors", headers={"Origin": "HTTP://A"})
    assert simple.headers["access-control-allow-origin"] == "HTTP://A"
    other = call(url, "GET", "/connectors", headers={"Origin": "https://b.org"})
    assert other.status == 200
    assert "access-control-allow-origin" not in other.headers
    assert other.headers["vary"] == "Origin"


def test_without_cors_there_are_no_headers_of_it(url: str) -> None:
    answer = call(url, "GET", "/connectors", headers={"Origin": "http://a"})

    assert not {"vary", "access-control-allow-origin"} & set(answer.headers)
