"""A connector whose config came from a provider with an end is restarted when that is reached."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import ClassVar

from connect.clock import Deadline
from connect.config.definition import ConfigDef
from connect.config.providers import ConfigProvider
from connect.config.worker import WorkerConfig
from connect.metrics.registry import MetricRegistry
from connect.plugin import Connector, SourceTask
from connect.runtime.plugins.registry import PluginRegistry
from connect.runtime.standalone.herder import StandaloneHerder
from connect.runtime.worker import Worker
from tests.support.waiting import wait_until
from tests.support.workers.memory_offset_store import MemoryOffsetStore

TIMEOUT_S = 10.0
LEASE_S = 0.5


class Vault(ConfigProvider):
    """A new password at every question, each right for a moment."""

    numbers: ClassVar[Iterator[int]] = itertools.count()

    def get(self, path: str) -> Mapping[str, str]:
        return {"password": f"{path}-{next(self.numbers)}"}

    def ttl_s(self, path: str) -> float | None:
        return 0.02


class Login(Connector):
    """Has no tasks; remembers what it was started with."""

    starts: ClassVar[list[tuple[str, str]]] = []

    @classmethod
    def config_def(cls) -> ConfigDef:
        return ConfigDef([])

    def task_class(self) -> type[SourceTask]:
        return SourceTask

    def start(self, config: Mapping[str, str]) -> None:
        self.starts.append((config["name"], config["password"]))

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return []

    def stop(self) -> None:
        """Nothing is open."""


class LoginTask(SourceTask):
    """Remembers the passwords of its starts."""

    starts: ClassVar[list[str]] = []

    def start(self, config: Mapping[str, str]) -> None:
        self.starts.append(config["password"])

    def poll(self) -> None:
        return None

    def stop(self) -> None:
        """Nothing is open."""


class Logins(Login):
    """Has a task, whose config has the password."""

    def task_class(self) -> type[SourceTask]:
        return LoginTask

    def start(self, config: Mapping[str, str]) -> None:
        self._config = dict(config)

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return [self._config]


class ChangedOnce(ConfigProvider):
    """A password that a test changes."""

    password = "before"
    asked = 0

    def get(self, path: str) -> Mapping[str, str]:
        ChangedOnce.asked += 1
        return {"password": ChangedOnce.password}

    def ttl_s(self, path: str) -> float | None:
        return LEASE_S


@contextmanager
def herder() -> Iterator[StandaloneHerder]:
    props = {
        "bootstrap.servers": "127.0.0.1:1",
        "key.converter": "ByteArrayConverter",
        "value.converter": "ByteArrayConverter",
        "offset.storage.file.filename": "unused",
        "config.providers": "vault,once",
        "config.providers.vault.class": "Vault",
        "config.providers.once.class": "ChangedOnce",
    }
    plugins = PluginRegistry(discover=False)
    plugins.register(Login)
    plugins.register(Vault)
    plugins.register(Logins)
    plugins.register(ChangedOnce)
    worker = Worker(
        WorkerConfig.for_standalone(props),
        plugins,
        MetricRegistry(),
        worker_id="w:8083",
        offset_store=MemoryOffsetStore(),
    )
    found = StandaloneHerder(worker)
    found.start(Deadline(TIMEOUT_S))
    try:
        yield found
    finally:
        found.stop(Deadline(TIMEOUT_S))


def config(**more: str) -> dict[str, str]:
    return {"connector.class": "Login", "password": "${vault:db:password}", **more}


def test_the_connector_is_started_again_with_what_the_provider_says_then() -> None:
    Login.starts.clear()
    with herder() as running:
        running.put_connector_config("login", config(), allow_replace=False)
        wait_until(lambda: len(Login.starts) >= 3, TIMEOUT_S, "two restarts")
        assert running.connector_config("login")["password"] == "${vault:db:password}"
    assert len(set(Login.starts)) == len(Login.starts)


def test_it_is_left_alone_where_its_config_says_so() -> None:
    Login.starts.clear()
    with herder() as running:
        running.put_connector_config(
            "login", config(**{"config.action.reload": "none"}), allow_replace=False
        )
        running.put_connector_config("other", config(), allow_replace=False)
        wait_until(lambda: len(Login.starts) >= 4, TIMEOUT_S, "restarts of the other")
    assert [name for name, _ in Login.starts].count("login") == 1


def test_tasks_take_up_a_value_that_changes_before_it_expires() -> None:
    """Nobody has compared it with another one before."""
    LoginTask.starts.clear()
    ChangedOnce.password = "before"
    with herder() as running:
        config = {"connector.class": "Logins", "password": "${once:db:password}"}
        running.put_connector_config("logins", config, allow_replace=False)
        wait_until(lambda: LoginTask.starts == ["before"], TIMEOUT_S, "the task's start")
        ChangedOnce.password = "after"
        wait_until(lambda: len(LoginTask.starts) > 1, TIMEOUT_S, "the task's restart")
        asked = ChangedOnce.asked
        wait_until(lambda: ChangedOnce.asked > asked + 4, TIMEOUT_S, "more questions")
    assert LoginTask.starts == ["before", "after"]
