"""Zip files are read once, however often Python is told to forget what can be imported."""

from __future__ import annotations

import importlib
import sys
import zipfile
import zipimport
from collections.abc import Iterator
from pathlib import Path

import pytest

from connectors.spark.worker_imports import leaving_zips_read


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A zip file on the path, with the modules first and second of the package zipped."""
    archive = tmp_path / "code.zip"
    with zipfile.ZipFile(archive, "w") as opened:
        for name in ("__init__", "first", "second"):
            opened.writestr(f"zipped/{name}.py", f"NAME = {name!r}\n")
    monkeypatch.syspath_prepend(str(archive))
    yield archive
    for name in [name for name in sys.modules if name.split(".")[0] == "zipped"]:
        del sys.modules[name]


def test_a_task_leaves_nothing_that_is_read_again(
    package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    reader = zipimport._read_directory  # type: ignore[attr-defined]

    def noting(path: str) -> object:
        read.append(path)
        return reader(path)

    monkeypatch.setattr(zipimport, "_read_directory", noting)

    def first() -> object:
        return importlib.import_module("zipped.first").NAME

    @leaving_zips_read
    def second() -> object:
        return importlib.import_module("zipped.second").NAME

    assert first() == "first"
    importlib.invalidate_caches()
    assert str(package) in sys.path_importer_cache
    assert second() == "second"
    read.clear()
    importlib.invalidate_caches()
    assert read == []


def test_a_task_that_fails_leaves_them_too(package: Path) -> None:
    @leaving_zips_read
    def task() -> None:
        importlib.import_module("zipped.first")
        raise ValueError("of the task")

    with pytest.raises(ValueError, match="of the task"):
        task()
    assert str(package) not in sys.path_importer_cache
