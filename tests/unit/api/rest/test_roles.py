"""What each role may do on every route, and the log of who changed what."""

from __future__ import annotations

import base64
import json
import logging
import sqlite3
import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from api.rest.server import RestServer
from connect.errors import ConfigError
from connect.metrics.registry import MetricRegistry
from tests.support.rest import Answer, call
from tests.support.security.certificates import Authority
from tests.support.security.user_tokens import Issuer
from tests.support.workers.in_memory_herder import InMemoryHerder
from tests.unit.api.started import LISTENER, StartServer

USERS = ("vera", "olaf", "anna")
VIEWER, OPERATOR, ADMIN = USERS
# Whoever may not change anything may use these all the same.
READS = {("put", "/connector-plugins/{plugin}/config/validate")}
OPERATIONS = {
    ("put", "/connectors/{connector}/pause"),
    ("put", "/connectors/{connector}/resume"),
    ("put", "/connectors/{connector}/stop"),
    ("put", "/connectors/{connector}/topics/reset"),
    ("post", "/connectors/{connector}/restart"),
    ("post", "/connectors/{connector}/tasks/{task}/restart"),
}


@pytest.fixture
def props(tmp_path: Path) -> dict[str, str]:
    users = tmp_path / "users.properties"
    users.write_text("".join(f"{user}={user}-canary\n" for user in USERS))
    jaas = tmp_path / "jaas.conf"
    jaas.write_text(f'KafkaConnect {{ a.PropertyFileLoginModule required file="{users}"; }};')
    return {
        "rest.extension.classes": "BasicAuthSecurityRestExtension",
        "java.security.auth.login.config": str(jaas),
        "rest.users.viewers": VIEWER,
        "rest.users.operators": OPERATOR,
    }


def credentials(user: str) -> dict[str, str]:
    pair = base64.b64encode(f"{user}:{user}-canary".encode()).decode()
    return {"Authorization": f"Basic {pair}"}


@dataclass(frozen=True, slots=True)
class Login:
    """A way to log in: the worker's properties, and what a user sends. User None: nobody."""

    props: Mapping[str, str]
    headers: Callable[[str | None], Mapping[str, str]]
    tls: Callable[[str | None], ssl.SSLContext | None] = lambda _: None


def passwords(props: Mapping[str, str]) -> Login:
    return Login(props, lambda user: {} if user is None else credentials(user))


