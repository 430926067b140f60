"""Workers whose properties, users, connectors and tasks have secrets, at the finest log level, on
their normal and failing ways: no log, answer, status or command line shows any of them."""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tests.integration.secrets.broker import Guarded, output_of_failure
from tests.support.records.reading import read_partition
from tests.support.records.topics import end_offsets, unique
from tests.support.rest import Answer, call
from tests.support.security.canaries import Canaries, jaas_quoted, properties_text
from tests.support.waiting import wait_until
from tests.support.workers.distributed import worker_group
from tests.support.workers.java_connect import worker_properties
from tests.support.workers.workers import standalone_process

PLUGINS = Path(__file__).parents[2] / "plugins"
WAIT_S, STOP_S = 60.0, 40.0
ADMIN, VIEWER = "anna", "vera"
CARELESS = "CarelessConnector"


class SecretWorker:
    """The properties of a worker, its users, and what it is asked."""

    def __init__(self, guarded: Guarded, directory: Path) -> None:
        self.guarded, self.canaries = guarded, guarded.canaries
        self._passwords = {user: self.canaries.new(f"REST user {user}") for user in (ADMIN, VIEWER)}
        users, jaas = directory / "users.properties", directory / "rest-jaas.conf"
        users.write_text(properties_text(self._passwords))
        jaas.write_text(f'KafkaConnect {{ a.PropertyFileLoginModule required file="{users}"; }};')
        self.file = directory / "secrets.properties"
        self.file.write_text(
            properties_text(
                {
                    "one": jaas_quoted(guarded.password),
                    "db.password": self.canaries.awkward("a key of a file"),
                    "harmless": self.canaries.new("a value of a provider"),
                }
            )
        )
        self._jaas = jaas

    def properties(self) -> dict[str, str]:
        login, secrets = self.guarded.login(), dict[str, str]()
        for prefix in ("", "producer.", "consumer.", "admin.", "listeners.https."):
            secrets |= self.canaries.of_clients(prefix)
        return {
            **{f"{p}{key}": value for p in ("", "consumer.", "producer.", "admin.")
               for key, value in login.items()},
            **secrets,
            "plugin.path": str(PLUGINS),
            # A database that does not answer.
            "mirror.history.url": (
                f"postgresql+psycopg://u:{self.canaries.new('history URL')}@127.0.0.1:1/h"
            ),
            "config.providers": "file",
            "config.providers.file.class": "FileConfigProvider",
            "rest.extension.classes": "BasicAuthSecurityRestExtension",
            "java.security.auth.login.config": str(self._jaas),
            "rest.users.viewers": VIEWER,
            "session.timeout.ms": "6000",
            "heartbeat.interval.ms": "500",
        }  # fmt: skip

    def ask(
        self, url: str, method: str, path: str, body: object = None, user: str = ADMIN
    ) -> Answer:
        return call(url, method, path, body, self.headers(user))

    def is_ready(self, url: str) -> bool:
        try:
            return self.ask(url, "GET", "/health").status == 200
        except OSError:
            return False

    def headers(self, user: str, password: str | None = None) -> dict[str, str]:
        pair = f"{user}:{password or self._passwords[user]}".encode()
        return {
            "Authorization": "Basic " + base64.b64encode(pair).decode(),
            "Content-Type": "application/json",
        }

    def connectors(self) -> dict[str, dict[str, str]]:
        """Connectors with secrets: one that works, and one for each way to fail."""
        new = self.canaries.new
        wrong = self.guarded.login(self.canaries.awkward("a wrong password of a connector"))
        careless = {
            "connector.class": CARELESS,
            "pin": new("a PASSWORD key of a plugin"),
            "db.password": f"${{file:{self.file}:db.password}}",
            **self.canaries.of_clients("producer.override."),
        }
        mirror = {
            "connector.class": "MirrorSourceConnector",
            "source.cluster.alias": "a",
            "target.cluster.alias": "b",
            "topics": unique("none"),
            "replication.factor": "1",
            "offset-syncs.topic.replication.factor": "1",
            **{f"target.cluster.{key}": value for key, value in self.guarded.login().items()},
            **self.canaries.of_clients("source.cluster."),
        }
        return {
            "well": careless,
            "no-start": {**careless, "pin": new("pin of no-start"), "fails": "connector"},
            "no-task": {**careless, "pin": self.canaries.awkward("pin"), "fails": "task"},
            "no-login": {
                **careless,
                "producer.override.sasl.jaas.config": wrong["sasl.jaas.config"],
            },
            "mirror": {
                **mirror,
                **{f"source.cluster.{key}": value for key, value in wrong.items()},
            },
        }

    def refused(self) -> list[dict[str, str]]:
        """Configs that are refused, with errors that quote values."""
        new, file = self.canaries.new, self.file
        return [
            {"connector.class": CARELESS, "tasks.max": f"${{file:{file}:db.password}}"},
            {"connector.class": f"${{file:{file}:harmless}}"},
            {"connector.class": CARELESS, "topic.creation.groups": f"${{file:{file}:harmless}}"},
            {"connector.class": CARELESS, "producer.override.sasl.jaas.config": new("bad JAAS")},
            {"connector.class": CARELESS, "producer.override.no.password": new("unknown key")},
            {"connector.class": "MirrorSourceConnector", "mirror.history.url": new("bad URL")},
            {"sasl.jaas.config": new("no class")},
        ]

    def leaked_by_refusals(self, url: str) -> list[str]:
        found = []
        for number, config in enumerate(self.refused()):
            body = {"name": "refused", **config}
            asked = [
                self.ask(url, "PUT", "/connectors/refused/config", body),
                self.ask(url, "PUT", f"/connector-plugins/{CARELESS}/config/validate", body),
                self.ask(
                    url, "PUT", f"/connector-plugins/{CARELESS}/config/validate", body, VIEWER
                ),
            ]
            for answer in asked:
                # A config that is taken comes back to an admin as it is, as in Java.
                if answer.status >= 400:
                    found += self.canaries.leaked(f"answer {number}", answer.body)
            self.ask(url, "DELETE", "/connectors/refused")
        wrong = self.canaries.new("a wrong password of a REST user")
        answer = call(url, "GET", "/connectors", None, self.headers(ADMIN, wrong))
        assert answer.status == 401
        return found + self.canaries.leaked("401", answer.body)

    def leaked_by_answers(self, url: str, user: str) -> list[str]:
        """In the answers to every GET of the OpenAPI document, filled in with each connector."""
        document = self.ask(url, "GET", "/openapi.json").json()
        paths = {
            path.replace("{connector}", name).replace("{task}", "0").replace("{plugin}", CARELESS)
            for path, methods in document["paths"].items()
            if "get" in methods and (user == VIEWER or not _shows_configs(path))
            for name in self.connectors()
        }
        paths |= {"/connectors?expand=status", "/metrics?family=A,B,C"}
        if user == VIEWER:
            paths |= {"/connectors?expand=info"}

        def asked(path: str) -> tuple[int, bytes]:
            answer = self.ask(url, "GET", path, None, user)
            return answer.status, answer.body

        return self.canaries.leaked_by_answers(asked, dict.fromkeys(sorted(paths)))


