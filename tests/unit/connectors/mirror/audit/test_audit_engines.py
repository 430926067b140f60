"""The processes of `--engine local`."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from connectors.mirror.audit.engines import process_pool


def test_processes_import_nothing_of_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONSAFEPATH", "")
    # Python's own module, which a new process imports before it has this one's path.
    (tmp_path / "multiprocessing.py").write_text("raise RuntimeError('not to be run')\n")
    monkeypatch.chdir(tmp_path)
    with process_pool(1) as pool:
        assert pool.submit(os.getpid).result(timeout=60.0) != os.getpid()
