"""A connector on Connect workers whose password is in Vault: after the password was changed there
and at the brokers, its tasks go on with the new one, on workers that were not restarted."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.brokers import KafkaRuntime
from tests.support.records.producing import Record, produce
from tests.support.records.topics import create_topic, unique
from tests.support.rest import call
from tests.support.security.canaries import Canaries
from tests.support.security.ending_password import EndingPassword, ending_password
from tests.support.security.vault import VaultServer
from tests.support.waiting import wait_until
from tests.support.workers.distributed import Group, worker_group
from tests.support.workers.java_connect import worker_properties

LEASE_S = 5
TASKS = WORKERS = 2
WAIT_S = 90.0
PATH = "secret/data/sink"
REFERENCE = "${vault:secret/sink:password}"
FIRST, SECOND = (
    {partition: [f"{when} {partition}-{number}" for number in range(20)] for partition in (0, 1)}
    for when in ("before", "after")
)


@pytest.fixture
def canaries() -> Canaries:
    return Canaries()


@pytest.fixture
def before(canaries: Canaries) -> str:
    return canaries.new("the password before")


@pytest.fixture
def brokers(before: str, kafka: KafkaRuntime, logs: Path) -> Iterator[EndingPassword]:
    with ending_password("vault-workers", before, kafka, logs) as brokers:
        yield brokers


def properties(brokers: EndingPassword, vault: VaultServer) -> dict[str, str]:
    """Of workers that need no password themselves."""
    (token,) = vault.tokens
    extra = {
        "key.converter": "org.apache.kafka.connect.storage.StringConverter",
        "value.converter": "org.apache.kafka.connect.storage.StringConverter",
        "config.providers": "vault",
        "config.providers.vault.class": "VaultConfigProvider",
        "config.providers.vault.param.url": vault.url,
        "config.providers.vault.param.token": token,
    }
    return worker_properties(brokers.cluster.bootstrap_servers, unique("vault"), extra)


def sink(brokers: EndingPassword, topic: str, file: Path) -> dict[str, str]:
    login = brokers.login(REFERENCE)
    return {
        "connector.class": "FileStreamSink",
        "topics": topic,
        "file": str(file),
        "tasks.max": str(TASKS),
        **{f"consumer.override.{key}": value for key, value in login.items()},
    }


def pids(group: Group) -> list[int]:
    return [worker.process.pid for worker in group.workers]


def test_tasks_of_a_group_take_up_a_password_that_changes_in_vault(
    brokers: EndingPassword, canaries: Canaries, before: str, tmp_path: Path, logs: Path
) -> None:
    servers, file = brokers.cluster.bootstrap_servers, tmp_path / "taken.txt"
    topic, name = create_topic(servers, "vault", partitions=TASKS), unique("sink")

    def write(lines: dict[int, list[str]]) -> None:
        for partition, values in lines.items():
            produce(servers, topic, [Record(value.encode(), None, partition) for value in values])

    def taken() -> set[str]:
        return set(file.read_text().splitlines()) if file.exists() else set()

    def arrived(lines: dict[int, list[str]]) -> bool:
        return {line for values in lines.values() for line in values} <= taken()

    def shown() -> list[str]:
        """Secrets in what the workers answer."""
        paths = (f"/connectors/{name}", f"/connectors/{name}/tasks", f"/connectors/{name}/status")
        urls = [worker.url for worker in group.workers]
        answers = [call(url, "GET", path).body for url in urls for path in paths]
        assert any(REFERENCE.encode() in answer for answer in answers)
        return canaries.leaked("an answer", b"".join(answers))

    with VaultServer() as vault:
        vault.tokens = {canaries.new("Vault's token")}
        vault.lease_s = LEASE_S
        vault.secrets[PATH] = {"data": {"password": before}}
        with worker_group(WORKERS, properties(brokers, vault), tmp_path, logs) as group:
            started = pids(group)
            group.create(name, sink(brokers, topic, file))
            group.until_running(name, TASKS)
            write(FIRST)
            wait_until(lambda: arrived(FIRST), WAIT_S, "the lines of the first password")
            assert len(set(group.placed()["tasks"].values())) == WORKERS

            after = canaries.new("the password after")
            brokers.change(after)
            vault.secrets[PATH] = {"data": {"password": after}}
            write(SECOND)
            wait_until(lambda: arrived(SECOND), WAIT_S, "the lines of the new password")
            group.until_running(name, TASKS)
            assert pids(group) == started
            assert all(worker.running for worker in group.workers)
            found = shown()
    for number in range(1, WORKERS + 1):
        found += canaries.leaked_by_files(logs / f"worker-{number}.log")
    assert found == []
