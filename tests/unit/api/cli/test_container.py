"""The configuration of images, from the environment and from files."""

from __future__ import annotations

from pathlib import Path

import pytest

from api.cli import container
from api.cli.container import environment_properties, main
from connect.config.properties import load_properties


def test_names_follow_the_convention_of_kafka_images() -> None:
    found = environment_properties(
        "mirror",
        {
            "MIRROR_CLUSTERS": "a, b",
            "MIRROR_A_BOOTSTRAP_SERVERS": "a:9092",
            "MIRROR_A____B_ENABLED": "true",
            "MIRROR_OFFSET___SYNCS_TOPIC_REPLICATION_FACTOR": "1",
            "MIRROR_MY__ALIAS_BOOTSTRAP_SERVERS": "c:9092",
            "MIRROR_PROPERTIES": "x = y",
            "PATH": "/bin",
        },
    )
    assert found == {
        "clusters": "a, b",
        "a.bootstrap.servers": "a:9092",
        "a->b.enabled": "true",
        "offset-syncs.topic.replication.factor": "1",
        "my_alias.bootstrap.servers": "c:9092",
    }


def test_workers_also_take_the_short_names() -> None:
    found = environment_properties(
        "distributed", {"GROUP_ID": "1", "BOOTSTRAP_SERVERS": "a:1", "CONNECT_GROUP_ID": "2"}
    )
    assert found == {"bootstrap.servers": "a:1", "group.id": "2"}


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    seen: list[tuple[str, str]] = []

    def start(mode: str, path: str, arguments: object) -> int:
        seen.append((mode, path))
        return 0

    monkeypatch.setattr(container, "_start", start)
    return seen


def test_a_mounted_file_alone_is_used_itself(
    tmp_path: Path, started: list[tuple[str, str]]
) -> None:
    file = tmp_path / "mm2.properties"
    file.write_text("clusters = a, b\n")
    assert main(["mirror"], {"CONNECT_MIRROR_CONFIG": str(file)}) == 0
    assert started == [("mirror", str(file))]


def test_variables_win_over_the_file_and_the_result_is_private(
    tmp_path: Path, started: list[tuple[str, str]]
) -> None:
    file = tmp_path / "mm2.properties"
    file.write_text("clusters = a, b\na.bootstrap.servers = old:1\n")
    environment = {
        "CONNECT_MIRROR_CONFIG": str(file),
        "MIRROR_A_BOOTSTRAP_SERVERS": "new:1",
        "MIRROR_A_SASL_JAAS_CONFIG": 'x required password="a\\b=c#d";',
    }
    assert main(["mirror"], environment) == 0
    [(_, path)] = started
    assert Path(path).stat().st_mode & 0o077 == 0
    assert load_properties(path) == {
        "clusters": "a, b",
        "a.bootstrap.servers": "new:1",
        "a.sasl.jaas.config": 'x required password="a\\b=c#d";',
    }
    Path(path).unlink()


def test_no_configuration_is_78_and_says_what_to_set(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["distributed"], {}) == 78
    assert "CONNECT_CONFIG_FILE" in capsys.readouterr().err


def test_health_is_asked_of_the_program_that_runs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["healthy"], {"CONNECT_HEALTH_URL": "http://127.0.0.1:1"}) == 1
    assert "http://127.0.0.1:1" in capsys.readouterr().err