def _shows_configs(path: str) -> bool:
    return path in {
        "/connectors/{connector}",
        "/connectors/{connector}/config",
        "/connectors/{connector}/tasks",
    }


def failed(status: Mapping[str, object] | None) -> str:
    """The traces of a status; empty while there is none."""
    if status is None:
        return ""
    parts = [status["connector"], *status["tasks"]]  # type: ignore[misc]
    return "".join(part.get("trace") or "" for part in parts)


def drive(
    worker: SecretWorker, url: str, settle: Callable[[Callable[[], object], str], None]
) -> None:
    """Have all connectors, and wait until each has come as far as it can."""
    for name, config in worker.connectors().items():
        body = {"name": name, **config}

        def made(name: str = name, body: object = body) -> bool:
            answer = worker.ask(url, "PUT", f"/connectors/{name}/config", body)
            # A standalone worker answers with the error of a connector that does not start.
            return answer.status in (200, 201, 500)

        settle(made, f"{name} is made")

    def status(name: str) -> Mapping[str, object] | None:
        answer = worker.ask(url, "GET", f"/connectors/{name}/status")
        return answer.json() if answer.status == 200 else None

    for name, sign in (
        ("no-start", "cannot start with"),
        ("no-task", "cannot poll with"),
        ("mirror", "refused"),
    ):
        settle(lambda name=name, sign=sign: sign in failed(status(name)), f"{name} tells {sign}")  # type: ignore[misc]


def soon(condition: Callable[[], object], what: str) -> None:
    wait_until(condition, WAIT_S, what)


