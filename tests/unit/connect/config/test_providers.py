"""`${provider:path:key}` references, and what providers give for them."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest

from connect.config.providers import (
    ConfigProviders,
    EnvVarConfigProvider,
    has_reference,
    is_reference,
)
from connect.errors import ConfigError

PACKAGE = "org.apache.kafka.common.config.provider."


def providers(kind: str, **parameters: str) -> ConfigProviders:
    return ConfigProviders.from_properties(
        {
            "config.providers": "p",
            "config.providers.p.class": PACKAGE + kind,
            **{
                f"config.providers.p.param.{key.replace('_', '.')}": value
                for key, value in parameters.items()
            },
        }
    )


@pytest.fixture
def secrets(tmp_path: Path) -> Path:
    path = tmp_path / "secrets.properties"
    path.write_text("password=päss\nnested=${p:x:y}\n", encoding="utf-8")
    return path


def test_a_file_gives_its_keys_inside_of_text(secrets: Path) -> None:
    resolved = providers("FileConfigProvider").resolve(
        {"jaas": f'user="u" password="${{p:{secrets}:password}}";', "plain": "x"}
    )
    assert resolved == {"jaas": 'user="u" password="päss";', "plain": "x"}


def test_what_cannot_be_resolved_stays_as_it_is(secrets: Path) -> None:
    raw = {
        "unknown provider": "${q:path:key}",
        "unknown key": f"${{p:{secrets}:nothing}}",
        "no path": "${p:password}",
        "no reference": "${HOME} $p:a} {p:b}",
    }
    assert providers("FileConfigProvider").resolve(raw) == raw


def test_what_a_provider_gives_is_not_resolved_again(secrets: Path) -> None:
    resolved = providers("FileConfigProvider").resolve({"a": f"${{p:{secrets}:nested}}"})
    assert resolved == {"a": "${p:x:y}"}


def test_a_missing_file_is_an_error_naming_it(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"Could not read properties from file .*gone"):
        providers("FileConfigProvider").resolve({"a": f"${{p:{tmp_path}/gone:key}}"})


@pytest.mark.parametrize(
    ("text", "resolved"),
    [
        ("${p:FILE:password}", "päss"),
        ("${p:FILE:password}${p:FILE:password}", "pässpäss"),
        ("${p:FILE:pass\nword}", "${p:FILE:pass\nword}"),
        ("${plain} ${p:FILE:password}", "${plain} päss"),
        ("${${p:FILE:password}", "${${p:FILE:password}"),
        ("${p:FILE:password", "${p:FILE:password"),
        ("${p:FILE:pass:word}", "${p:FILE:pass:word}"),
    ],
)
def test_a_reference_ends_at_the_first_brace(secrets: Path, text: str, resolved: str) -> None:
    value = text.replace("FILE", str(secrets))
    found = providers("FileConfigProvider").resolve({"a": value})["a"]
    assert found == resolved.replace("FILE", str(secrets))


@pytest.mark.parametrize(
    ("text", "has", "is_one"),
    [
        ("${a:b}", True, True),
        (" ${a:b:c} ", True, True),
        ("x${a:b}", True, False),
        ("${a:b}${a:b}", True, False),
        ("${a}", False, False),
        ("${a:b", False, False),
    ],
)
def test_which_texts_are_references(text: str, has: bool, is_one: bool) -> None:
    assert (has_reference(text), is_reference(text)) == (has, is_one)


def test_a_pipe_or_a_device_is_not_read(tmp_path: Path) -> None:
    """Reading would not end."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (pipe, Path("/dev/zero")):
        with pytest.raises(ConfigError, match=f"from file {path}: it is no regular file"):
            providers("FileConfigProvider").resolve({"a": f"${{p:{path}:key}}"})


