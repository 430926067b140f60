"""The standalone command's line and its first errors. Running workers: tests/integration."""

from __future__ import annotations

from pathlib import Path

import pytest

from api.cli.standalone import main


@pytest.mark.parametrize(("argv", "code"), [([], 2), (["--nothing"], 2), (["-h"], 0)])
def test_wrong_usage_and_help_tell_the_arguments(
    argv: list[str], code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(argv) == code
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
