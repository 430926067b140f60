"""REST extensions: their routes, filters and view of the worker group, and their life."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, ClassVar

import pytest
from fastapi import APIRouter
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.rest.security import BASIC_AUTH_EXTENSION
from api.rest.server import RestServer
from connect.errors import ConfigError, ConnectError
from connect.metrics.registry import MetricRegistry
from connect.runtime.plugins.registry import PluginRegistry
from connect.sdk import ConnectRestExtension, ConnectRestExtensionContext
from tests.support.rest import call
from tests.support.workers.in_memory_herder import WORKER, InMemoryHerder
from tests.unit.api.started import LISTENER, StartServer

KEY = "rest.extension.classes"
CONFIG = {"connector.class": "FileStreamSource", "tasks.max": "1"}


class Recorded(ConnectRestExtension):
    """Notes what it is asked, and marks each answer with its name."""

    notes: ClassVar[list[str]] = []

    def configure(self, props: Mapping[str, str]) -> None:
        self.notes.append(f"configure {type(self).__name__} {props['listeners']}")

    def register(self, context: ConnectRestExtensionContext) -> None:
        self.notes.append(f"register {type(self).__name__}")
        context.add_middleware(lambda app: _Marks(app, f"x-{type(self).__name__.lower()}"))

    def close(self) -> None:
        self.notes.append(f"close {type(self).__name__}")


class First(Recorded):
    """Also shows the worker group."""

    def register(self, context: ConnectRestExtensionContext) -> None:
        super().register(context)
        state, router = context.cluster_state, APIRouter()

        @router.get("/inventory")
        def inventory() -> list[str]:
            return list(state.connectors())

        @router.get("/inventory/{name}")
        def one(name: str) -> dict[str, Any]:
            return {
                "health": asdict(state.connector_health(name)),
                "config": state.connector_config(name),
                "tasks": state.task_configs(name),
                "cluster": state.cluster_details().kafka_cluster_id,
            }

        @router.post("/inventory", status_code=202)
        def ask() -> None:
            return None

        context.add_router(router)


class Second(Recorded):
    """Cannot be closed."""

    def close(self) -> None:
        super().close()
        raise OSError("no")


class Third(Recorded):
    pass


class Wrong(Recorded):
    def configure(self, props: Mapping[str, str]) -> None:
        raise ValueError("no licence")


class Unready(Recorded):
    def register(self, context: ConnectRestExtensionContext) -> None:
        raise OSError("no directory")


class _Marks:
    """Adds a header to each answer."""

    def __init__(self, app: ASGIApp, name: str) -> None:
        self._app = app
        self._name = name

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def marked(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"].append((self._name.encode(), b"yes"))
            await send(message)

        await self._app(scope, receive, marked)


def named(*classes: type) -> dict[str, str]:
    return {KEY: ",".join(f"{each.__module__}:{each.__qualname__}" for each in classes)}


@pytest.fixture(autouse=True)
def notes() -> list[str]:
    Recorded.notes.clear()
    return Recorded.notes


def test_routes_see_the_worker_group(herder: InMemoryHerder, start_server: StartServer) -> None:
    url = start_server(herder, named(First))
    assert call(url, "GET", "/inventory").json() == []
    herder.put_connector_config("c", CONFIG, allow_replace=False)
    assert call(url, "GET", "/inventory/").json() == ["c"]
    told = call(url, "GET", "/inventory/c").json()
    health = told["health"]
    assert (health["name"], health["connector_state"]["worker_id"]) == ("c", WORKER)
    assert [task["state"] for task in health["tasks_state"].values()] == ["RUNNING"]
    assert told["config"]["tasks.max"] == "1"
    assert list(told["tasks"]) == ["0"]
    assert told["cluster"] == herder.kafka_cluster_id()


def test_errors_and_methods_are_as_of_connect_s_own_resources(
    herder: InMemoryHerder, start_server: StartServer
) -> None:
    url = start_server(herder, named(First))
    assert call(url, "GET", "/inventory/none").error[0] == 404
    assert call(url, "POST", "/inventory").status == 202
    assert call(url, "PUT", "/inventory").status == 405
    assert call(url, "GET", "/inventories").status == 404
    assert call(url, "GET", "/connectors").json() == []


def test_before_the_worker_has_started_the_state_is_not_known(start_server: StartServer) -> None:
    status, message = call(start_server(None, named(First)), "GET", "/inventory").error
    assert (status >= 500, message) == (True, "Worker is still starting up.")


def test_filters_and_calls_keep_the_order_of_the_property(
    herder: InMemoryHerder, notes: list[str]
) -> None:
    server = RestServer({**LISTENER, **named(First, Second, Third)}, MetricRegistry(), {})
    server.bind()
    try:
        server.start()
        server.herder_started(herder)
        # The first sees an answer last.
        headers = call(server.advertised_url, "GET", "/").headers
        assert [name for name in headers if name.startswith("x-")] == [
            "x-third",
            "x-second",
            "x-first",
        ]
    finally:
        server.stop()
        server.stop()
    names = ("First", "Second", "Third")
    listeners = LISTENER["listeners"]
    assert notes == [
        *(f"configure {name} {listeners}" for name in names),
        *(f"register {name}" for name in names),
        *(f"close {name}" for name in names),
    ]


def test_a_plugin_is_found_by_its_name(herder: InMemoryHerder) -> None:
    plugins = PluginRegistry(discover=False)
    plugins.register(First)
    server = RestServer({**LISTENER, KEY: "First"}, MetricRegistry(), {}, plugins)
    server.bind()
    try:
        server.start()
        server.herder_started(herder)
        assert call(server.advertised_url, "GET", "/inventory").json() == []
    finally:
        server.stop()


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("no.such.module:Thing", "No module named"),
        (f"{__name__}:Nobody", "has no ConnectRestExtension Nobody"),
        ("pathlib:Path", "has no ConnectRestExtension Path"),
        (f"{__name__}:Wrong", "no licence"),
    ],
)
def test_a_wrong_class_ends_the_start_and_leaves_none_open(
    notes: list[str], name: str, reason: str
) -> None:
    with pytest.raises(ConfigError, match=reason) as caught:
        RestServer({**LISTENER, KEY: f"{__name__}:First,{name}"}, MetricRegistry(), {})
    assert caught.value.key == KEY
    assert "close First" in notes


def test_what_registering_raises_ends_the_start(notes: list[str]) -> None:
    server = RestServer({**LISTENER, **named(First, Unready)}, MetricRegistry(), {})
    try:
        server.bind()
        with pytest.raises(ConnectError, match=r"Unready cannot be registered: OSError"):
            server.start()
    finally:
        server.stop()
    assert notes[-2:] == ["close First", "close Unready"]


def test_routes_are_for_the_worker_s_users_only(
    herder: InMemoryHerder, start_server: StartServer, tmp_path: Path
) -> None:
    (tmp_path / "users").write_text("ann=secret\n")
    jaas = tmp_path / "jaas.conf"
    module = f"{BASIC_AUTH_EXTENSION.rpartition('.')[0]}.PropertyFileLoginModule"
    jaas.write_text(f'KafkaConnect {{ {module} required file="{tmp_path}/users"; }};')
    both = {KEY: f"{BASIC_AUTH_EXTENSION},{named(First)[KEY]}"}
    opts = {"KAFKA_OPTS": f"-Djava.security.auth.login.config={jaas}"}
    url = start_server(herder, both, opts)
    login = {"Authorization": "Basic " + base64.b64encode(b"ann:secret").decode()}
    assert call(url, "GET", "/inventory").status == 401
    assert call(url, "GET", "/inventory", headers=login).json() == []
