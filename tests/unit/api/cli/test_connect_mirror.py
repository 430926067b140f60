"""The command line of connect-mirror, as far as no cluster is needed."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from api.cli import mirror_maker
from api.cli.connect_mirror.main import COMMANDS, main
from api.cli.connector_files import read_connector_file
from connect.config.properties import load_properties
from connect.config.types import SecretStr
from connectors.mirror.history.database import open_history
from connectors.mirror.history.rows import EventRow, FlowTask
from tests.support.deployment.strimzi_resources import V1BETA2

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


@pytest.mark.parametrize(
    "command",
    [
        ["lag"],
        ["audit", "--engine", "local"],
        ["backfill", "--engine", "local"],
        ["archive", "--verify", "somewhere"],
    ],
)
def test_all_commands_read_a_pattern_of_topics_as_java_does(
    command: list[str], file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    named = "(?P<name>orders)"  # valid in Python
    assert main([*command, "-c", file, "--topics", named]) == 78
    assert f"Invalid value {named} for --topics" in capsys.readouterr().err


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


def loss(source: str, target: str, url: str, topic: str) -> None:
    """Write a loss into a history."""
    written = open_history(SecretStr(url), 7)
    assert written is not None
    text = "records were deleted before they were copied"
    event = EventRow("retention", topic, 3, topic, "continue", "source", 10, 59, 50, 60, text)
    written.add(FlowTask("MirrorSourceConnector", 0, source, target), event)
    written.close()


def test_history_shows_the_flows_of_the_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shared, own = (f"sqlite:///{tmp_path / name}" for name in ("shared.db", "own.db"))
    path = tmp_path / "mm2.properties"
    path.write_text(
        FLOW + f"b->a.enabled = true\nmirror.history.url = {shared}\n"
        f"b->a.mirror.history.url = {own}\n"
    )
    loss("a", "b", shared, "orders")
    loss("x", "y", shared, "of-another-file")
    loss("b", "a", own, "payments")

    def lost(*arguments: str) -> list[tuple[str, str]]:
        assert main(["history", "-o", "json", *arguments]) == 0
        events = json.loads(capsys.readouterr().out)
        return [(each["source"], each["topic"]) for each in events]

    assert sorted(lost("-c", str(path))) == [("a", "orders"), ("b", "payments")]
    assert lost("-c", str(path), "--flow", "b:a") == [("b", "payments")]
    assert lost("-c", str(path), "--flow", "a->b") == [("a", "orders")]
    assert lost("--url", shared, "--flow", "x:y") == [("x", "of-another-file")]

    assert main(["history", "-c", str(path), "--flow", "a:b", "-o", "tsv"]) == 0
    assert "\torders-3\tretention\t" in capsys.readouterr().out


def test_history_says_why_there_is_none(
    file: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.delenv("STATE_DIRECTORY", raising=False)
    assert main(["history", "-c", file]) == 78
    assert "There is no history of a->b on this host" in capsys.readouterr().err
    assert main(["history", "-c", file, "--flow", "a"]) == 78
    assert "Flows that copy: a->b" in capsys.readouterr().err
    assert main(["history", "-c", str(tmp_path / "absent.properties")]) == 78
    assert "absent.properties" in capsys.readouterr().err
    Path(file).write_text(FLOW + "mirror.history.url = none\n")
    assert main(["history", "-c", file, "--flow", "a:b"]) == 78
    assert "mirror.history.url is none" in capsys.readouterr().err


def test_acls_are_commands_or_a_document(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["acls", "-c", file, "--principal", "User:m", "--cluster", "a"]
    assert main(arguments) == 0
    assert "kafka-acls.sh --bootstrap-server" in capsys.readouterr().out
    assert main([*arguments, "-o", "json"]) == 0
    assert {
        "cluster": "a",
        "principal": "User:m",
        "operation": "Read",
        "resource": "topic",
        "name": "*",
        "pattern": "literal",
    } in json.loads(capsys.readouterr().out)


def test_a_reader_that_has_enough_is_no_error(file: str) -> None:
    command = [sys.executable, "-m", "api.cli.connect_mirror.main", "acls", "-c", file]
    with subprocess.Popen(
        [*command, "--principal", "User:m"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.stderr is not None
        assert process.stderr.read() == b""
        assert process.wait(timeout=60) == 141


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


def test_a_resource_of_strimzi_is_printed_for_dedicated_mode_and_written_for_workers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    resource, made = tmp_path / "resource.yaml", tmp_path / "new" / "made"
    resource.write_text(V1BETA2)
    command = ["import", "strimzi", str(resource)]
    assert main(command) == 0
    printed = capsys.readouterr()
    assert "\nclusters = main, dr\n" in printed.out
    assert "# Not imported: spec.replicas" in printed.out
    assert "not imported: spec.replicas" in printed.err

    assert main([*command, "--workers", str(made)]) == 0
    names = ["main-dr.MirrorCheckpointConnector.json", "main-dr.MirrorSourceConnector.json"]
    written = capsys.readouterr()
    assert sorted(written.out.split()) == [
        str(made / name) for name in [*names, "worker.properties"]
    ]
    assert "not imported: spec.replicas" in written.err
    connector = read_connector_file(str(made / names[1]))
    assert connector.name == connector.config["name"] == "main->dr.MirrorSourceConnector"
    worker = load_properties(made / "worker.properties")
    assert worker["group.id"] == "mirrormaker2-cluster"

    occupied = tmp_path / "occupied"
    occupied.write_text("")
    assert main([*command, "--workers", str(occupied)]) == 78
    assert f"Cannot write {occupied}" in capsys.readouterr().err
