"""Every program says within seconds that a password is wrong or a login module malformed, and a
signal ends it at once."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from connect.clock import SYSTEM_CLOCK
from deploy.brokers import GuardedProcess
from tests.integration.secrets.broker import Guarded
from tests.support.records.topics import unique
from tests.support.security.canaries import properties_text
from tests.support.waiting import wait_until
from tests.support.workers.java_connect import worker_properties

SAID_S, STOP_S = 20.0, 15.0
REFUSED = "SASL PLAIN at"
WRONG = {
    "password": {},
    "login module": {"sasl.jaas.config": "x.PlainLoginModule required"},
}
SIGNS = {"password": REFUSED, "login module": "sasl.jaas.config"}


@dataclass(frozen=True)
class Program:
    """A program: its arguments, with `{file}` and `{servers}` in them; its file, made of client
    properties; and how it ends by itself if a password is wrong (None: it goes on trying), and if
    its properties are."""

    arguments: Sequence[str]
    properties: Callable[[Mapping[str, str]], dict[str, str]]
    at_wrong_password: int | None
    at_wrong_config: int


def of_worker(login: Mapping[str, str]) -> dict[str, str]:
    name = unique("wrong")
    own = {"listeners": "http://127.0.0.1:0", **login}
    return worker_properties(login["bootstrap.servers"], name, own)


def of_standalone(login: Mapping[str, str]) -> dict[str, str]:
    kept = ("bootstrap.servers", "key.converter", "value.converter", "listeners", *login)
    worker = {key: value for key, value in of_worker(login).items() if key in kept}
    return {**worker, "offset.storage.sql.url": "sqlite://"}


def of_mirror(login: Mapping[str, str]) -> dict[str, str]:
    sides = {f"{side}.{key}": value for side in "AB" for key, value in login.items()}
    return {"clusters": "A, B", "A->B.enabled": "true", "metrics.listener": "", **sides}


def of_client(login: Mapping[str, str]) -> dict[str, str]:
    return {**login, "group.id": unique("group")}


MM1 = ["api.cli.kafka_mirror_maker", "--consumer.config", "{file}", "--producer.config", "{file}"]
FLOW = ["--flow", "A:B", "{file}"]
FAILS = -1
"""Any exit code but 0."""
FILE = ["--command-config", "{file}"]
PROGRAMS = {
    "connect-mirror-maker": Program(["api.cli.mirror_maker", "{file}"], of_mirror, None, 78),
    "connect-mirror-maker --check": Program(
        ["api.cli.mirror_maker", "--check", "{file}"], of_mirror, 1, 78
    ),
    "connect-distributed": Program(["api.cli.distributed", "{file}"], of_worker, None, 78),
    "connect-distributed --check": Program(
        ["api.cli.distributed", "--check", "{file}"], of_worker, 1, 1
    ),
    "connect-standalone": Program(["api.cli.standalone", "{file}"], of_standalone, None, 78),
    "connect-standalone --check": Program(
        ["api.cli.standalone", "--check", "{file}"], of_standalone, 1, 1
    ),
    "connect-mirror-audit": Program(
        ["api.cli.mirror_audit", "--engine", "local", *FLOW], of_mirror, FAILS, FAILS
    ),
    "connect-mirror-backfill": Program(
        ["api.cli.mirror_backfill", "--plan", *FLOW], of_mirror, FAILS, FAILS
    ),
    "connect-mirror lag": Program(
        ["api.cli.connect_mirror.main", "lag", "-c", "{file}", "--flow", "A:B"],
        of_mirror,
        FAILS,
        FAILS,
    ),
    "kafka-mirror-maker": Program([*MM1, "--include", "none"], of_client, 255, 1),
    "kafka-consumer-offset-checker": Program(
        ["api.cli.offset_checker", "--group", "g", "--bootstrap-server", "{servers}", *FILE],
        of_client,
        2,
        1,
    ),
    "connect-mirror-client": Program(
        ["api.cli.mirror_client", "clusters", "--bootstrap", "{servers}", *FILE],
        of_client,
        1,
        78,
    ),
}


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("name", PROGRAMS)
def test_it_is_said_within_seconds(
    guarded: Guarded, tmp_path: Path, logs: Path, name: str, wrong: str
) -> None:
    program, log, path = PROGRAMS[name], logs / "program.log", tmp_path / "its.properties"
    login = {**guarded.login("not the password"), **WRONG[wrong]}
    path.write_text(properties_text(program.properties(login)))
    arguments = [part.format(file=path, servers=guarded.servers) for part in program.arguments]
    began = SYSTEM_CLOCK.monotonic()
    with GuardedProcess([sys.executable, "-m", *arguments], log) as process:
        wait_until(lambda: SIGNS[wrong] in log.read_text(), SAID_S, f"{name} says it: {log}")
        print(f"{name}, wrong {wrong}: after {SYSTEM_CLOCK.monotonic() - began:.1f} s")
        ends_with = program.at_wrong_password if wrong == "password" else program.at_wrong_config
        if ends_with is None:
            assert process.running()
            process.stop(STOP_S)
        else:
            code = process.wait(STOP_S)
            assert code
            assert ends_with in (code, FAILS)