def certificates(directory: Path) -> Login:
    authority = Authority()
    (directory / "server.pem").write_text("".join(authority.issue("worker", "127.0.0.1")))
    (directory / "ca.pem").write_text(authority.pem)
    for user in USERS:
        (directory / f"{user}.pem").write_text("".join(authority.issue(user)))
    props = {
        "listeners": "https://127.0.0.1:0",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(directory / "server.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(directory / "ca.pem"),
        "ssl.client.auth": "requested",
        "rest.ssl.principal.mapping.rules": "RULE:CN=(.*)/$1/",
        "rest.users.viewers": VIEWER,
        "rest.users.operators": OPERATOR,
        "rest.users.admins": ADMIN,
    }

    def tls(user: str | None) -> ssl.SSLContext:
        return authority.client_context(None if user is None else directory / f"{user}.pem")

    return Login(props, lambda _: {}, tls)


def tokens(issuer: Issuer) -> Login:
    roles = {VIEWER: "connect-viewer", OPERATOR: "connect-operator", ADMIN: "connect-admin"}

    def headers(user: str | None) -> dict[str, str]:
        if user is None:
            return {}
        return {"Authorization": f"Bearer {issuer.token((roles[user],), sub=user)}"}

    return Login(issuer.props, headers)


@pytest.fixture(params=["passwords", "certificates", "tokens"])
def login(request: pytest.FixtureRequest, props: dict[str, str], tmp_path: Path) -> Iterator[Login]:
    if request.param == "passwords":
        yield passwords(props)
    elif request.param == "certificates":
        yield certificates(tmp_path)
    else:
        with Issuer() as issuer:
            yield tokens(issuer)


def test_every_route_admits_its_roles_and_no_others(
    herder: InMemoryHerder, start_server: StartServer, login: Login
) -> None:
    """The routes are those of the OpenAPI document, so that none can be forgotten."""
    url = start_server(herder, login.props)

    def ask(user: str | None, method: str, path: str) -> Answer:
        return call(url, method.upper(), path, None, login.headers(user), login.tls(user))

    document = ask(VIEWER, "get", "/openapi.json").json()
    routes = {(method, path) for path, found in document["paths"].items() for method in found}
    assert routes >= READS | OPERATIONS
    for method, path in sorted(routes):
        readable = method == "get" or (method, path) in READS
        allowed = {
            VIEWER: readable,
            OPERATOR: readable or (method, path) in OPERATIONS,
            ADMIN: True,
        }
        asked = path.replace("{task}", "0").replace("{", "").replace("}", "")
        for user, may in allowed.items():
            status = ask(user, method, asked).status
            assert status != 401, (user, method, path)
            assert (status != 403) == may, (user, method, path)
        assert ask(None, method, asked).status == 401


def test_a_refusal_names_the_role_that_is_needed(
    herder: InMemoryHerder, start_server: StartServer, props: dict[str, str]
) -> None:
    url = start_server(herder, props)
    answer = call(url, "DELETE", "/connectors/c", None, credentials(OPERATOR))
    assert answer.error == (403, "User olaf has the role operator; this needs the role admin")
    assert herder.calls == []


@pytest.mark.parametrize(
    ("changed", "word"),
    [
        ({"rest.users.viewers": "nobody"}, "no such user"),
        ({"rest.users.operators": f"{OPERATOR},{VIEWER}"}, "rest.users.viewers names this user"),
    ],
)
def test_wrong_roles_prevent_the_start(
    herder: InMemoryHerder,
    start_server: StartServer,
    props: dict[str, str],
    changed: dict[str, str],
    word: str,
) -> None:
    with pytest.raises(ConfigError, match=word):
        start_server(herder, {**props, **changed})


@pytest.mark.parametrize(
    "path",
    ["/connectors/c", "/connectors/c/config", "/connectors/c/tasks", "/connectors?expand=info"],
)
def test_only_who_may_change_a_config_sees_the_secrets_in_it(
    herder: InMemoryHerder, start_server: StartServer, props: dict[str, str], path: str
) -> None:
    herder.configs["c"] = {
        "connector.class": "C",
        "consumer.override.sasl.jaas.config": 'x required password="jaas-canary";',
        "ssl.key.password": "${vault:kv/a:password}",
        "topic": "orders",
    }
    url = start_server(herder, props)
    seen = {user: call(url, "GET", path, None, credentials(user)).body for user in USERS}
    assert b"jaas-canary" in seen[ADMIN]
    for user in (VIEWER, OPERATOR):
        assert b"canary" not in seen[user]
        assert b'"consumer.override.sasl.jaas.config":"[hidden]"' in seen[user]
        assert b'"ssl.key.password":"${vault:kv/a:password}"' in seen[user]
        assert b'"topic":"orders"' in seen[user]


def test_the_log_says_who_changed_what(
    herder: InMemoryHerder,
    start_server: StartServer,
    props: dict[str, str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    url = start_server(herder, props)
    with caplog.at_level(logging.INFO, "connect.audit"):
        body = {"connector.class": "C", "password": "body-canary"}
        headers = {**credentials(ADMIN), "Content-Type": "application/json"}
        call(url, "PUT", "/connectors/c/config", body, headers)
        call(url, "DELETE", "/connectors/c%0Aforged", None, credentials(VIEWER))
        call(url, "GET", "/connectors", None, credentials(VIEWER))
    lines = [record.getMessage() for record in caplog.records if record.name == "connect.audit"]
    assert lines == [
        "'anna' at 127.0.0.1: PUT /connectors/c/config: 201",
        "'vera' at 127.0.0.1: DELETE /connectors/c%0Aforged: 403",
    ]
    assert "canary" not in caplog.text


def test_a_file_has_every_change_also_repeated_and_after_a_rotation(
    tmp_path: Path, herder: InMemoryHerder, props: dict[str, str]
) -> None:
    path, rotated = tmp_path / "audit.log", tmp_path / "audit.log.1"
    given = {**LISTENER, **props, "rest.audit.log.file": str(path)}
    server = RestServer(given, MetricRegistry(), {})
    try:
        server.bind()
        server.start()
        server.herder_started(herder)
        url = server.advertised_url
        for _ in range(5):
            call(url, "DELETE", "/connectors/c?secret=query-canary", None, credentials(VIEWER))
        call(url, "GET", "/connectors", None, credentials(VIEWER))
        path.rename(rotated)
        body = {"connector.class": "C", "password": "body-canary"}
        headers = {**credentials(ADMIN), "Content-Type": "application/json"}
        call(url, "PUT", "/connectors/c/config", body, headers)
    finally:
        server.stop()
    before, after = ([json.loads(line) for line in each.read_text().splitlines()]
                     for each in (rotated, path))  # fmt: skip
    times = [each.pop("time") for each in (*before, *after)]
    assert times == sorted(times)
    refused = {"user": VIEWER, "method": "DELETE", "path": "/connectors/c", "status": 403}
    assert before == [{**refused, "address": "127.0.0.1"}] * 5
    assert [(each["user"], each["status"]) for each in after] == [(ADMIN, 201)]
    assert "canary" not in path.read_text()
    assert path.stat().st_mode & 0o077 == 0


def test_a_file_for_changes_that_cannot_be_written_prevents_the_start(
    tmp_path: Path, props: dict[str, str]
) -> None:
    given = {**LISTENER, **props, "rest.audit.log.file": str(tmp_path / "none" / "audit.log")}
    with pytest.raises(ConfigError, match=r"rest\.audit\.log\.file: cannot be written"):
        RestServer(given, MetricRegistry(), {})


def test_changes_are_rows_of_the_history_where_the_worker_has_one(
    tmp_path: Path, herder: InMemoryHerder, props: dict[str, str]
) -> None:
    database = tmp_path / "history.db"
    given = {**LISTENER, **props, "mirror.history.url": f"sqlite:///{database}"}
    server = RestServer(given, MetricRegistry(), {})
    try:
        server.bind()
        server.start()
        server.herder_started(herder)
        url = server.advertised_url
        body = {"connector.class": "C", "password": "body-canary"}
        headers = {**credentials(ADMIN), "Content-Type": "application/json"}
        call(url, "PUT", "/connectors/c/config?secret=query-canary", body, headers)
        call(url, "DELETE", "/connectors/c", None, credentials(VIEWER))
        call(url, "GET", "/connectors", None, credentials(VIEWER))
    finally:
        server.stop()
    with closing(sqlite3.connect(database)) as connection:
        rows = connection.execute(
            "select user, address, method, path, status from mirror_audit order by id"
        ).fetchall()
    assert rows == [
        ("anna", "127.0.0.1", "PUT", "/connectors/c/config", 201),
        ("vera", "127.0.0.1", "DELETE", "/connectors/c", 403),
    ]
