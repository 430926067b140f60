"""Hashed passwords, client certificates and failed logins of the REST API."""

from __future__ import annotations

import base64
import io
import logging
import sys
from pathlib import Path

import pytest

from api.cli.hash_password import main as hash_password_command
from api.rest.certificates import CertificateRules
from api.rest.failed_logins import FailedLogins
from api.rest.passwords import DUMMY, hash_password, is_valid_hash, matches
from connect.errors import ConfigError
from tests.support.fake_clock import FakeClock
from tests.support.rest import call
from tests.support.security.certificates import Authority
from tests.support.workers.in_memory_herder import InMemoryHerder
from tests.unit.api.started import StartServer

TWO_RULES = "RULE:CN=(.*?),OU=ops.*/$1-ops/U , RULE:CN=(.*?)(,.*)?/$1/L"
WRONG, RIGHT = "wrong-canary", "right-canary"


def basic(user: str, password: str) -> dict[str, str]:
    pair = base64.b64encode(f"{user}:{password}".encode()).decode()
    return {"Authorization": f"Basic {pair}"}


def users_file(directory: Path, *lines: str) -> dict[str, str]:
    """The properties of a worker with this file of users."""
    users, jaas = directory / "users.properties", directory / "jaas.conf"
    users.write_text("\n".join(lines))
    jaas.write_text(f'KafkaConnect {{ a.PropertyFileLoginModule required file="{users}"; }};')
    return {
        "rest.extension.classes": "BasicAuthSecurityRestExtension",
        "java.security.auth.login.config": str(jaas),
    }


# Hashed passwords.


def test_a_user_logs_in_with_the_password_of_a_hash(
    tmp_path: Path,
    herder: InMemoryHerder,
    start_server: StartServer,
    caplog: pytest.LogCaptureFixture,
) -> None:
    props = users_file(tmp_path, f"hans={hash_password(RIGHT)}", f"paula={RIGHT}")
    with caplog.at_level(logging.WARNING):
        url = start_server(herder, props)
    for user in ("hans", "paula"):
        for _ in range(2):
            assert call(url, "GET", "/connectors", None, basic(user, RIGHT)).status == 200
        assert call(url, "GET", "/connectors", None, basic(user, WRONG)).status == 401
    assert call(url, "GET", "/connectors", None, basic("nobody", RIGHT)).status == 401
    assert call(url, "GET", "/connectors", None, basic("hans", hash_password(RIGHT))).status == 401
    assert "users paula" in caplog.text
    assert "canary" not in caplog.text


@pytest.mark.parametrize(
    "value",
    [
        "$argon2id$bad",
        "$argon2i$v=19$m=16,t=2,p=1$c2FsdHNhbHQ$aGFzaA",
        DUMMY.replace("m=19456", "m=99999999"),
        DUMMY.replace("t=2", "t=1000"),
    ],
)
def test_a_hash_that_cannot_be_checked_prevents_the_start(
    tmp_path: Path, herder: InMemoryHerder, start_server: StartServer, value: str
) -> None:
    assert not is_valid_hash(value)
    with pytest.raises(ConfigError, match="hash of user hans"):
        start_server(herder, users_file(tmp_path, f"hans={value}"))


def test_the_hash_for_unknown_users_is_valid_and_matches_nothing() -> None:
    assert is_valid_hash(DUMMY)
    assert not matches(b"", DUMMY)


def test_the_command_prints_a_hash_of_what_it_reads(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(f"{RIGHT}\n"))
    assert hash_password_command() == 0
    printed = capsys.readouterr().out.strip()
    assert matches(RIGHT.encode(), printed)
    assert RIGHT not in printed


# Failed logins.