def test_a_file_of_any_size_is_read_in_bounded_memory(tmp_path: Path) -> None:
    huge = tmp_path / "huge"
    with huge.open("wb") as file:
        file.truncate(9 << 20)
    with pytest.raises(ConfigError, match="it is larger than 8 MiB"):
        providers("FileConfigProvider").resolve({"a": f"${{p:{huge}:key}}"})
    with pytest.raises(ConfigError, match="it is larger than 8 MiB"):
        providers("DirectoryConfigProvider").resolve({"a": f"${{p:{tmp_path}:huge}}"})


def test_a_directory_gives_one_key_for_each_file(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("s3cret\n", encoding="utf-8")
    (tmp_path / "sub").mkdir()
    resolved = providers("DirectoryConfigProvider").resolve(
        {"a": f"${{p:{tmp_path}:password}}", "b": f"${{p:{tmp_path}:sub}}"}
    )
    assert resolved == {"a": "s3cret\n", "b": f"${{p:{tmp_path}:sub}}"}


@pytest.mark.parametrize("kind", ["FileConfigProvider", "DirectoryConfigProvider"])
def test_paths_outside_of_the_allowed_ones_are_not_read(
    kind: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    inside, outside = tmp_path / "in", tmp_path / "out"
    for directory in (inside, outside):
        directory.mkdir()
        (directory / "key").write_text("key=value", encoding="utf-8")
    tail = "/key" if kind == "FileConfigProvider" else ""
    limited = providers(kind, allowed_paths=str(inside))
    raw = {"a": f"${{p:{outside}{tail}:key}}", "b": f"${{p:{inside}/../out{tail}:key}}"}
    with caplog.at_level(logging.WARNING):
        assert limited.resolve(raw) == raw
    assert "allowed.paths" in caplog.text
    assert limited.resolve({"a": f"${{p:{inside}{tail}:key}}"})["a"] in ("value", "key=value")


@pytest.mark.parametrize(
    ("paths", "reason"), [("relative", "not absolute"), ("/no/such/directory", "does not exist")]
)
def test_wrong_allowed_paths_are_refused(paths: str, reason: str) -> None:
    with pytest.raises(
        ConfigError, match=rf"config\.providers\.p\.param\.allowed\.paths.*{reason}"
    ):
        providers("FileConfigProvider", allowed_paths=paths)


def test_environment_variables_are_limited_by_the_allowlist() -> None:
    environment = {"MM_PASSWORD": "s3cret", "OTHER": "o"}
    limited = EnvVarConfigProvider({"allowlist.pattern": "MM_.*"}, "", environment)
    resolved = ConfigProviders({"env": limited}).resolve(
        {"a": "${env:MM_PASSWORD}", "b": "${env:OTHER}"}
    )
    assert resolved == {"a": "s3cret", "b": "${env:OTHER}"}


def test_environment_references_take_no_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MM_TEST_VARIABLE", "v")
    env = providers("EnvVarConfigProvider")
    assert env.resolve({"a": "${p:MM_TEST_VARIABLE}", "b": "${p::MM_TEST_VARIABLE}"}) == {
        "a": "v",
        "b": "v",
    }
    with pytest.raises(ConfigError, match="Path is not supported for EnvVarConfigProvider"):
        env.resolve({"a": "${p:path:KEY}"})


@pytest.mark.parametrize(
    ("props", "message"),
    [
        (
            {"config.providers": "p"},
            r'Missing required configuration "config\.providers\.p\.class"',
        ),
        (
            {"config.providers": "p", "config.providers.p.class": "org.example.Vault"},
            r"Invalid value org\.example\.Vault for configuration config\.providers\.p\.class",
        ),
        ({"config.providers": "p,,q"}, r"Configuration 'config\.providers' values must not be"),
        (
            {
                "config.providers": "p",
                "config.providers.p.class": "EnvVarConfigProvider",
                "config.providers.p.param.allowlist.pattern": "(",
            },
            r"config\.providers\.p\.param\.allowlist\.pattern",
        ),
    ],
)
def test_wrong_declarations_are_refused(props: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        ConfigProviders.from_properties(props)


def test_without_providers_nothing_changes() -> None:
    assert ConfigProviders.from_properties({}).resolve({"a": "${b:c}"}) == {"a": "${b:c}"}
