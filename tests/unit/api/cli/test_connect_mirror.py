"""The command line of connect-mirror, as far as no cluster is needed."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from api.cli import mirror_maker
from api.cli.connect_mirror.main import COMMANDS, main

FLOW = """clusters = a, b
a.bootstrap.servers = 127.0.0.1:1
b.bootstrap.servers = 127.0.0.1:1
a->b.enabled = true
metrics.listener =
"""


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "mm2.properties"
    path.write_text(FLOW)
    return str(path)


@pytest.mark.parametrize("name", [each.name for each in COMMANDS])
def test_help_of_every_subcommand_is_0_and_usage_errors_are_2(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([name, "--help"]) == 0
    assert "Exit codes" in capsys.readouterr().out
    assert main([name, "--version"]) == 0
    assert main([name, "--unknown-option"]) == 2
    assert f"connect-mirror {name}" in capsys.readouterr().err


def test_no_subcommand_is_2() -> None:
    assert main([]) == 2


def test_a_mistake_of_ours_is_not_told_as_a_wrong_command_line(
    file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """systemd does not start a service again whose command line is wrong."""

    def fail(_: Path) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(mirror_maker, "_load", fail)
    assert main(["run", "-c", file]) == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ["run"],
        ["check"],
        ["lag"],
        ["why", "t"],
        ["pause"],
        ["audit", "--engine", "local"],
        ["backfill", "--engine", "local"],
        ["archive", "--to", "somewhere"],
        ["translate", "--from", "a", "--to", "b", "--group", "g"],
        ["clusters", "--to", "b"],
    ],
)
def test_a_wrong_configuration_is_78(
    arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "wrong.properties"
    path.write_text("clusters = a, b\na->b.enabled = perhaps\n")
    assert main([*arguments, "-c", str(path)]) == 78
    assert "a->b.enabled" in capsys.readouterr().err
    assert main([*arguments, "-c", str(tmp_path / "absent.properties")]) == 78
    assert "absent.properties" in capsys.readouterr().err


def test_a_flow_that_the_shell_cut_is_explained(
    file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["lag", "-c", file, "--flow", "a-"]) == 78
    assert "Write a:b" in capsys.readouterr().err.replace("A:B", "a:b")


def test_an_unreachable_cluster_is_named_with_its_cause(
    file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", "-c", file, "-o", "json"]) == 1
    report = json.loads(capsys.readouterr().out)
    assert report["can_run"] is False
    errors = [each["text"] for each in report["findings"] if each["level"] == "error"]
    assert len(errors) == 2
    assert all("127.0.0.1:1" in each and "refused" in each.lower() for each in errors)

    assert main(["check", "-c", file, "-o", "yaml"]) == 1
    assert yaml.safe_load(capsys.readouterr().out)["clusters"][0]["alias"] == "a"


def test_why_names_the_key_and_line_of_a_flow_that_is_not_enabled(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "mm2.properties"
    path.write_text(FLOW + "b->a.enabled = false\n")
    assert main(["why", "t", "--topic", "-c", str(path), "--flow", "b:a", "-o", "json"]) == 3
    [found] = json.loads(capsys.readouterr().out)
    assert found["verdict"] == "stop"
    assert (found["steps"][-1]["key"], found["steps"][-1]["line"]) == ("b->a.enabled", 6)


def test_status_says_where_no_mirror_answers(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status", "-c", file]) == 78
    assert "metrics.listener" in capsys.readouterr().err
    assert main(["status", "--url", "http://127.0.0.1:1"]) == 1
    assert "No mirror answers at http://127.0.0.1:1" in capsys.readouterr().err


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_know_every_subcommand(
    shell: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["completion", shell]) == 0
    script = capsys.readouterr().out
    assert [each.name for each in COMMANDS if each.name not in script] == []
    interpreter = shutil.which(shell)
    if interpreter is not None:
        path = tmp_path / "completion"
        path.write_text(script)
        subprocess.run([interpreter, "-n", str(path)], check=True, timeout=30)


def test_the_manual_has_every_subcommand_and_its_options(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["man"]) == 0
    page = capsys.readouterr().out
    assert page.startswith('.TH "CONNECT-MIRROR" "1"')
    assert [each.name for each in COMMANDS if f'.SS "{each.name}"' not in page] == []
    assert main(["man", "audit"]) == 0
    assert "\\-\\-repair" in capsys.readouterr().out
    assert main(["man", "nothing"]) == 2