def test_failures_wait_longer_and_longer_and_are_forgotten() -> None:
    clock = FakeClock()
    failed = FailedLogins(clock)
    waits = []
    for _ in range(13):
        failed.failed("10.0.0.1", "anna")
        waits.append(failed.wait_ms("10.0.0.1", None) // 1000)
    assert waits == [0, 0, 0, 0, 1, 2, 4, 8, 16, 32, 60, 60, 60]
    assert failed.wait_ms("10.0.0.2", "anna") == 5000, "others lock nobody out for long"
    assert failed.wait_ms("10.0.0.2", "bert") == 0
    clock.advance(16 * 60)
    assert failed.wait_ms("10.0.0.1", "anna") == 0


def test_a_login_forgets_the_failures_before() -> None:
    failed = FailedLogins(FakeClock())
    for _ in range(9):
        failed.failed("::1", "anna")
    failed.succeeded("::1", "anna")
    assert failed.wait_ms("::1", "anna") == 0


def test_the_memory_for_failures_is_bounded_and_a_network_counts_as_one_client() -> None:
    failed = FailedLogins(FakeClock())
    for number in range(20_000):
        failed.failed(f"2001:db8::{number:x}", f"user{number}")
    assert len(failed) == 4097
    assert failed.wait_ms("2001:db8::ffff:ffff", None) > 0


def test_guessing_is_slowed_and_who_logged_in_before_is_not(
    tmp_path: Path, herder: InMemoryHerder, start_server: StartServer
) -> None:
    url = start_server(herder, users_file(tmp_path, f"anna={RIGHT}", f"bert={RIGHT}"))
    assert call(url, "GET", "/connectors", None, basic("anna", RIGHT)).status == 200
    found = [call(url, "GET", "/", None, basic("anna", f"guess{n}")) for n in range(8)]
    assert [answer.status for answer in found[:5]] == [401] * 5
    refused = [answer for answer in found if answer.status == 429]
    assert refused
    assert int(refused[0].headers["retry-after"]) >= 1
    assert call(url, "GET", "/connectors", None, basic("anna", RIGHT)).status == 200
    # From this address, a user who has not logged in yet waits, too.
    assert call(url, "GET", "/connectors", None, basic("bert", RIGHT)).status == 429


# Certificates.


@pytest.mark.parametrize(
    ("rules", "subject", "user"),
    [
        ("DEFAULT", "CN=anna,O=x", "CN=anna,O=x"),
        ("RULE:^CN=([^,]+),O=x$/$1/", "CN=anna,O=x", "anna"),
        ("RULE:^CN=([^,]+),O=x$/$1/", "CN=anna,O=y", None),
        (
            "RULE:CN=(.*?),OU=ops.*/$1-ops/U , RULE:CN=(.*?)(,.*)?/$1/L",
            "CN=Anna,OU=ops",
            "ANNA-OPS",
        ),
        ("RULE:CN=(.*?),OU=ops.*/$1-ops/U , RULE:CN=(.*?)(,.*)?/$1/L", "CN=Anna,OU=dev", "anna"),
        (r"RULE:CN=a\/b/slash\/it/", "CN=a/b", r"slash\/it"),
        ("RULE:CN=.*//,DEFAULT", "CN=anna", None),
    ],
)
def test_a_subject_becomes_a_user_by_the_first_rule_that_matches(
    rules: str, subject: str, user: str | None
) -> None:
    assert CertificateRules(rules).user(subject) == user


@pytest.mark.parametrize("rules", ["default", "RULE:x", "RULE:(/x/", "DEFAULT DEFAULT"])
def test_a_wrong_rule_is_an_error(rules: str) -> None:
    with pytest.raises(ConfigError, match=r"rest\.ssl\.principal\.mapping\.rules"):
        CertificateRules(rules)


def test_a_client_certificate_names_a_user_whose_role_counts(
    tmp_path: Path, herder: InMemoryHerder, start_server: StartServer
) -> None:
    authority = Authority()
    (tmp_path / "server.pem").write_text("".join(authority.issue("worker", "127.0.0.1")))
    (tmp_path / "ca.pem").write_text(authority.pem)
    for name in ("anna", "vera", "stranger"):
        (tmp_path / f"{name}.pem").write_text("".join(authority.issue(name)))
    herder.configs["c"] = {"name": "c"}
    url = start_server(
        herder,
        {
            "listeners": "https://127.0.0.1:0",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(tmp_path / "server.pem"),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(tmp_path / "ca.pem"),
            "ssl.client.auth": "requested",
            "rest.ssl.principal.mapping.rules": "RULE:CN=(.*)/$1/",
            "rest.users.viewers": "vera",
            "rest.users.admins": "anna",
        },
    )

    def status(name: str | None, method: str, path: str) -> int:
        own = None if name is None else tmp_path / f"{name}.pem"
        return call(url, method, path, tls=authority.client_context(own)).status

    assert status("anna", "POST", "/connectors/c/restart") == 204
    assert status("vera", "GET", "/connectors") == 200
    assert status("vera", "POST", "/connectors/c/restart") == 403
    assert status("stranger", "GET", "/connectors") == 403
    assert status(None, "GET", "/connectors") == 401
