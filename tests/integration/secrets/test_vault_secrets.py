"""A mirror whose password is in Vault: after the password was changed there and at the brokers, the
mirror goes on with the new one, and shows neither, at the finest log level either."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.brokers import KafkaRuntime
from tests.support.flows.mirrored import MirroredFlow, assert_equal_logs, running, stop_cleanly
from tests.support.records.producing import numbered, produce
from tests.support.rest import call
from tests.support.security.canaries import Canaries
from tests.support.security.ending_password import EndingPassword, ending_password
from tests.support.security.vault import VaultServer
from tests.support.served import health_of
from tests.support.waiting import wait_until

LEASE_S = 5
COUNT, WAIT_S = 20, 60.0
PATH = "secret/data/mirror"
PAGES = ("/", "/metrics?family=A,B,C", "/health", "/mirrors", "/admin/loggers")


@pytest.fixture
def canaries() -> Canaries:
    return Canaries()


@pytest.fixture
def before(canaries: Canaries) -> str:
    return canaries.new("the password before")


@pytest.fixture
def brokers(before: str, kafka: KafkaRuntime, logs: Path) -> Iterator[EndingPassword]:
    with ending_password("vault", before, kafka, logs) as brokers:
        yield brokers


def properties(
    brokers: EndingPassword, flow: MirroredFlow, vault: VaultServer, listener: str
) -> dict[str, str]:
    login = brokers.login("${vault:secret/mirror:password}")
    (token,) = vault.tokens
    return flow.properties(
        {
            **{f"{side}.{key}": value for side in "AB" for key, value in login.items()},
            "metrics.listener": listener,
            "config.providers": "vault",
            "config.providers.vault.class": "VaultConfigProvider",
            "config.providers.vault.param.url": vault.url,
            "config.providers.vault.param.token": token,
        }
    )


def test_a_password_that_changes_in_vault_is_taken_up_and_never_shown(
    brokers: EndingPassword,
    canaries: Canaries,
    before: str,
    tmp_path: Path,
    logs: Path,
    listener: str,
) -> None:
    flow, log = MirroredFlow(brokers.cluster, brokers.cluster), logs / "mirror.log"
    topic = flow.topic()
    produce(flow.source_servers, topic, numbered(COUNT))

    def asked(path: str) -> tuple[int, bytes]:
        answer = call(listener, "GET", path)
        return answer.status, answer.body

    with VaultServer() as vault:
        vault.tokens = {canaries.new("Vault's token")}
        vault.lease_s = LEASE_S
        vault.secrets[PATH] = {"data": {"password": before}}
        given = properties(brokers, flow, vault, listener)
        with running(given, tmp_path, log) as mirror:
            flow.wait_records(topic, [COUNT])
            pid, level = mirror.pid, {"level": "TRACE"}
            assert call(listener, "PUT", "/admin/loggers/root", level).status == 200

            after = canaries.new("the password after")
            brokers.change(after)
            vault.secrets[PATH] = {"data": {"password": after}}
            restarted = f"{flow.a}->{flow.b}: restarted"
            wait_until(lambda: restarted in log.read_text(), WAIT_S, "the new one is taken up")
            produce(flow.source_servers, topic, numbered(COUNT, start=COUNT))
            flow.wait_records(topic, [2 * COUNT], WAIT_S)
            wait_until(lambda: health_of(listener)["status"] == "healthy", WAIT_S, "health")
            assert mirror.running()
            assert mirror.pid == pid
            found = canaries.leaked_by_answers(asked, dict.fromkeys(PAGES, 200))
            found += canaries.leaked_by_processes(pid)
            stop_cleanly(mirror, log)
    assert_equal_logs(flow, topic)
    assert "TRACE" in log.read_text() or "DEBUG" in log.read_text()
    assert found + canaries.leaked_by_files(log) == []
