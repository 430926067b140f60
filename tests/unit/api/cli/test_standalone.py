"""The standalone command's line and its first errors. Running workers: tests/integration."""

from __future__ import annotations

from pathlib import Path

import pytest

from api.cli.standalone import main


@pytest.mark.parametrize("argv", [[], ["--help"], ["-h"], ["--nothing"]])
def test_wrong_usage_and_help_end_with_1(
    argv: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(argv) == 1
    shown = capsys.readouterr()
    assert "worker.properties" in shown.out + shown.err


def test_a_worker_without_properties_says_which_it_needs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    missing = tmp_path / "worker.properties"

    assert main([str(missing)]) == 78
    assert str(missing) in capsys.readouterr().err
    assert main([""]) == 78
    assert "bootstrap.servers" in capsys.readouterr().err
