"""Secrets from HashiCorp Vault, by a server that speaks its API."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from connect.config.providers import ConfigProviders
from connect.config.secrets import without_secrets
from connect.config.vault import VaultClient, VaultSettings
from connect.errors import ConfigError, ConnectError, RetriableError
from tests.support.fake_clock import FakeClock
from tests.support.security.vault import VaultServer

TOKEN = "root-token-canary"


@pytest.fixture
def vault() -> Iterator[VaultServer]:
    with VaultServer() as server:
        server.secrets["secret/data/app"] = {"data": {"password": "s3cret", "port": 9092}}
        yield server


def client(vault: VaultServer, clock: FakeClock | None = None, **parameters: str) -> VaultClient:
    given = {"url": vault.url, **{key.replace("_", "."): text for key, text in parameters.items()}}
    settings = VaultSettings.from_parameters(given, "config.providers.vault.param.")
    return VaultClient(settings, {}, clock or FakeClock())


def resolve(vault: VaultServer, value: str, **parameters: str) -> str:
    props = {
        "config.providers": "vault",
        "config.providers.vault.class": "VaultConfigProvider",
        "config.providers.vault.param.url": vault.url,
        "config.providers.vault.param.token": TOKEN,
        **{f"config.providers.vault.param.{key}": text for key, text in parameters.items()},
    }
    return ConfigProviders.from_properties(props).resolve({"ssl.key.password": value})[
        "ssl.key.password"
    ]


@pytest.mark.parametrize(
    ("value", "resolved"),
    [
        ("${vault:secret/app:password}", "s3cret"),
        ("x=${vault:/secret/app:port}", "x=9092"),
        ("${vault:secret/app:missing}", "${vault:secret/app:missing}"),
        ("${vault:secret/other:password}", "${vault:secret/other:password}"),
    ],
)
def test_a_reference_becomes_the_value_of_the_secret(
    vault: VaultServer, value: str, resolved: str
) -> None:
    assert resolve(vault, value) == resolved


def test_version_1_mount_and_namespace(vault: VaultServer) -> None:
    vault.secrets["team/kv/app"] = {"password": "one"}
    vault.namespace = "ops"
    one = client(vault, token=TOKEN, kv_version="1", mount="team/kv", namespace="ops")
    assert one.read("app") == {"password": "one"}
    assert client(vault, token=TOKEN, kv_version="1", mount="team/kv").read("app") == {}


def test_a_deleted_secret_has_no_values(vault: VaultServer) -> None:
    vault.secrets["secret/data/app"] = {"data": None, "metadata": {"destroyed": True}}
    assert client(vault, token=TOKEN).read("secret/app") == {}


@pytest.mark.parametrize("method", ["approle", "kubernetes"])
def test_a_login_is_kept_until_most_of_its_lease_is_over(
    vault: VaultServer, tmp_path: Path, method: str
) -> None:
    (tmp_path / "file").write_text("from-the-file\n")
    bodies = {
        "approle": {"role_id": "r", "secret_id": "from-the-file"},
        "kubernetes": {"role": "r", "jwt": "from-the-file"},
    }
    more = {
        "approle": {"role_id": "r", "secret_id_file": str(tmp_path / "file")},
        "kubernetes": {"role": "r", "jwt_file": str(tmp_path / "file")},
    }
    path = f"auth/{method}/login"
    vault.logins[path] = bodies[method]
    clock = FakeClock()
    reader = client(vault, clock, auth=method, **more[method])
    for _ in range(3):
        assert reader.read("secret/app")["password"] == "s3cret"
    assert vault.asked.count(path) == 1
    clock.advance(81)
    reader.read("secret/app")
    assert vault.asked.count(path) == 2
    # Revoked before its end: one new login, with the file's new content.
    vault.tokens.clear()
    (tmp_path / "file").write_text("rotated")
    bodies[method]["secret_id" if method == "approle" else "jwt"] = "rotated"
    assert reader.read("secret/app")["password"] == "s3cret"
    assert vault.asked.count(path) == 3


def test_the_lease_says_how_long_values_are_valid(vault: VaultServer) -> None:
    reader = client(vault, token=TOKEN, ttl_ms="1500")
    reader.read("secret/app")
    assert reader.ttl_s("secret/app") == 1.5
    vault.lease_s = 60
    reader.read("secret/app")
    assert reader.ttl_s("/secret/app") == 60.0
    unlimited = client(vault, token=TOKEN)
    vault.lease_s = 0
    unlimited.read("secret/app")
    assert unlimited.ttl_s("secret/app") is None


def test_only_allowed_paths_are_asked_for(vault: VaultServer) -> None:
    vault.secrets["secret/data/application"] = {"data": {"password": "other"}}
    reader = client(vault, token=TOKEN, allowed_paths="secret/app, secret/team/")
    assert reader.read("secret/application") == {}
    assert vault.asked == []
    assert reader.read("secret/app")["password"] == "s3cret"


@pytest.mark.parametrize(
    "path", ["secret/../sys/mounts", "secret//app", "", "secret/app?list=true", "secret/a%2fb", "."]
)
def test_a_path_that_leads_elsewhere_is_refused(vault: VaultServer, path: str) -> None:
    with pytest.raises(ConfigError, match="path"):
        client(vault, token=TOKEN).read(path)
    assert vault.asked == []


@pytest.mark.parametrize(
    ("status", "error", "word"),
    [
        (503, RetriableError, "sealed"),
        (429, RetriableError, "overloaded"),
        (403, ConfigError, "policies"),
        (307, ConfigError, "a redirect, which is not followed"),
    ],
)
def test_a_refusal_is_one_sentence_without_the_token(
    vault: VaultServer, status: int, error: type[ConnectError], word: str
) -> None:
    vault.status = status
    with pytest.raises(error, match=word) as raised:
        client(vault, token=TOKEN).read("secret/app")
    assert f"HTTP {status}" in str(raised.value)
    assert "canary" not in str(raised.value)
    assert len(vault.asked) == 1


def test_no_answer_is_an_error_that_is_retried(vault: VaultServer) -> None:
    given = {"url": "http://127.0.0.1:1", "token": TOKEN}
    reader = VaultClient(VaultSettings.from_parameters(given, ""), {}, FakeClock())
    with pytest.raises(RetriableError, match="gave no valid answer"):
        reader.read("secret/app")


@pytest.mark.parametrize(
    ("changed", "key"),
    [
        ({"url": "http://vault.example:8200"}, "url"),
        ({"url": ""}, "url"),
        ({"url": "file:///etc/passwd"}, "url"),
        ({"auth": "ldap"}, "auth"),
        ({"kv.version": "3"}, "kv.version"),
        ({"timeout.ms": "0"}, "timeout.ms"),
        ({"url": "https://vault.example", "ca.file": "/no/such/file"}, "ca.file"),
    ],
)
def test_a_wrong_parameter_names_its_key(changed: dict[str, str], key: str) -> None:
    given = {"url": "http://127.0.0.1:8200", **changed}
    with pytest.raises(ConfigError, match=rf"a\.param\.{key}"):
        VaultSettings.from_parameters(given, "a.param.")


def test_what_a_login_needs_is_named(vault: VaultServer) -> None:
    with pytest.raises(ConfigError, match=r"role\.id is needed for auth=approle"):
        client(vault, auth="approle").read("secret/app")
    with pytest.raises(ConfigError, match=r"set config\.providers\.vault\.param\.token\.file"):
        client(vault).read("secret/app")


def test_the_token_and_the_value_stay_out_of_logs(vault: VaultServer) -> None:
    assert resolve(vault, "${vault:secret/app:password}") == "s3cret"
    assert "s3cret" not in without_secrets("it is s3cret")
    assert TOKEN not in without_secrets(f"it is {TOKEN}")
