"""What each role may do on every route, and the log of who changed what."""

from __future__ import annotations

import base64
import logging
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from api.rest.server import RestServer
from connect.errors import ConfigError
from connect.metrics.registry import MetricRegistry
from tests.support.in_memory_herder import InMemoryHerder
from tests.support.rest import call
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


def test_every_route_admits_its_roles_and_no_others(
    herder: InMemoryHerder, start_server: StartServer, props: dict[str, str]
) -> None:
    """The routes are those of the OpenAPI document, so that none can be forgotten."""
    url = start_server(herder, props)
    document = call(url, "GET", "/openapi.json", None, credentials(VIEWER)).json()
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
            answer = call(url, method.upper(), asked, None, credentials(user))
            assert (answer.status != 403) == may, (user, method, path)
        assert call(url, method.upper(), asked, None, {}).status == 401


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
