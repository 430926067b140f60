"""The audit's command line: what cannot work is said before the work, with what to do."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from api.cli.mirror_audit import main
from api.cli.program import EXIT_FAILED, EXIT_USAGE
from connectors.mirror.audit import planner as facts


@pytest.fixture
def properties(tmp_path: Path) -> Path:
    """Of clusters that are not there."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    file = tmp_path / "mm2.properties"
    file.write_text(
        "clusters = A, B\n"
        f"A.bootstrap.servers = 127.0.0.1:{port}\n"
        f"B.bootstrap.servers = 127.0.0.1:{port}\n"
        "A->B.enabled = true\n"
    )
    return file


def test_a_cluster_that_does_not_answer_is_named(
    properties: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(facts, "REACH_S", 0.3)
    assert main([str(properties), "--engine", "local"]) == EXIT_FAILED
    said = capsys.readouterr().err
    assert "connect-mirror-audit: The source cluster at 127.0.0.1:" in said
    assert "does not answer" in said


@pytest.mark.parametrize(
    ("where", "reason"),
    [("no/such/found.json", "does not exist; create it"), (".", "a directory: name a file")],
)
def test_a_result_that_could_not_be_written_is_refused_before_the_work(
    properties: Path, where: str, reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    target = properties.parent / where
    assert main([str(properties), "--json", str(target)]) == EXIT_USAGE
    assert reason in capsys.readouterr().err


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_directory_without_permission_is_refused(
    properties: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o500)
    assert main([str(properties), "--json", str(closed / "found.json")]) == EXIT_USAGE
    assert "is not writable" in capsys.readouterr().err
