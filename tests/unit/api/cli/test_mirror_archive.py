"""The command line of connect-mirror-archive, as far as no cluster is needed."""

from __future__ import annotations

from pathlib import Path

import pytest

from api.cli.mirror_archive import main
from api.cli.program import EXIT_CONFIG, EXIT_USAGE


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "mm2.properties"
    path.write_text("clusters = A, B\nA->B.enabled = perhaps\n")
    return str(path)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ([], "one of the arguments --to --restore --verify is required"),
        (["--to", "x", "--restore", "y"], "not allowed with argument --to"),
        (["--restore", "x", "--every", "60"], "--every needs --to"),
        (["--verify", "x", "--every", "60"], "--every needs --to"),
        (["--to", "x", "--every", "60", "--plan"], "--plan and --every exclude each other"),
        (["--verify", "x", "--plan"], "--plan and --verify exclude each other"),
        (["--to", "x", "--every", "0"], "use a whole number of at least 1"),
        (["--to", "x", "--format", "orc"], "invalid choice: 'orc'"),
        (["--to", "x", "--format", "delta"], "--format delta or iceberg and --table TABLE need"),
        (["--to", "x", "--table", "t"], "--format delta or iceberg and --table TABLE need"),
        (["--to", "x", "--format", "parquet", "--table", "t"], "--table TABLE need each other"),
        (["--restore", "x", "--table", "t"], "--format and --table need --to"),
    ],
)
def test_wrong_usage_is_named(
    arguments: list[str], reason: str, file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([file, *arguments]) == EXIT_USAGE
    assert reason in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["--to", "x"], ["--restore", "x"]])
def test_a_wrong_file_is_named(
    arguments: list[str], file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([file, *arguments]) == EXIT_CONFIG
    assert "A->B.enabled" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--to", "--restore", "--verify"])
def test_a_spark_connect_server_is_refused_before_anything_starts(
    option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "mm2.properties"
    servers = "A.bootstrap.servers = 127.0.0.1:1\nB.bootstrap.servers = 127.0.0.1:1\n"
    path.write_text(
        f"clusters = A, B\n{servers}A->B.enabled = true\nspark.remote = sc://h/;token=hidden-token\n"
    )
    assert main([str(path), option, "x"]) == EXIT_CONFIG
    said = capsys.readouterr().err
    assert "connect-mirror-archive cannot run through Spark Connect (spark.remote=sc://h)" in said
    assert "set spark.master instead" in said
    assert "hidden-token" not in said