def test_a_worker_of_a_group_shows_no_secret(guarded: Guarded, logs: Path, tmp_path: Path) -> None:
    worker, canaries = SecretWorker(guarded, tmp_path), guarded.canaries
    name = unique("secrets")
    escaped = {
        key: value.replace("\\", "\\\\")
        for key, value in worker_properties(guarded.servers, name, worker.properties()).items()
    }
    with worker_group(1, escaped, tmp_path, logs, start=False) as group:
        url = group.workers[0].start().url
        soon(lambda: worker.is_ready(url), "a worker that is ready")
        level = {"level": "TRACE"}
        assert worker.ask(url, "PUT", "/admin/loggers/root?scope=worker", level).status == 200
        drive(worker, url, soon)
        found = worker.leaked_by_refusals(url)
        found += worker.leaked_by_answers(url, ADMIN)
        found += worker.leaked_by_answers(url, VIEWER)
        found += canaries.leaked_by_processes(group.first.process.pid)
    found += canaries.leaked_by_files(logs / "worker-1.log")
    statuses = f"{name}-status"
    for partition in end_offsets(guarded.cluster.bootstrap_servers, statuses):
        records = read_partition(guarded.cluster.bootstrap_servers, statuses, partition)
        found += canaries.leaked("the status topic", b"".join(r.value or b"" for r in records))
    assert found == []


def test_a_standalone_worker_shows_no_secret(
    guarded: Guarded, logs: Path, tmp_path: Path, listener: str
) -> None:
    worker, canaries, log = SecretWorker(guarded, tmp_path), guarded.canaries, logs / "worker.log"
    properties = {
        **worker.properties(),
        "bootstrap.servers": guarded.servers,
        "key.converter": "ByteArrayConverter",
        "value.converter": "ByteArrayConverter",
        "offset.storage.file.filename": str(tmp_path / "offsets.db"),
    }
    escaped = {key: value.replace("\\", "\\\\") for key, value in properties.items()}
    file = tmp_path / "of-file.json"
    config = {**worker.connectors()["well"], "name": "of-file"}
    file.write_text(json.dumps({"name": "of-file", "config": config}))
    url = listener
    escaped["listeners"] = url
    with standalone_process(escaped, tmp_path, log, [file]) as process:
        soon(lambda: worker.is_ready(url), "a worker that is ready")
        assert worker.ask(url, "PUT", "/admin/loggers/root", {"level": "TRACE"}).status == 200
        drive(worker, url, soon)
        found = worker.leaked_by_refusals(url)
        found += worker.leaked_by_answers(url, ADMIN)
        found += worker.leaked_by_answers(url, VIEWER)
        found += canaries.leaked_by_processes(process.pid)
        assert process.stop(STOP_S) == 0
    assert found + canaries.leaked_by_files(log) == []


WRONG: dict[str, Callable[[Canaries], dict[str, str]]] = {
    "password": lambda new: {},
    "module": lambda new: {"sasl.jaas.config": f"x.PlainLoginModule required {new.new('JAAS')}"},
    "key store": lambda new: {
        "security.protocol": "SASL_SSL",
        "ssl.keystore.type": "PEM",
        "ssl.truststore.type": "PEM",
    },
    "offset database": lambda new: {"offset.storage.sql.url": new.new("an URL that is none")},
    "offset server": lambda new: {
        "offset.storage.sql.url": f"postgresql+psycopg://u:{new.new('offset URL')}@127.0.0.1:1/o"
    },
}


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("options", [(), ("--check",)], ids=["start", "check"])
def test_a_worker_that_cannot_start_shows_no_secret(
    guarded: Guarded, tmp_path: Path, logs: Path, wrong: str, options: tuple[str, ...]
) -> None:
    canaries = guarded.canaries
    properties = {
        **guarded.login(canaries.awkward("a wrong password")),
        **canaries.of_clients(),
        "key.converter": "ByteArrayConverter",
        "value.converter": "ByteArrayConverter",
        "listeners": "http://127.0.0.1:0",
        "offset.storage.file.filename": str(tmp_path / "offsets.db"),
        **WRONG[wrong](canaries),
    }
    path = tmp_path / "worker.properties"
    path.write_text(properties_text(properties))
    command = [sys.executable, "-m", "api.cli.standalone", *options, str(path)]
    text = output_of_failure(command, logs / "worker.log")
    assert "Traceback" not in text, text
    assert canaries.leaked(wrong, text) == []
